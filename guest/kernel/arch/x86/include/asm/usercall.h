/* x86: a system call from user code. */
#ifndef ASM_USERCALL_H
#define ASM_USERCALL_H

#include <types.h>

static inline u64 user_syscall(u64 number, u64 a)
{
	u64 result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a) : "rcx", "r11", "rsi", "rdx", "memory");
	return result;
}

#endif
