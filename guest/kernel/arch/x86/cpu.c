/* x86: per-CPU descriptor tables and MSRs. */
#include <asm/pgtable.h>
#include <early.h>
#include <kernel.h>
#include <mm.h>
#include <smp.h>

#define KERNEL_CS 0x08
#define KERNEL_SS 0x10
#define TSS_SELECTOR 0x30
#define STUB_SIZE 16
#define GATE_INTERRUPT 0x8e00
#define FLAGS_CLEARED 0x47700 /* by SYSCALL: AC, NT, IOPL, DF, IF, TF */

#define CR4_PGE (1UL << 7)
#define CR4_PCIDE (1UL << 17)

extern char vector_stubs[];
extern char syscall_entry[];

struct gate {
	u64 low, high;
};

struct __attribute__((packed)) table_pointer {
	u16 limit;
	u64 base;
};

static struct gate idt[256] __aligned(16);

static void load_gdt(struct cpu *cpu)
{
	u64 *gdt = cpu->arch.gdt;
	u64 tss = (u64)&cpu->arch.tss;
	u64 limit = sizeof(cpu->arch.tss) - 1;
	struct table_pointer pointer = { sizeof(cpu->arch.gdt) - 1, (u64)gdt };

	gdt[1] = 0x00af9b000000ffff; /* 0x08 kernel code */
	gdt[2] = 0x00cf93000000ffff; /* 0x10 kernel data */
	gdt[3] = 0x00cffb000000ffff; /* 0x18 user code, 32 bit: place holder of SYSRET */
	gdt[4] = 0x00cff3000000ffff; /* 0x20 user data */
	gdt[5] = 0x00affb000000ffff; /* 0x28 user code */
	gdt[6] = limit | (tss & 0xffffff) << 16 | 0x89UL << 40 | (tss >> 24 & 0xff) << 56;
	gdt[7] = tss >> 32;
	__asm__ volatile("lgdt %0\n\t"
			 "pushq %1\n\t"
			 "lea 1f(%%rip), %%rax\n\t"
			 "pushq %%rax\n\t"
			 "lretq\n"
			 "1:\tmov %2, %%eax\n\t"
			 "mov %%eax, %%ss\n\t"
			 "mov %%eax, %%ds\n\t"
			 "mov %%eax, %%es\n\t"
			 "mov %3, %%eax\n\t"
			 "ltr %%ax"
			 :
			 : "m"(pointer), "i"(KERNEL_CS), "i"(KERNEL_SS), "i"(TSS_SELECTOR)
			 : "rax", "memory");
}

/* Where the CPU puts its frame when a trap leaves user mode. */
void set_trap_stack(u64 sp)
{
	this_cpu()->arch.tss.rsp[0] = (u32)sp;
	this_cpu()->arch.tss.rsp[1] = (u32)(sp >> 32);
}

static void load_idt(void)
{
	struct table_pointer pointer = { sizeof(idt) - 1, (u64)idt };

	for (u64 i = 0; i < ARRAY_LEN(idt); i++) {
		u64 entry = (u64)vector_stubs + i * STUB_SIZE;

		idt[i].low = (entry & 0xffff) | KERNEL_CS << 16 | (u64)GATE_INTERRUPT << 32 |
			     (entry >> 16 & 0xffff) << 48;
		idt[i].high = entry >> 32;
	}
	__asm__ volatile("lidt %0" ::"m"(pointer) : "memory");
}

void arch_cpu_init(struct cpu *cpu)
{
	load_gdt(cpu);
	load_idt();
	wrmsr(MSR_GS_BASE, (u64)cpu);
	wrmsr(MSR_KERNEL_GS_BASE, 0);
	wrmsr(MSR_STAR, (u64)KERNEL_CS << 32 | 0x18UL << 48);
	wrmsr(MSR_LSTAR, (u64)syscall_entry);
	wrmsr(MSR_SFMASK, FLAGS_CLEARED);
	write_cr3(early.kernel_root);
	/* The kernel's entries are global since boot: the identity map shares
	 * its tables and needs a full flush to go. */
	write_cr4(read_cr4() & ~CR4_PGE);
	write_cr4(read_cr4() | CR4_PGE);
	if (has_feature(FEAT_PCID))
		write_cr4(read_cr4() | CR4_PCIDE);
	arch_ipi_init();
}

void arch_share_kernel(u64 *root)
{
	u64 *kernel = __va(early.kernel_root);
	u64 first = PTRS_PER_TABLE / 2;

	memcpy(root + first, kernel + first, first * sizeof(*root));
}

int arch_levels(u64 wanted)
{
	if (wanted != 4)
		panic("%lu table levels: this architecture has 4", wanted);
	return 4;
}
