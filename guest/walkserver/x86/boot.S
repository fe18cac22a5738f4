/* From the emulator's direct boot (32-bit protected mode, paging off) to C code
 * in 64-bit mode; the accesses that requests ask for; exceptions. */
#include "server.h"

#define OFFSET 0xffffffff80000000
#define KERNEL_CS 0x08
#define KERNEL_SS 0x10
#define USER_SS 0x1b
#define USER_CS 0x23
#define TSS 0x28

	/* Where QEMU finds the 32-bit entry point of an ELF file. */
	.section .note.pvh, "a", @note
	.balign 4
	.long	4, 8, 18
	.asciz	"Xen"
	.quad	_start - OFFSET

	.section .text.boot, "ax"
	.code32
	.global _start
_start:
	cli
	movl	$(HEADER_PHYSICAL), %ebx
	movl	%cr4, %eax
	orl	$CR4_BASE, %eax
	cmpl	$0, HEADER_LA57(%ebx)
	je	1f
	orl	$CR4_LA57, %eax
1:	movl	%eax, %cr4
	movl	HEADER_CR3(%ebx), %eax
	movl	%eax, %cr3
	movl	$MSR_EFER, %ecx
	rdmsr
	orl	$EFER_LME, %eax
	wrmsr
	movl	$CR0_BASE, %eax
	movl	%eax, %cr0
	lgdt	boot_gdtr - OFFSET
	ljmp	$KERNEL_CS, $(long_mode - OFFSET)

	.code64
long_mode:
	movabs	$1f, %rax
	jmp	*%rax
1:	lgdt	gdtr(%rip)
	movl	$KERNEL_SS, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	lea	stack_top(%rip), %rsp
	/* The base of the task state segment goes into its descriptor. */
	lea	tss(%rip), %rax
	lea	gdt + TSS(%rip), %rdx
	movw	%ax, 2(%rdx)
	shr	$16, %rax
	movb	%al, 4(%rdx)
	movb	%ah, 7(%rdx)
	shr	$16, %rax
	movl	%eax, 8(%rdx)
	movl	$TSS, %eax
	ltr	%ax
	lea	exception_stack_top(%rip), %rax
	mov	%rax, tss+4(%rip)
	call	serve
	/* A triple fault ends the emulator. */
	.global power_off
power_off:
	lidt	no_idt(%rip)
	int3

	/* u64 attempt(u64 op, u64 va, struct outcome *out): makes one access. It
	 * always ends in an exception, the wanted one being INT 0x80. */
	.text
	.global attempt
attempt:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, saved_rsp(%rip)
	mov	%rdx, saved_out(%rip)
	mov	%rsi, %rcx
	movabs	$STORED, %r8
	xor	%eax, %eax
	testl	$OP_USER, %edi
	jnz	user
	testl	$OP_AC, %edi
	jz	1f
	pushfq
	orl	$RFLAGS_AC, (%rsp)
	popfq
1:	andl	$OP_KIND, %edi
	cmpl	$OP_STORE, %edi
	je	2f
	ja	3f
	mov	(%rcx), %rax
	int	$0x80
2:	mov	%r8, (%rcx)
	int	$0x80
3:	jmp	*%rcx

user:
	mov	%rcx, %rdx
	andl	$OP_KIND, %edi
	cmpl	$OP_FETCH, %edi
	je	1f
	movabs	$USER_PAGE, %rdx
	cmpl	$OP_STORE, %edi
	jne	1f
	add	$(user_store - user_load), %rdx
1:	pushq	$USER_SS
	pushq	$0
	pushq	$2
	pushq	$USER_CS
	push	%rdx
	iretq

	.section .user, "ax"
user_load:
	mov	(%rcx), %rax
	int	$0x80
user_store:
	mov	%r8, (%rcx)
	int	$0x80

	.text
	.macro	vector number, error
	.balign	16
	.if	\error == 0
	pushq	$0
	.endif
	pushq	$\number
	jmp	exception
	.endm

	.balign	16
	.global vectors
vectors:
	.set	i, 0
	.rept	32
	.if	(i == 8) || ((i >= 10) && (i <= 14)) || (i == 17) || (i == 21)
	vector	i, 1
	.else
	vector	i, 0
	.endif
	.set	i, i + 1
	.endr
	.global vector_done
vector_done:
	vector	0x80, 0

exception:
	cld
	mov	saved_out(%rip), %rdi
	test	%rdi, %rdi
	jz	unexpected
	movq	$0, saved_out(%rip)
	pop	(%rdi)			/* vector */
	pop	8(%rdi)			/* error code */
	mov	%cr2, %rdx
	mov	%rdx, 16(%rdi)
	mov	%rax, 24(%rdi)
	mov	saved_rsp(%rip), %rsp
	pushq	$2
	popfq
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret

unexpected:
	pop	%rdi
	pop	%rsi
	pop	%rdx
	mov	%cr2, %rcx
	call	failed
	jmp	power_off

	.section .rodata
	.balign	8
boot_gdtr:
	.word	gdt_end - gdt - 1
	.long	gdt - OFFSET
gdtr:
	.word	gdt_end - gdt - 1
	.quad	gdt
no_idt:
	.word	0
	.quad	0

	.data
	.balign	16
gdt:
	.quad	0
	.quad	0x00af9b000000ffff	/* CPL 0 code, 64-bit */
	.quad	0x00cf93000000ffff	/* CPL 0 data */
	.quad	0x00cff3000000ffff	/* CPL 3 data */
	.quad	0x00affb000000ffff	/* CPL 3 code, 64-bit */
	.quad	0x0000890000000067	/* task state segment */
	.quad	0
gdt_end:

	.bss
	.balign	16
tss:
	.space	104
saved_rsp:
	.space	8
saved_out:
	.space	8
	.balign	16
	.space	8192
stack_top:
	/* Exceptions from CPL 3. */
	.space	1024
exception_stack_top:
