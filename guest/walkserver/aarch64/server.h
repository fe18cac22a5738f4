/* The layout of the shared RAM file. All words are 64 bits, little-endian; the
 * host's side of it is guest/tests/qemu_walks/aarch64/mailbox.rs. */
#ifndef WALKSERVER_H
#define WALKSERVER_H

/* What a store stores. */
#define STORED 0x5354524f45443a29

#ifndef __ASSEMBLER__
typedef unsigned long long u64;

#define HEADER 0x40300000
#define MAX_WATCHES 40

/* Values of header.state; the host leaves 0. */
#define STATE_RUNNING 1
#define STATE_DONE 2
#define STATE_TRAPPED 3

struct header {
	u64 state;
	u64 contexts; /* how many contexts there are */
	u64 first;    /* where the first one is */
	u64 answered; /* requests answered so far */
	u64 trap_esr, trap_elr, trap_far;
	u64 id[3]; /* ID_AA64MMFR0_EL1 to ID_AA64MMFR2_EL1 */
};

/* Registers for the requests that follow. */
struct context {
	u64 requests;
	u64 hcr, vtcr, vttbr;
	u64 sctlr, tcr, ttbr0, ttbr1, mair;
	u64 tcr_el2, ttbr0_el2, mair_el2;
	u64 pan;
	u64 below; /* virtual address of the page that makes accesses below EL2 */
};

/* What came back from below EL2. */
struct outcome {
	u64 esr_el2, esr_el1, far_el1, far_el2, hpfar_el2;
	u64 value; /* X0 */
};

struct request {
	u64 op, va;
	u64 watches; /* how many watches follow */
	u64 par;     /* PAR_EL1 */
	/* For an access, all of it; for a translation, the syndrome of the
	 * exception that the instruction took, or 0. */
	struct outcome outcome;
};

/* A word of memory that the host wants to know after the access. */
struct watch {
	u64 address;
	u64 after;
};

enum {
	OP_S1E1R, OP_S1E1W, OP_S1E0R, OP_S1E0W, OP_S1E1RP, OP_S1E1WP,
	OP_S12E1R, OP_S12E1W, OP_S12E0R, OP_S12E0W,
	OP_S1E2R, OP_S1E2W,
	/* Accesses at EL1 and EL0, and unprivileged ones at EL1 without and
	 * with PSTATE.UAO. */
	OP_EL1_LOAD, OP_EL1_STORE, OP_EL1_FETCH,
	OP_EL0_LOAD, OP_EL0_STORE, OP_EL0_FETCH,
	OP_LDTR, OP_STTR, OP_LDTR_UAO, OP_STTR_UAO,
};
#endif

#endif
