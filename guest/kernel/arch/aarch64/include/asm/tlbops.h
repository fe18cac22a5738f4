/* aarch64: TLB maintenance instructions (Arm ARM DDI 0487, D8.17.5), inner
 * shareable forms. `arg` is the operand register as the architecture defines
 * it. */
#ifndef ASM_TLBOPS_H
#define ASM_TLBOPS_H

#include <asm/cpu.h>

#define tlbi(op, arg) __asm__ volatile("tlbi " #op ", %0" ::"r"((u64)(arg)) : "memory")

static inline void tlbi_asid(u64 arg)
{
	tlbi(aside1is, arg);
}

static inline void tlbi_va(u64 arg, bool last_level)
{
	if (last_level)
		tlbi(vale1is, arg);
	else
		tlbi(vae1is, arg);
}

/* RVALE1IS and RVAE1IS by encoding: assemblers of the base architecture do not
 * know the names. */
static inline void tlbi_range(u64 arg, bool last_level)
{
	if (last_level)
		__asm__ volatile("sys #0, c8, c2, #5, %0" ::"r"(arg) : "memory");
	else
		__asm__ volatile("sys #0, c8, c2, #1, %0" ::"r"(arg) : "memory");
}

static inline void tlbi_all_local(void)
{
	__asm__ volatile("tlbi vmalle1" ::: "memory");
}

#endif
