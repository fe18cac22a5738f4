/* What an exception means, whatever the architecture. */
#include <kernel.h>
#include <mm.h>
#include <trap.h>

bool (*fault_hook)(struct regs *regs, const struct fault *fault);
u64 (*syscall_hook)(struct regs *regs, u64 number, u64 a, u64 b, u64 c);

/* The load of try_load, and where it goes on after a fault. */
extern char try_load_insn[], try_load_faulted[];

void handle_fault(struct regs *regs, const struct fault *fault)
{
	struct mm *mm = this_cpu()->active_mm;

	if (regs_pc(regs) == (u64)try_load_insn) {
		regs_set_pc(regs, (u64)try_load_faulted);
		return;
	}
	if (fault_hook && fault_hook(regs, fault))
		return;
	if (mm && !fault->present && fault->addr < mm_top(mm) && fault_in(mm, fault->addr, fault->write))
		return;
	panic("CPU %u: %s fault at %lx (%s, %s mode), pc %lx, code %lx", this_cpu()->number,
	      fault->exec ? "fetch" : fault->write ? "write" : "read", fault->addr,
	      fault->present ? "permission" : "no translation", fault->user ? "user" : "kernel", fault->pc,
	      fault->code);
}

u64 handle_syscall(struct regs *regs, u64 number, u64 a, u64 b, u64 c)
{
	if (number == SYS_EXIT)
		leave_user(a);
	if (number == SYS_NOTHING)
		return 0;
	if (!syscall_hook)
		panic("system call %lu from pc %lx", number, regs_pc(regs));
	return syscall_hook(regs, number, a, b, c);
}
