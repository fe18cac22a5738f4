/* The host build's part of arch/aarch64/cpu.c: nothing to load. */
#include <mm.h>

void switch_mm(struct mm *mm)
{
	this_cpu()->active_mm = mm;
}

void enter_lazy_tlb(void)
{
}

void arch_share_kernel(u64 *root)
{
}
