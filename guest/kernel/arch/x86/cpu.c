/* x86: per-CPU descriptor tables and MSRs. */
#include <cpu.h>
#include <early.h>

void arch_cpu_init(struct cpu *cpu)
{
	wrmsr(MSR_GS_BASE, (u64)cpu);
	write_cr3(early.kernel_root);
}
