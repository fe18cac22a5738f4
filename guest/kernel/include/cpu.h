/* Per-CPU state and the life of a CPU. */
#ifndef CPU_H
#define CPU_H

#include <arch.h>

#define CPUS_MAX 256
#define STACK_SIZE 65536

struct mm;
struct call;

struct cpu {
	struct cpu *self;     /* offset 0: read through GS on x86 */
	u64 stack_top;        /* offset 8: boot code; kernel entry on x86 */
	u64 user_sp;          /* offset 16: scratch of the syscall entry on x86 */
	u64 user_return;      /* offset 24: stack of the run_user call */
	u32 number;
	u32 online;
	struct mm *active_mm; /* whose tables are loaded */
	bool lazy;            /* loaded, but no user code runs */
	struct call *calls;
	struct call *call_queue;
	struct arch_cpu arch;
} __aligned(64);

extern struct cpu cpus[CPUS_MAX];
extern u32 cpu_count;

/* Loads vectors, descriptor tables and the per-CPU pointer of this CPU. */
void arch_cpu_init(struct cpu *cpu);
/* Tells the CPU that started this one that it may go on. */
void cpu_online(void);

#endif
