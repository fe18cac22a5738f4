/*
 * Answers translation requests with the processor's own address translation
 * instructions, or by accesses at EL1 and EL0. It runs at EL2 with its own translation off, so that the
 * registers of EL1&0 are free to be whatever a request says.
 *
 * Requests, answers and translation tables lie in RAM that is a file of the
 * host: one boot answers everything in the file and powers off.
 */
#include "server.h"

#define READ_SYSREG(name)                                                      \
	({                                                                     \
		u64 value_;                                                    \
		asm volatile("mrs %0, " #name : "=r"(value_));                 \
		value_;                                                        \
	})
#define WRITE_SYSREG(name, value)                                              \
	asm volatile("msr " #name ", %0" : : "r"((u64)(value)) : "memory")

static volatile struct header *const header = (struct header *)HEADER;

/* ESR_EL2 of an exception that a translation took; before one, that it may. */
volatile u64 taken;
#define MAY_TAKE (~0ull)

void failed(u64 esr, u64 elr, u64 far)
{
	header->trap_esr = esr;
	header->trap_elr = elr;
	header->trap_far = far;
	header->state = STATE_TRAPPED;
}

static void identify(void)
{
	header->id[0] = READ_SYSREG(id_aa64mmfr0_el1);
	header->id[1] = READ_SYSREG(id_aa64mmfr1_el1);
	header->id[2] = READ_SYSREG(s3_0_c0_c7_2); /* ID_AA64MMFR2_EL1 */
}

static void install(const struct context *c)
{
	WRITE_SYSREG(hcr_el2, c->hcr);
	WRITE_SYSREG(vtcr_el2, c->vtcr);
	WRITE_SYSREG(vttbr_el2, c->vttbr);
	WRITE_SYSREG(tcr_el1, c->tcr);
	WRITE_SYSREG(ttbr0_el1, c->ttbr0);
	WRITE_SYSREG(ttbr1_el1, c->ttbr1);
	WRITE_SYSREG(mair_el1, c->mair);
	WRITE_SYSREG(sctlr_el1, c->sctlr);
	WRITE_SYSREG(tcr_el2, c->tcr_el2);
	WRITE_SYSREG(ttbr0_el2, c->ttbr0_el2);
	WRITE_SYSREG(mair_el2, c->mair_el2);
	WRITE_SYSREG(vbar_el1, c->below + 0x800);
	if (c->pan)
		asm volatile("msr pan, #1");
	else
		asm volatile("msr pan, #0");
	asm volatile("dsb sy\n\tisb\n\ttlbi alle1\n\ttlbi alle2\n\tdsb sy\n\tisb" ::
			     : "memory");
}

#define AT(name, va) asm volatile("at " #name ", %0\n\tisb" : : "r"(va) : "memory")

static u64 translate(u64 op, u64 va)
{
	switch (op) {
	case OP_S1E1R: AT(s1e1r, va); break;
	case OP_S1E1W: AT(s1e1w, va); break;
	case OP_S1E0R: AT(s1e0r, va); break;
	case OP_S1E0W: AT(s1e0w, va); break;
	case OP_S1E1RP: AT(s1e1rp, va); break;
	case OP_S1E1WP: AT(s1e1wp, va); break;
	case OP_S12E1R: AT(s12e1r, va); break;
	case OP_S12E1W: AT(s12e1w, va); break;
	case OP_S12E0R: AT(s12e0r, va); break;
	case OP_S12E0W: AT(s12e0w, va); break;
	case OP_S1E2R: AT(s1e2r, va); break;
	case OP_S1E2W: AT(s1e2w, va); break;
	default: return ~0ull;
	}
	return READ_SYSREG(par_el1);
}

#define PSTATE_EL1 0x3c5 /* EL1h, DAIF masked */
#define PSTATE_EL0 0x3c0
#define PSTATE_PAN (1 << 22)
#define PSTATE_UAO (1 << 23)

void enter(u64 pc, u64 pstate, u64 va, struct outcome *out);

/* Makes an access below EL2: through the page `below`, or by going to `va`. */
static void access(const struct context *c, struct request *r)
{
	u64 el1 = PSTATE_EL1 | (c->pan ? PSTATE_PAN : 0);
	u64 pc = r->va, pstate = el1;

	/* Drops what the last request left in the TLB. */
	asm volatile("dsb sy\n\ttlbi alle1\n\tdsb sy\n\tisb" : : : "memory");
	switch (r->op) {
	case OP_EL1_LOAD: pc = c->below; break;
	case OP_EL1_STORE: pc = c->below + 16; break;
	case OP_EL1_FETCH: break;
	case OP_EL0_LOAD: pc = c->below, pstate = PSTATE_EL0; break;
	case OP_EL0_STORE: pc = c->below + 16, pstate = PSTATE_EL0; break;
	case OP_EL0_FETCH: pstate = PSTATE_EL0; break;
	case OP_LDTR: pc = c->below + 32; break;
	case OP_STTR: pc = c->below + 48; break;
	case OP_LDTR_UAO: pc = c->below + 32, pstate |= PSTATE_UAO; break;
	case OP_STTR_UAO: pc = c->below + 48, pstate |= PSTATE_UAO; break;
	}
	enter(pc, pstate, r->va, &r->outcome);
}

/* Answers one request. What the watched words were is put back afterwards, so
 * that every request sees the tables as the host wrote them. */
static struct request *answer(const struct context *c, struct request *r)
{
	struct watch *watch = (struct watch *)(r + 1);
	u64 before[MAX_WATCHES];

	for (u64 i = 0; i < r->watches; i++)
		before[i] = *(volatile u64 *)watch[i].address;
	if (r->op < OP_EL1_LOAD) {
		taken = MAY_TAKE;
		r->par = translate(r->op, r->va);
		r->outcome.esr_el2 = taken == MAY_TAKE ? 0 : taken;
		taken = 0;
	} else {
		access(c, r);
	}
	for (u64 i = 0; i < r->watches; i++)
		watch[i].after = *(volatile u64 *)watch[i].address;
	for (u64 i = 0; i < r->watches; i++)
		*(volatile u64 *)watch[i].address = before[i];
	return (struct request *)(watch + r->watches);
}

void serve(void)
{
	struct context *context = (struct context *)header->first;

	header->state = STATE_RUNNING;
	identify();
	for (u64 i = 0; i < header->contexts; i++) {
		struct request *request = (struct request *)(context + 1);

		install(context);
		for (u64 n = context->requests; n; n--) {
			request = answer(context, request);
			header->answered++;
		}
		context = (struct context *)request;
	}
	header->state = STATE_DONE;
}
