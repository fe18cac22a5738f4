/* aarch64: a system call from user code. */
#ifndef ASM_USERCALL_H
#define ASM_USERCALL_H

#include <types.h>

static inline u64 user_syscall(u64 number, u64 a)
{
	register u64 x8_ __asm__("x8") = number;
	register u64 x0_ __asm__("x0") = a;

	__asm__ volatile("svc #0" : "+r"(x0_) : "r"(x8_) : "memory", "x1", "x2");
	return x0_;
}

#endif
