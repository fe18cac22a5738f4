/* The first translation tables, built while translation is still off. */
#ifndef EARLY_H
#define EARLY_H

#include <abi.h>

/* Physical addresses: the boot code turns translation on with them, and the
 * frame allocator starts at `free`. */
struct early {
	u64 kernel_root; /* upper half only */
	u64 boot_root;   /* identity map, used while translation is turned on */
	u64 free;
	u64 info;
};

extern struct early early;

#endif
