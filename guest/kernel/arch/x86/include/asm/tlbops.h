/* x86: instructions that remove translations of this CPU. */
#ifndef ASM_TLBOPS_H
#define ASM_TLBOPS_H

#include <asm/cpu.h>

static inline void invlpg(u64 addr)
{
	__asm__ volatile("invlpg (%0)" ::"r"(addr) : "memory");
}

/* Everything of the current address space but global entries. */
static inline void flush_tlb_local(void)
{
	write_cr3(read_cr3());
}

#endif
