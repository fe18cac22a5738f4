/* From the machine's start state (64-bit, paging off, CPL 0, interrupts
 * masked) to C code at its virtual address. */

#define CR4_VALUE 0x6a0        /* PAE, PGE, OSFXSR, OSXMMEXCPT */
#define CR0_VALUE 0x80010033   /* PG, WP, NE, ET, MP, PE */
#define EFER_VALUE 0xd01       /* NXE, LMA, LME, SCE */
#define OFFSET 0xffff800000000000

	.section .text.boot, "ax"
	.global _start
_start:
	mov	%rdi, %r12
	lea	boot_stack_top(%rip), %rsp
	call	early_paging
	call	enable_paging
	movabs	$boot_stack_top, %rsp
	movabs	$kernel_start, %rax
	xor	%ebp, %ebp
	call	*%rax
1:	hlt
	jmp	1b

/* rdi: virtual address of this CPU's struct cpu. */
	.global secondary_start
secondary_start:
	mov	%rdi, %r12
	/* A stack for one call: the CPU's own, at its physical address. */
	movabs	$OFFSET, %rax
	mov	%rdi, %rcx
	sub	%rax, %rcx
	mov	8(%rcx), %rsp
	sub	%rax, %rsp
	call	enable_paging
	mov	8(%r12), %rsp		/* cpu->stack_top */
	mov	%r12, %rdi
	movabs	$secondary_main, %rax
	xor	%ebp, %ebp
	call	*%rax
1:	hlt
	jmp	1b

/* Returns at the caller's identity address, paging on. */
enable_paging:
	mov	$0xc0000080, %ecx
	mov	$EFER_VALUE, %eax
	xor	%edx, %edx
	wrmsr
	mov	$CR4_VALUE, %eax
	mov	%rax, %cr4
	mov	early+8(%rip), %rax
	mov	%rax, %cr3
	mov	$CR0_VALUE, %eax
	mov	%rax, %cr0
	ret

	.section .bss.stack, "aw", @nobits
	.balign 16
	.space 16384
	.global boot_stack_top
boot_stack_top:
