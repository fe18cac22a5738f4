/* x86: zeroing by stores of a chosen width. */
#ifndef ASM_ZERO_H
#define ASM_ZERO_H

#include <types.h>

/* Nothing else in the kernel uses vector registers. */
#define zero_store_begin() __asm__ volatile("xorps %%xmm0, %%xmm0" ::: "memory")

static inline void zero_16(void *p)
{
	__asm__ volatile("movups %%xmm0, (%0)" ::"r"(p) : "memory");
}

/* REP STOS of one line: `p` is aligned to 64 bytes. */
static inline void zero_line(void *p)
{
	u64 count = 8;

	__asm__ volatile("rep stosq" : "+D"(p), "+c"(count) : "a"(0UL) : "memory");
}

#endif
