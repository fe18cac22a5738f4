/* aarch64: per-CPU registers and the loaded address space. */
#include <asm/pgtable.h>
#include <early.h>
#include <kernel.h>
#include <mm.h>
#include <smp.h>

#define TCR_T0SZ_MASK 0x3fUL

extern char vectors[];

/* Nothing is mapped here: what TTBR0 holds while no user code runs. */
static u64 empty_table[512] __aligned(4096);

void arch_cpu_init(struct cpu *cpu)
{
	write_sysreg(tpidr_el1, cpu);
	write_sysreg(vbar_el1, vectors);
	write_sysreg(ttbr0_el1, __pa(empty_table));
	isb();
	/* The identity map of the boot code goes. */
	__asm__ volatile("tlbi vmalle1" ::: "memory");
	dsb(nsh);
	isb();
	arch_ipi_init();
}

static void set_user_levels(int levels)
{
	u64 tcr = read_sysreg(tcr_el1);
	u64 size = levels == 3 ? 64 - 39 : 64 - 48;

	if ((tcr & TCR_T0SZ_MASK) == size)
		return;
	write_sysreg(tcr_el1, (tcr & ~TCR_T0SZ_MASK) | size);
	isb();
	/* Walks may be cached by the old geometry. */
	__asm__ volatile("tlbi vmalle1" ::: "memory");
	dsb(nsh);
	isb();
}

/* The ASID is in TTBR1 (TCR.A1), so the table goes away first: no walk sees
 * the one's tables with the other's ASID. */
void switch_mm(struct mm *mm)
{
	struct cpu *cpu = this_cpu();

	cpu->lazy = false;
	cpu->active_mm = mm;
	write_sysreg(ttbr0_el1, __pa(empty_table));
	isb();
	if (!mm)
		return;
	set_user_levels(mm->levels);
	write_sysreg(ttbr1_el1, early.kernel_root | mm->asid << 48);
	isb();
	write_sysreg(ttbr0_el1, __pa(mm->root));
	isb();
}

/* Invalidation reaches every CPU anyway. */
void enter_lazy_tlb(void)
{
	this_cpu()->lazy = true;
}

/* The kernel has a root of its own. */
void arch_share_kernel(u64 *root)
{
}

int arch_levels(u64 wanted)
{
	if (wanted != 3 && wanted != 4)
		panic("%lu table levels: 3 (39 bits) and 4 (48 bits) are supported", wanted);
	return (int)wanted;
}
