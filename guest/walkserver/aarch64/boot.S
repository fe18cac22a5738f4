/* Entry at EL2 with everything off, and the exceptions of EL2. */

	.section .text.boot, "ax"
	.global _start
_start:
	ldr	x0, =stack_top
	mov	sp, x0
	ldr	x0, =vectors
	msr	vbar_el2, x0
	isb
	bl	serve
	/* PSCI SYSTEM_OFF ends the emulator. */
	.global power_off
power_off:
	mov	x0, #0x0008
	movk	x0, #0x8400, lsl #16
	smc	#0
1:	wfi
	b	1b

	/* A synchronous exception of the server: an address translation instruction
	 * whose walk met an external abort. Notes the syndrome and goes on after
	 * it, if the server has said so; else as any other exception. */
synchronous:
	stp	x0, x1, [sp, #-16]!
	ldr	x1, =taken
	ldr	x0, [x1]
	cmn	x0, #1
	b.ne	unexpected
	mrs	x0, esr_el2
	str	x0, [x1]
	mrs	x0, elr_el2
	add	x0, x0, #4
	msr	elr_el2, x0
	ldp	x0, x1, [sp], #16
	eret

	/* An exception that no request asked for: say which, and stop. */
unexpected:
	mrs	x0, esr_el2
	mrs	x1, elr_el2
	mrs	x2, far_el2
	bl	failed
	b	power_off

	.macro	stop
	.balign	128
	b	unexpected
	.endm

	.balign	2048
vectors:
	.rept	4
	stop
	.endr
	.balign	128
	b	synchronous
	.rept	11
	stop
	.endr

	.section .bss.stack, "aw", @nobits
	.balign	16
	.space	4096
stack_top:
