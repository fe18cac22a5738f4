/* What entry.S saves of an interrupted program. */
#ifndef ASM_REGS_H
#define ASM_REGS_H

#include <types.h>

struct regs {
	u64 x[31];
	u64 sp; /* of user mode */
	u64 pc;
	u64 pstate;
};

static inline u64 regs_pc(const struct regs *regs)
{
	return regs->pc;
}

static inline void regs_set_pc(struct regs *regs, u64 pc)
{
	regs->pc = pc;
}

#endif
