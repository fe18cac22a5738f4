/* Exception and interrupt entry, system calls, user mode entry and exit. */

#define KERNEL_CS 0x08
#define USER_SS 0x23
#define USER_CS 0x2b
#define FLAGS_USER 0x202 /* interrupts open */

	.text

/* One stub a vector; the CPU pushes an error code for some of them. */
	.balign 16
	.global vector_stubs
vector_stubs:
	.set	vector, 0
	.rept	256
	.balign	16
	.if !(vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21)
	push	$0
	.endif
	push	$vector
	jmp	trap_entry
	.set	vector, vector + 1
	.endr

	.macro save_general
	push	%rdi
	push	%rsi
	push	%rdx
	push	%rcx
	push	%rax
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	.endm

	.macro restore_general
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rax
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	.endm

trap_entry:
	testb	$3, 24(%rsp)		/* CS: from user mode? */
	jz	1f
	swapgs
1:	save_general
	mov	%rsp, %rdi
	cld
	call	handle_trap
	restore_general
	add	$16, %rsp		/* vector, error code */
	testb	$3, 8(%rsp)
	jz	1f
	swapgs
1:	iretq

/* System calls: number in RAX, arguments in RDI, RSI, RDX. */
	.global syscall_entry
syscall_entry:
	swapgs
	mov	%rsp, %gs:16		/* cpu->user_sp */
	mov	%gs:24, %rsp		/* cpu->user_return: below it is free */
	push	$USER_SS
	push	%gs:16
	push	%r11			/* RFLAGS */
	push	$USER_CS
	push	%rcx			/* RIP */
	push	$0
	push	$0
	save_general
	mov	%rsp, %rdi
	cld
	call	handle_syscall_trap
	restore_general
	add	$16, %rsp
	swapgs
	iretq

/* u64 run_user(pc, sp, arg) */
	.global run_user
run_user:
	push	%rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	cli
	push	%rdi
	push	%rsi
	push	%rdx
	lea	24(%rsp), %rdi		/* the stack of traps begins here */
	mov	%rdi, %gs:24
	call	set_trap_stack
	pop	%rdx
	pop	%rsi
	pop	%rcx
	push	$USER_SS
	push	%rsi
	push	$FLAGS_USER
	push	$USER_CS
	push	%rcx
	mov	%rdx, %rdi
	xor	%ebp, %ebp
	swapgs
	iretq

/* leave_user(value): returns from the run_user call. */
	.global leave_user
leave_user:
	mov	%rdi, %rax
	mov	%gs:24, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	sti
	ret

/* u64 try_load(addr) */
	.global try_load
	.global try_load_insn
	.global try_load_faulted
try_load:
try_load_insn:
	mov	(%rdi), %rax
	ret
try_load_faulted:
	mov	$-1, %rax
	ret
