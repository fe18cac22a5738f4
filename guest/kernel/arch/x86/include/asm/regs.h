/* What entry.S saves of an interrupted program. */
#ifndef ASM_REGS_H
#define ASM_REGS_H

#include <types.h>

struct regs {
	u64 r15, r14, r13, r12, rbp, rbx;
	u64 r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	u64 vector, error;
	u64 rip, cs, rflags, rsp, ss;
};

static inline u64 regs_pc(const struct regs *regs)
{
	return regs->rip;
}

static inline void regs_set_pc(struct regs *regs, u64 pc)
{
	regs->rip = pc;
}

#endif
