/* The host build's TLB maintenance: recorded. */
#ifndef ASM_TLBOPS_H
#define ASM_TLBOPS_H

#include <asm/cpu.h>

void tlbi_asid(u64 arg);
void tlbi_va(u64 arg, bool last_level);
void tlbi_range(u64 arg, bool last_level);
void invlpg(u64 addr);
void flush_tlb_local(void);

#endif
