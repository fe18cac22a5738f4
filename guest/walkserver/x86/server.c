/*
 * Answers translation requests by making the accesses: loads, stores and
 * fetches at CPL 0 and CPL 3, with the registers of a request, through
 * translation tables that the host wrote.
 *
 * Requests, answers and tables lie in RAM that is a file of the host: one boot
 * answers everything in the file and ends the emulator. Every root that the
 * host builds maps the server in its last entry, with accessed and dirty flags
 * set and a protection key of its own, so that no request can shut it out.
 */
#include "server.h"

static volatile struct header *const header =
	(struct header *)(MAPPED + HEADER_PHYSICAL);

struct gate {
	unsigned short offset_low, selector;
	unsigned char ist, type;
	unsigned short offset_middle;
	unsigned offset_high, reserved;
} __attribute__((packed));

static struct gate idt[256];

extern char vectors[], vector_done[];
void attempt(u64 op, u64 va, struct outcome *out);
_Noreturn void power_off(void);

void failed(u64 vector, u64 error, u64 rip, u64 cr2)
{
	header->trap_vector = vector;
	header->trap_error = error;
	header->trap_rip = rip;
	header->trap_cr2 = cr2;
	header->state = STATE_TRAPPED;
}

static void set_gate(int number, char *handler)
{
	u64 offset = (u64)handler;

	idt[number] = (struct gate){
		.offset_low = offset,
		.selector = 8,
		.type = 0xee, /* present, DPL 3, interrupt gate */
		.offset_middle = offset >> 16,
		.offset_high = offset >> 32,
	};
}

static void set_idt(void)
{
	struct {
		unsigned short limit;
		u64 base;
	} __attribute__((packed)) idtr = { sizeof(idt) - 1, (u64)idt };

	for (int i = 0; i < 32; i++)
		set_gate(i, vectors + 16 * i);
	set_gate(0x80, vector_done);
	asm volatile("lidt %0" : : "m"(idtr));
}

static void cpuid(unsigned leaf, unsigned *eax, unsigned *ebx, unsigned *ecx,
		  unsigned *edx)
{
	asm volatile("cpuid"
		     : "=a"(*eax), "=b"(*ebx), "=c"(*ecx), "=d"(*edx)
		     : "a"(leaf), "c"(0));
}

static void identify(void)
{
	unsigned a, b, c, d;

	cpuid(7, &a, &b, &c, &d);
	header->cpuid[0] = b;
	header->cpuid[1] = c;
	header->cpuid[2] = d;
	cpuid(0x80000001, &a, &b, &c, &d);
	header->cpuid[3] = c;
	header->cpuid[4] = d;
	cpuid(0x80000008, &a, &b, &c, &d);
	header->cpuid[5] = a;
}

static void write_msr(unsigned msr, u64 value)
{
	asm volatile("wrmsr" : : "c"(msr), "a"((unsigned)value),
		     "d"((unsigned)(value >> 32)) : "memory");
}

static u64 read_msr(unsigned msr)
{
	unsigned low, high;

	asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return (u64)high << 32 | low;
}

static void install(const struct context *c)
{
	u64 la57 = header->la57 ? CR4_LA57 : 0;

	asm volatile("mov %0, %%cr3" : : "r"(header->cr3) : "memory");
	write_msr(MSR_EFER, (read_msr(MSR_EFER) & ~0x800ull) | c->efer);
	asm volatile("mov %0, %%cr4" : : "r"(CR4_BASE | la57 | c->cr4) : "memory");
	asm volatile("mov %0, %%cr0"
		     : : "r"((CR0_BASE & ~(u64)CR0_WP) | c->cr0) : "memory");
	if (c->cr4 & CR4_PKE)
		asm volatile("wrpkru" : : "a"((unsigned)c->pkru), "c"(0), "d"(0));
	if (header->cpuid[1] & 1u << 31)
		write_msr(MSR_PKRS, c->pkrs);
}

/* Answers one request. What the watched words were is put back afterwards, so
 * that every request sees memory as the host wrote it. */
static struct request *answer(const struct context *context, struct request *r)
{
	struct watch *watch = (struct watch *)(r + 1);
	u64 before[MAX_WATCHES];

	for (u64 i = 0; i < r->watches; i++)
		before[i] = *(volatile u64 *)(MAPPED + watch[i].address);
	/* Drops what the last request left in the TLB. */
	asm volatile("mov %0, %%cr3" : : "r"(context->cr3) : "memory");
	attempt(r->op, r->va, &r->outcome);
	for (u64 i = 0; i < r->watches; i++)
		watch[i].after = *(volatile u64 *)(MAPPED + watch[i].address);
	for (u64 i = 0; i < r->watches; i++)
		*(volatile u64 *)(MAPPED + watch[i].address) = before[i];
	return (struct request *)(watch + r->watches);
}

void serve(void)
{
	struct context *context = (struct context *)(MAPPED + header->first);

	header->state = STATE_RUNNING;
	set_idt();
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
