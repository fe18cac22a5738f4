/* Entry at EL2 with everything off, the exceptions of EL2, and what runs below
 * EL2 to make an access. */
#include "server.h"

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

	/* void enter(u64 pc, u64 pstate, u64 va, struct outcome *out): runs at EL1
	 * or EL0 until an exception comes back to EL2. What runs there changes no
	 * register but x0. */
	.global enter
enter:
	stp	x3, x30, [sp, #-16]!
	msr	elr_el2, x0
	msr	spsr_el2, x1
	mov	x1, x2
	ldr	x2, =STORED
	mov	x0, #0
	isb
	eret

	/* The exception that ends it: HVC, or an abort of stage 2. */
from_below:
	ldp	x3, x30, [sp], #16
	mrs	x4, esr_el2
	mrs	x5, esr_el1
	stp	x4, x5, [x3]
	mrs	x4, far_el1
	mrs	x5, far_el2
	stp	x4, x5, [x3, #16]
	mrs	x4, hpfar_el2
	stp	x4, x0, [x3, #32]
	ret

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
	.rept	3
	stop
	.endr
	.balign	128
	b	from_below
	.rept	7
	stop
	.endr

	/* A page that every address space of such a request maps: the accesses,
	 * and exception vectors of EL1 that go on to EL2. */
	.section .below, "ax"
	.macro	access instruction:vararg
	.balign	16
	\instruction
	svc	#0
	.endm

	access	ldr x0, [x1]
	access	str x2, [x1]
	access	ldtr x0, [x1]
	access	sttr x2, [x1]

	.balign	2048
	.rept	16
	.balign	128
	hvc	#0
	.endr

	.text

	.section .bss.stack, "aw", @nobits
	.balign	16
	.space	4096
stack_top:
