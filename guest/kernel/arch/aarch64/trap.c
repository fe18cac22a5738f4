/* aarch64: from syndrome registers to what happened; interrupts by the GICv3
 * CPU interface. */
#include <kernel.h>
#include <smp.h>
#include <trap.h>

#define PSTATE_I (1UL << 7)
#define EC_SVC64 0x15
#define EC_FETCH_LOWER 0x20
#define EC_FETCH_SAME 0x21
#define EC_DATA_LOWER 0x24
#define EC_DATA_SAME 0x25

#define ISS_WNR (1UL << 6)
#define FSC_PERMISSION 0x0c /* status codes 0xc to 0xf */

#define INTID_NONE 1020 /* and above: nothing is pending */
#define icc_iar1_el1 S3_0_C12_C12_0
#define icc_eoir1_el1 S3_0_C12_C12_1
#define icc_sgi1r_el1 S3_0_C12_C11_5
#define icc_sre_el1 S3_0_C12_C12_5
#define icc_pmr_el1 S3_0_C4_C6_0
#define icc_igrpen1_el1 S3_0_C12_C12_7
#define SGI_ALL_OTHERS (1UL << 40)

/* The macros above need expansion before they become text. */
#define read_icc(reg) read_sysreg(reg)
#define write_icc(reg, v) write_sysreg(reg, v)

static bool take_fault(struct regs *regs, u64 esr)
{
	u64 class = esr >> 26;
	struct fault fault = {
		.addr = read_sysreg(far_el1),
		.pc = regs->pc,
		.code = esr,
		.exec = class == EC_FETCH_LOWER || class == EC_FETCH_SAME,
		.user = class == EC_FETCH_LOWER || class == EC_DATA_LOWER,
		.present = (esr & 0x3c) == FSC_PERMISSION,
	};

	if (!fault.exec && class != EC_DATA_LOWER && class != EC_DATA_SAME)
		return false;
	fault.write = !fault.exec && esr & ISS_WNR;
	/* The syndrome is saved: interrupts may come as they did before. */
	if (!(regs->pstate & PSTATE_I))
		irq_enable();
	handle_fault(regs, &fault);
	irq_disable();
	return true;
}

static void __noreturn unexpected(struct regs *regs, u64 esr, const char *from)
{
	panic("CPU %u: unexpected exception from %s mode, esr %lx, far %lx, pc %lx", this_cpu()->number, from, esr,
	      read_sysreg(far_el1), regs->pc);
}

void handle_kernel_sync(struct regs *regs)
{
	u64 esr = read_sysreg(esr_el1);

	if (!take_fault(regs, esr))
		unexpected(regs, esr, "kernel");
}

void handle_user_sync(struct regs *regs)
{
	u64 esr = read_sysreg(esr_el1);

	if (esr >> 26 != EC_SVC64) {
		if (!take_fault(regs, esr))
			unexpected(regs, esr, "user");
		return;
	}
	irq_enable();
	regs->x[0] = handle_syscall(regs, regs->x[8], regs->x[0], regs->x[1], regs->x[2]);
	irq_disable();
}

void handle_irq(struct regs *regs)
{
	for (;;) {
		u64 id = read_icc(icc_iar1_el1);

		if (id >= INTID_NONE)
			return;
		isb();
		smp_run_calls();
		write_icc(icc_eoir1_el1, id);
	}
}

void __noreturn handle_bad_exception(u64 sp, u64 vector)
{
	panic("CPU %u: exception at vector %lu, esr %lx, elr %lx, sp %lx", this_cpu()->number, vector,
	      read_sysreg(esr_el1), read_sysreg(elr_el1), sp);
}

void arch_ipi_init(void)
{
	write_icc(icc_sre_el1, 1);
	isb();
	write_icc(icc_pmr_el1, 0xff);
	write_icc(icc_igrpen1_el1, 1);
	isb();
}

/* One write reaches 16 CPUs: those with the same number divided by 16 (the
 * range selector), picked by a bit each. */
void arch_send_ipi(const u64 *mask, u32 count, int kind)
{
	u64 intid = (u64)kind << 24;

	smp_wmb();
	dsb(ishst);
	if (count > 1 && count == cpu_count - 1) {
		write_icc(icc_sgi1r_el1, intid | SGI_ALL_OTHERS);
	} else {
		for (u64 range = 0; range < CPUS_MAX / 16; range++) {
			u64 targets = mask[range / 4] >> range % 4 * 16 & 0xffff;

			if (targets)
				write_icc(icc_sgi1r_el1, range << 44 | intid | targets);
		}
	}
	isb();
}
