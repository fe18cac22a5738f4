/* Exception vectors, user mode entry and exit. */

#define REGS_SIZE 272
#define REGS_SP 248
#define REGS_PC 256

	.macro save_regs user
	sub	sp, sp, #REGS_SIZE
	stp	x0, x1, [sp, #0]
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	stp	x8, x9, [sp, #64]
	stp	x10, x11, [sp, #80]
	stp	x12, x13, [sp, #96]
	stp	x14, x15, [sp, #112]
	stp	x16, x17, [sp, #128]
	stp	x18, x19, [sp, #144]
	stp	x20, x21, [sp, #160]
	stp	x22, x23, [sp, #176]
	stp	x24, x25, [sp, #192]
	stp	x26, x27, [sp, #208]
	stp	x28, x29, [sp, #224]
	str	x30, [sp, #240]
	.if \user
	mrs	x0, sp_el0
	str	x0, [sp, #REGS_SP]
	.endif
	mrs	x0, elr_el1
	mrs	x1, spsr_el1
	stp	x0, x1, [sp, #REGS_PC]
	mov	x0, sp
	.endm

	.macro restore_regs user
	ldp	x0, x1, [sp, #REGS_PC]
	msr	elr_el1, x0
	msr	spsr_el1, x1
	.if \user
	ldr	x0, [sp, #REGS_SP]
	msr	sp_el0, x0
	.endif
	ldp	x0, x1, [sp, #0]
	ldp	x2, x3, [sp, #16]
	ldp	x4, x5, [sp, #32]
	ldp	x6, x7, [sp, #48]
	ldp	x8, x9, [sp, #64]
	ldp	x10, x11, [sp, #80]
	ldp	x12, x13, [sp, #96]
	ldp	x14, x15, [sp, #112]
	ldp	x16, x17, [sp, #128]
	ldp	x18, x19, [sp, #144]
	ldp	x20, x21, [sp, #160]
	ldp	x22, x23, [sp, #176]
	ldp	x24, x25, [sp, #192]
	ldp	x26, x27, [sp, #208]
	ldp	x28, x29, [sp, #224]
	ldr	x30, [sp, #240]
	add	sp, sp, #REGS_SIZE
	eret
	.endm

	.macro vector name
	.balign 128
	b	\name
	.endm

	.macro handler name, user, function
\name:
	save_regs \user
	bl	\function
	restore_regs \user
	.endm

	.macro bad_vector number
	.balign 128
	mov	x1, #\number
	b	bad_exception
	.endm

	.text
	.balign 2048
	.global vectors
vectors:
	bad_vector 0
	bad_vector 1
	bad_vector 2
	bad_vector 3
	vector	kernel_sync
	vector	kernel_irq
	bad_vector 6
	bad_vector 7
	vector	user_sync
	vector	user_irq
	bad_vector 10
	bad_vector 11
	bad_vector 12
	bad_vector 13
	bad_vector 14
	bad_vector 15

	.balign 128
	handler	kernel_sync, 0, handle_kernel_sync
	handler	kernel_irq, 0, handle_irq
	handler	user_sync, 1, handle_user_sync
	handler	user_irq, 1, handle_irq

bad_exception:
	mov	x0, sp
	bl	handle_bad_exception

/* u64 run_user(pc, sp, arg) */
	.global run_user
run_user:
	stp	x29, x30, [sp, #-96]!
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	msr	daifset, #2
	mrs	x9, tpidr_el1
	mov	x10, sp
	str	x10, [x9, #24]		/* cpu->user_return */
	msr	elr_el1, x0
	msr	sp_el0, x1
	msr	spsr_el1, xzr		/* EL0, all interrupts open */
	mov	x0, x2
	mov	x29, xzr
	mov	x30, xzr
	eret

/* leave_user(value): returns from the run_user call. */
	.global leave_user
leave_user:
	mrs	x9, tpidr_el1
	ldr	x10, [x9, #24]
	mov	sp, x10
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x25, x26, [sp, #64]
	ldp	x27, x28, [sp, #80]
	ldp	x29, x30, [sp], #96
	msr	daifclr, #2
	ret

/* u64 try_load(addr) */
	.global try_load
	.global try_load_insn
	.global try_load_faulted
try_load:
try_load_insn:
	ldr	x0, [x0]
	ret
try_load_faulted:
	mov	x0, #-1
	ret
