/* Per-CPU state and the life of a CPU. */
#ifndef CPU_H
#define CPU_H

#include <arch.h>

#define CPUS_MAX 256
#define STACK_SIZE 16384

struct cpu {
	struct cpu *self;    /* offset 0: read through GS on x86 */
	u64 stack_top;       /* offset 8: boot code and kernel entry */
	u64 user_sp;         /* offset 16: scratch of the syscall entry */
	u32 number;
	u32 online;
} __aligned(64);

extern struct cpu cpus[CPUS_MAX];
extern u32 cpu_count;

/* Loads vectors, descriptor tables and the per-CPU pointer of this CPU. */
void arch_cpu_init(struct cpu *cpu);

#endif
