/* The host build: no privileged instruction is executed, each is recorded. Found
 * before the architecture's own header of this name. */
#ifndef ASM_CPU_H
#define ASM_CPU_H

#include <asm/percpu.h>
#include <types.h>

/* Guest memory is one host mapping: the offset is known at run time. */
extern u64 host_offset;
#define KERNEL_OFFSET host_offset

void record_dsb(const char *kind);
void record_cr3(u64 value);

#define isb() barrier()
#define dsb(kind) record_dsb(#kind)
#define smp_mb() barrier()
#define smp_rmb() barrier()
#define smp_wmb() barrier()

static inline void write_cr3(u64 value)
{
	record_cr3(value);
}

static inline void cpu_relax(void)
{
}

static inline void cpu_halt(void)
{
}

static inline void cpu_idle_once(void)
{
}

static inline void irq_enable(void)
{
}

static inline void irq_disable(void)
{
}

static inline u64 irq_save(void)
{
	return 0;
}

static inline void irq_restore(u64 flags)
{
}

#define hypercall(n, a, b, c) ((void)(n), (void)(a), (void)(b), (void)(c))

struct cpu;

extern struct cpu *host_cpu;

static inline struct cpu *this_cpu(void)
{
	return host_cpu;
}

#endif
