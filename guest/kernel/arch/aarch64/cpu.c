/* aarch64: per-CPU registers. */
#include <cpu.h>
#include <early.h>

void arch_cpu_init(struct cpu *cpu)
{
	write_sysreg(tpidr_el1, cpu);
	isb();
}
