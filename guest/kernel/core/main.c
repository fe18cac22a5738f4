/* Where each CPU arrives once translation is on. */
#include <cpu.h>
#include <early.h>
#include <frame.h>
#include <kernel.h>

struct cpu cpus[CPUS_MAX];
u32 cpu_count;
extern char boot_stack_top[];

void __noreturn kernel_start(void)
{
	struct cpu *cpu = &cpus[0];

	boot_info = __va(early.info);
	cpu->self = cpu;
	cpu->stack_top = (u64)boot_stack_top;
	arch_cpu_init(cpu);
	if (boot_info->magic != BOOT_MAGIC || boot_info->version != BOOT_VERSION)
		panic("boot information has magic %lx, version %u", boot_info->magic, boot_info->version);
	cpu_count = boot_info->cpus;
	if (cpu_count == 0 || cpu_count > CPUS_MAX)
		panic("%u CPUs: 1 to %d are supported", cpu_count, CPUS_MAX);
	frame_init(boot_info->ram_base, boot_info->ram_size, early.free);
	irq_enable();
	program_main();
	exit_guest(found_unsafe() ? EXIT_UNSAFE : EXIT_FINE);
}
