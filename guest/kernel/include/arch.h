/* What the portable code needs of an architecture:
 *   asm/cpu.h  privileged instructions, per-CPU pointer, hypercalls
 *   asm/pte.h  descriptor format (pure functions of values)
 *   asm/tlb.h  translation maintenance primitives
 */
#ifndef ARCH_H
#define ARCH_H

#include <types.h>

#include <asm/cpu.h>

static inline void *__va(u64 pa)
{
	return (void *)(pa + KERNEL_OFFSET);
}

static inline u64 __pa(const void *va)
{
	return (u64)va - KERNEL_OFFSET;
}

#endif
