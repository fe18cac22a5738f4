/* aarch64: privileged instructions, per-CPU pointer, hypercalls. */
#ifndef ASM_CPU_H
#define ASM_CPU_H

#include <asm/percpu.h>
#include <types.h>

/* Direct map and image: virtual = physical + KERNEL_OFFSET (TTBR1, 48 bits). */
#define KERNEL_OFFSET 0xffff000000000000UL

#define read_sysreg(reg) \
	({ \
		u64 value_; \
		__asm__ volatile("mrs %0, " #reg : "=r"(value_)); \
		value_; \
	})
#define write_sysreg(reg, v) __asm__ volatile("msr " #reg ", %0" ::"r"((u64)(v)) : "memory")

#define isb() __asm__ volatile("isb" ::: "memory")
#define dsb(domain) __asm__ volatile("dsb " #domain ::: "memory")
#define dmb(domain) __asm__ volatile("dmb " #domain ::: "memory")

#define smp_mb() dmb(ish)
#define smp_rmb() dmb(ishld)
#define smp_wmb() dmb(ishst)

static inline void cpu_relax(void)
{
	__asm__ volatile("yield" ::: "memory");
}

/* Waits for an interrupt; returns also when it is masked. */
static inline void cpu_halt(void)
{
	__asm__ volatile("dsb sy\n\twfi" ::: "memory");
}

static inline void irq_enable(void)
{
	__asm__ volatile("msr daifclr, #2" ::: "memory");
}

static inline void irq_disable(void)
{
	__asm__ volatile("msr daifset, #2" ::: "memory");
}

/* Waits with interrupts open. WFI wakes for a masked interrupt, so nothing is
 * lost between the caller's test (made with interrupts masked) and the wait. */
static inline void cpu_idle_once(void)
{
	cpu_halt();
	irq_enable();
	isb();
	irq_disable();
}

struct cpu;

static inline struct cpu *this_cpu(void)
{
	return (struct cpu *)read_sysreg(tpidr_el1);
}

/* The number is part of the instruction, so `n` must be a constant. All
 * arguments are evaluated before any register is bound. */
#define hypercall(n, a, b, c) \
	do { \
		u64 a_ = (u64)(a), b_ = (u64)(b), c_ = (u64)(c); \
		register u64 x0_ __asm__("x0") = a_; \
		register u64 x1_ __asm__("x1") = b_; \
		register u64 x2_ __asm__("x2") = c_; \
		__asm__ volatile("hvc %3" ::"r"(x0_), "r"(x1_), "r"(x2_), "i"(n) : "memory"); \
	} while (0)

#endif
