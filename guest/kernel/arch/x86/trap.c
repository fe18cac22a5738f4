/* x86: from vectors and error codes to what happened. */
#include <kernel.h>
#include <smp.h>
#include <trap.h>

#define VECTOR_PAGE_FAULT 14
/* The numbers of the kernel this imitates. */
#define VECTOR_CALL_SINGLE 0xfb
#define VECTOR_CALL_MANY 0xfc
#define VECTOR_RESCHEDULE 0xfd

#define ERROR_PRESENT 1UL
#define ERROR_WRITE 2UL
#define ERROR_USER 4UL
#define ERROR_FETCH 16UL

#define ICR_ALL_OTHERS (3UL << 18)
#define APIC_ENABLED 0x1ffUL

static void page_fault(struct regs *regs)
{
	struct fault fault = {
		.addr = read_cr2(),
		.pc = regs->rip,
		.code = regs->error,
		.write = regs->error & ERROR_WRITE,
		.exec = regs->error & ERROR_FETCH,
		.user = regs->error & ERROR_USER,
		.present = regs->error & ERROR_PRESENT,
	};

	/* The fault address is saved: interrupts may come as they did before. */
	if (regs->rflags & FLAGS_IF)
		irq_enable();
	handle_fault(regs, &fault);
	irq_disable();
}

void handle_trap(struct regs *regs)
{
	switch (regs->vector) {
	case VECTOR_PAGE_FAULT:
		page_fault(regs);
		return;
	case VECTOR_CALL_SINGLE:
	case VECTOR_CALL_MANY:
	case VECTOR_RESCHEDULE:
		wrmsr(MSR_X2APIC_EOI, 0);
		smp_run_calls();
		return;
	}
	panic("CPU %u: exception %lu, error code %lx, rip %lx, cs %lx, rsp %lx", this_cpu()->number, regs->vector,
	      regs->error, regs->rip, regs->cs, regs->rsp);
}

void handle_syscall_trap(struct regs *regs)
{
	irq_enable();
	regs->rax = handle_syscall(regs, regs->rax, regs->rdi, regs->rsi, regs->rdx);
	irq_disable();
}

void arch_ipi_init(void)
{
	wrmsr(MSR_X2APIC_SVR, APIC_ENABLED);
	wrmsr(MSR_X2APIC_TPR, 0);
}

void arch_send_ipi(const u64 *mask, u32 count, int kind)
{
	static const u8 vectors[] = { VECTOR_CALL_SINGLE, VECTOR_CALL_MANY, VECTOR_RESCHEDULE };
	u64 vector = vectors[kind];

	/* WRMSR to the APIC does not wait for earlier stores. */
	smp_mb();
	if (count > 1 && count == cpu_count - 1) {
		wrmsr(MSR_X2APIC_ICR, ICR_ALL_OTHERS | vector);
		return;
	}
	for (u32 i = 0; i < cpu_count; i++)
		if (mask[i / 64] >> i % 64 & 1)
			wrmsr(MSR_X2APIC_ICR, (u64)i << 32 | vector);
}
