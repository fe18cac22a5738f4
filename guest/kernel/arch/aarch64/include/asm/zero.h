/* aarch64: zeroing by stores of a chosen width. */
#ifndef ASM_ZERO_H
#define ASM_ZERO_H

#include <types.h>

#define zero_store_begin() do { } while (0)

static inline void zero_16(void *p)
{
	__asm__ volatile("stp xzr, xzr, [%0]" ::"r"(p) : "memory");
}

/* DC ZVA: `p` is aligned to 64 bytes, which is the block of these machines. */
static inline void zero_line(void *p)
{
	__asm__ volatile("dc zva, %0" ::"r"(p) : "memory");
}

#endif
