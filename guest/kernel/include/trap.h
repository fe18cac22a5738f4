/* Exceptions and user mode. */
#ifndef TRAP_H
#define TRAP_H

#include <asm/regs.h>
#include <types.h>

struct fault {
	u64 addr;
	u64 pc;
	u64 code;     /* ESR or the error code, as the architecture gave it */
	bool write;
	bool exec;
	bool user;    /* taken from user mode */
	bool present; /* a translation exists but does not allow the access */
};

/* Called for every fault when set. True: return and try again. */
extern bool (*fault_hook)(struct regs *regs, const struct fault *fault);
/* Handles system calls when set; returns the result. */
extern u64 (*syscall_hook)(struct regs *regs, u64 number, u64 a, u64 b, u64 c);

void handle_fault(struct regs *regs, const struct fault *fault);
u64 handle_syscall(struct regs *regs, u64 number, u64 a, u64 b, u64 c);

/* Loads a word; a fault gives LOAD_FAULTED instead of going to the handlers. */
u64 try_load(u64 addr);
#define LOAD_FAULTED (~0UL)

/* Runs user code until it makes the system call SYS_EXIT; returns its value. */
u64 run_user(u64 pc, u64 sp, u64 arg);
void leave_user(u64 value) __attribute__((noreturn));

#define SYS_EXIT 0
#define SYS_NOTHING 1
/* Numbers from here on belong to the program. */
#define SYS_PROGRAM 16

#endif
