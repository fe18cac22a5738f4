/* Starting CPUs and running functions on them. */
#include <frame.h>
#include <kernel.h>
#include <smp.h>

extern char secondary_start[];

/* One function call on one CPU; each CPU has one for every other. */
struct call {
	struct call *next;
	void (*func)(void *);
	void *info;
	u32 pending;
} __aligned(64);

static struct {
	void (*func)(void *);
	void *arg;
} first_job;

static void prepare_cpu(u32 number)
{
	struct cpu *cpu = &cpus[number];

	cpu->self = cpu;
	cpu->number = number;
	cpu->stack_top = (u64)__va(alloc_folio(ORDER_64K)) + STACK_SIZE;
}

void start_cpus(void (*job)(void *), void *arg)
{
	first_job.func = job;
	first_job.arg = arg;
	for (u32 i = 1; i < cpu_count; i++) {
		prepare_cpu(i);
		hypercall(HC_START_CPU, i, __pa(secondary_start), (u64)&cpus[i]);
	}
	for (u32 i = 1; i < cpu_count; i++)
		while (!__atomic_load_n(&cpus[i].online, __ATOMIC_ACQUIRE))
			cpu_relax();
}

void __noreturn secondary_main(struct cpu *cpu)
{
	arch_cpu_init(cpu);
	first_job.func(first_job.arg);
	cpu_online();
	for (;;)
		cpu_idle_once();
}

void cpu_online(void)
{
	__atomic_store_n(&this_cpu()->online, 1, __ATOMIC_RELEASE);
}

static struct call *calls_of(struct cpu *cpu)
{
	if (!cpu->calls)
		cpu->calls = __va(alloc_folio(ORDER_64K));
	return cpu->calls;
}

/* True when the queue was empty: the target needs an interrupt. */
static bool queue_call(struct cpu *target, struct call *call)
{
	struct call *head = READ_ONCE(target->call_queue);

	do
		call->next = head;
	while (!__atomic_compare_exchange_n(&target->call_queue, &head, call, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED));
	return !head;
}

void smp_call_begin(const u64 *mask, u32 count, void (*func)(void *), void *info)
{
	struct call *calls = calls_of(this_cpu());
	u64 wake[CPUS_MAX / 64] = { 0 };
	u32 wakes = 0;

	for (u32 i = 0; i < cpu_count; i++) {
		if (!(mask[i / 64] >> i % 64 & 1))
			continue;
		calls[i].func = func;
		calls[i].info = info;
		calls[i].pending = 1;
		if (queue_call(&cpus[i], &calls[i])) {
			wake[i / 64] |= 1UL << i % 64;
			wakes++;
		}
	}
	if (wakes)
		arch_send_ipi(wake, wakes, count == 1 ? IPI_CALL_SINGLE : IPI_CALL_MANY);
}

void smp_call_wait(const u64 *mask)
{
	struct call *calls = calls_of(this_cpu());

	for (u32 i = 0; i < cpu_count; i++)
		if (mask[i / 64] >> i % 64 & 1)
			while (__atomic_load_n(&calls[i].pending, __ATOMIC_ACQUIRE))
				cpu_relax();
}

void smp_run_calls(void)
{
	struct call *call = __atomic_exchange_n(&this_cpu()->call_queue, NULL, __ATOMIC_ACQUIRE);

	while (call) {
		struct call *next = call->next;

		call->func(call->info);
		__atomic_store_n(&call->pending, 0, __ATOMIC_RELEASE);
		call = next;
	}
}
