/* From reset state (translation off, EL1h, interrupts masked) to C code at its
 * virtual address. The first CPU builds the tables; others find them ready. */

#define SCTLR_VALUE 0x30d5199d  /* RES1 bits, M, C, SA, SA0, I, nTWI, nTWE */
#define MAIR_VALUE 0xff         /* index 0: normal, write-back */
/* T0SZ=16 T1SZ=16, 4K granules, write-back inner shareable walks, A1 (the ASID
 * is in TTBR1), 48-bit output addresses, 16-bit ASIDs. */
#define TCR_VALUE 0x00000015b5503510

	.section .text.boot, "ax"
	.global _start
_start:
	mov	x19, x0
	adrp	x1, boot_stack_top
	add	x1, x1, :lo12:boot_stack_top
	mov	sp, x1
	bl	early_paging
	adrp	x0, early
	add	x0, x0, :lo12:early
	ldp	x20, x21, [x0]
	bl	enable_mmu
	ldr	x1, =boot_stack_top
	mov	sp, x1
	ldr	x1, =kernel_start
	mov	x29, xzr
	mov	x30, xzr
	br	x1

/* x0: virtual address of this CPU's struct cpu. */
	.global secondary_start
secondary_start:
	mov	x19, x0
	adrp	x0, early
	add	x0, x0, :lo12:early
	ldp	x20, x21, [x0]
	bl	enable_mmu
	ldr	x1, [x19, #8]		/* cpu->stack_top */
	mov	sp, x1
	mov	x0, x19
	ldr	x1, =secondary_main
	mov	x29, xzr
	mov	x30, xzr
	br	x1

/* x20: kernel root, x21: identity root. Returns at the caller's identity
 * address, translation on. */
enable_mmu:
	mov	x0, #MAIR_VALUE
	msr	mair_el1, x0
	ldr	x0, =TCR_VALUE
	msr	tcr_el1, x0
	msr	ttbr0_el1, x21
	msr	ttbr1_el1, x20
	isb
	tlbi	vmalle1
	dsb	nsh
	isb
	ldr	x0, =SCTLR_VALUE
	msr	sctlr_el1, x0
	isb
	ret

	.ltorg

	.section .bss.stack, "aw", %nobits
	.balign 16
	.space 16384
	.global boot_stack_top
boot_stack_top:
