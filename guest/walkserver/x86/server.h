/* The layout of the shared RAM file, and names that assembly shares. All words
 * are 64 bits, little-endian; the host's side is
 * guest/tests/qemu_walks/x86/mailbox.rs. */
#ifndef WALKSERVER_H
#define WALKSERVER_H

#define HEADER_PHYSICAL 0x400000
#define HEADER_LA57 0x20
#define HEADER_CR3 0x28

/* Physical memory as the server sees it, and the page that runs at CPL 3. */
#define MAPPED 0xffffffff80000000
#define USER_PAGE 0xffffffffc0000000

#define CR0_BASE 0x80010033	/* PG, WP, NE, ET, MP, PE */
#define CR0_WP 0x10000
#define CR4_BASE 0xa0		/* PAE, PGE */
#define CR4_LA57 0x1000
#define CR4_PKE 0x400000
#define MSR_EFER 0xc0000080
#define MSR_PKRS 0x6e1
#define EFER_LME 0x100
#define RFLAGS_AC 0x40000

/* Operations: a kind, at CPL 0 or 3, with RFLAGS.AC clear or set. */
#define OP_LOAD 0
#define OP_STORE 1
#define OP_FETCH 2
#define OP_KIND 3
#define OP_USER 4
#define OP_AC 8

/* What a store stores. */
#define STORED 0x5354524f45443a29

#define MAX_WATCHES 16

/* Values of header.state; the host leaves 0. */
#define STATE_RUNNING 1
#define STATE_DONE 2
#define STATE_TRAPPED 3

#ifndef __ASSEMBLER__
typedef unsigned long long u64;

struct header {
	u64 state;
	u64 contexts; /* how many contexts there are */
	u64 first;    /* physical address of the first one */
	u64 answered; /* requests answered so far */
	u64 la57;     /* whether to use five levels */
	u64 cr3;      /* a root that maps the server also at its physical address */
	u64 trap_vector, trap_error, trap_rip, trap_cr2;
	u64 cpuid[6]; /* leaf 7: EBX, ECX, EDX; 80000001H: ECX, EDX; 80000008H: EAX */
};

/* Registers for the requests that follow. */
struct context {
	u64 requests;
	u64 cr0, cr3, cr4, efer; /* cr0 and cr4: bits to add to the base */
	u64 pkru, pkrs;
};

struct outcome {
	u64 vector, error, cr2, value;
};

struct request {
	u64 op, va;
	u64 watches; /* how many watches follow */
	struct outcome outcome;
};

/* A word of memory that the host wants to know after the access. */
struct watch {
	u64 address; /* physical */
	u64 after;
};
#endif

#endif
