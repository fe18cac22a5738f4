/* The contract between the machine and a guest: boot information and
 * hypercalls. docs/guest-abi.md describes it for people. */
#ifndef ABI_H
#define ABI_H

#include <types.h>

#define BOOT_MAGIC 0x45504f4353554d4dUL /* "MMUSCOPE", little endian */
#define BOOT_VERSION 1

struct boot_param {
	char key[24];
	char text[40];
};

struct boot_info {
	u64 magic;
	u32 version;
	u32 cpus;
	u64 ram_base;
	u64 ram_size;
	u64 features;
	u64 free_start; /* first physical address behind the image, page aligned */
	u32 nparams;
	u32 pad;
	struct boot_param params[62];
};

/* Feature bits of boot_info.features. */
#define FEAT_TLBIRANGE (1UL << 0)
#define FEAT_TTL (1UL << 1)
#define FEAT_REPEAT_TLBI (1UL << 2) /* an erratum: repeat TLBI and DSB */
#define FEAT_HAFDBS (1UL << 3)
#define FEAT_BBML2_NOABORT (1UL << 4)
#define FEAT_PCID (1UL << 16)
#define FEAT_INVPCID (1UL << 17)
#define FEAT_PTI (1UL << 18)
#define FEAT_PGE (1UL << 19)
#define FEAT_LA57 (1UL << 20)

#define HC_EXIT 0
#define HC_CONSOLE 1
#define HC_REGION_BEGIN 2
#define HC_REGION_END 3
#define HC_RESULT 4
#define HC_START_CPU 5
#define HC_PANIC 6
#define HC_UNSAFE 7

#define EXIT_FINE 0
#define EXIT_UNSAFE 3

#endif
