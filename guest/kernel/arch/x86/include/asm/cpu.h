/* x86: privileged instructions, per-CPU pointer, hypercalls. */
#ifndef ASM_CPU_H
#define ASM_CPU_H

#include <asm/percpu.h>
#include <types.h>

/* Direct map and image: virtual = physical + KERNEL_OFFSET (upper half). */
#define KERNEL_OFFSET 0xffff800000000000UL

#define smp_mb() __asm__ volatile("lock; addl $0, -4(%%rsp)" ::: "memory", "cc")
#define smp_rmb() barrier()
#define smp_wmb() barrier()

#define FLAGS_IF 0x200

#define MSR_EFER 0xc0000080
#define MSR_STAR 0xc0000081
#define MSR_LSTAR 0xc0000082
#define MSR_SFMASK 0xc0000084
#define MSR_FS_BASE 0xc0000100
#define MSR_GS_BASE 0xc0000101
#define MSR_KERNEL_GS_BASE 0xc0000102
#define MSR_X2APIC_TPR 0x808
#define MSR_X2APIC_EOI 0x80b
#define MSR_X2APIC_SVR 0x80f
#define MSR_X2APIC_ICR 0x830

static inline void wrmsr(u32 msr, u64 value)
{
	__asm__ volatile("wrmsr" ::"c"(msr), "a"((u32)value), "d"((u32)(value >> 32)) : "memory");
}

static inline u64 read_cr2(void)
{
	u64 value;

	__asm__ volatile("mov %%cr2, %0" : "=r"(value));
	return value;
}

static inline u64 read_cr3(void)
{
	u64 value;

	__asm__ volatile("mov %%cr3, %0" : "=r"(value));
	return value;
}

static inline void write_cr3(u64 value)
{
	__asm__ volatile("mov %0, %%cr3" ::"r"(value) : "memory");
}

static inline u64 read_cr4(void)
{
	u64 value;

	__asm__ volatile("mov %%cr4, %0" : "=r"(value));
	return value;
}

static inline void write_cr4(u64 value)
{
	__asm__ volatile("mov %0, %%cr4" ::"r"(value) : "memory");
}

static inline void cpu_relax(void)
{
	__asm__ volatile("pause" ::: "memory");
}

static inline void cpu_halt(void)
{
	__asm__ volatile("hlt" ::: "memory");
}

static inline void irq_enable(void)
{
	__asm__ volatile("sti" ::: "memory");
}

static inline void irq_disable(void)
{
	__asm__ volatile("cli" ::: "memory");
}

/* Masks interrupts; irq_restore puts back what was. */
static inline u64 irq_save(void)
{
	u64 flags;

	__asm__ volatile("pushfq\n\tpopq %0\n\tcli" : "=r"(flags)::"memory");
	return flags;
}

static inline void irq_restore(u64 flags)
{
	if (flags & FLAGS_IF)
		irq_enable();
}

/* Waits with interrupts open. STI takes effect behind the next instruction,
 * so nothing is lost between the caller's test and the wait. */
static inline void cpu_idle_once(void)
{
	__asm__ volatile("sti\n\thlt\n\tcli" ::: "memory");
}

struct cpu;

/* GS points to the CPU's own structure, whose first word is its address. */
static inline struct cpu *this_cpu(void)
{
	struct cpu *cpu;

	__asm__ volatile("mov %%gs:0, %0" : "=r"(cpu));
	return cpu;
}

static inline void hypercall(u16 n, u64 a, u64 b, u64 c)
{
	register u64 r8_ __asm__("r8") = c;

	__asm__ volatile("outb %%al, %%dx" ::"a"(0), "d"((u16)(0x4d00 + n)), "D"(a), "S"(b), "r"(r8_) : "memory");
}

#endif
