/* The smallest guest: translation on, one message, exit. */
#include <cpu.h>
#include <kernel.h>

void program_main(void)
{
	printk("hello from CPU %u of %u, %lu MiB of RAM at %lx\n", this_cpu()->number, cpu_count,
	       boot_info->ram_size >> 20, boot_info->ram_base);
	report("cpus", cpu_count);
}
