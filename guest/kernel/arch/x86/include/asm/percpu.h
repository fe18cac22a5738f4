/* x86: what each CPU keeps beside what every architecture keeps. */
#ifndef ASM_PERCPU_H
#define ASM_PERCPU_H

#include <types.h>

/* Address spaces that this CPU keeps translations of, one PCID each. */
#define TLB_SLOTS 6

struct tlb_slot {
	u64 mm_id; /* 0 when free */
	u64 gen;   /* the TLB is clean up to this change of the address space */
};

struct task_state {
	u32 reserved0;
	u32 rsp[6]; /* three stacks, low and high halves: not aligned to 8 */
	u32 rest[19];
};

struct arch_cpu {
	struct tlb_slot slots[TLB_SLOTS];
	u32 loaded_slot, next_slot;
	u64 gdt[8];
	struct task_state tss;
};

#endif
