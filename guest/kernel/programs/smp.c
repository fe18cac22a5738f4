/* Several CPUs: a counter under a lock, then function calls by interrupt.
 * Results: `counter` must be cpus x rounds, `handled` (cpus - 1) x calls. */
#include <kernel.h>
#include <lock.h>
#include <smp.h>

static struct spinlock lock;
static u64 counter, rounds, go, done, handled;

static void count(void)
{
	for (u64 i = 0; i < rounds; i++) {
		spin_lock(&lock);
		WRITE_ONCE(counter, READ_ONCE(counter) + 1);
		spin_unlock(&lock);
	}
	__atomic_add_fetch(&done, 1, __ATOMIC_ACQ_REL);
}

static void other_cpu(void *arg)
{
	cpu_online();
	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
		cpu_relax();
	count();
}

static void handler(void *arg)
{
	__atomic_add_fetch(&handled, 1, __ATOMIC_ACQ_REL);
}

void program_main(void)
{
	u64 calls = param_number("calls", 20);
	u64 others[CPUS_MAX / 64] = { 0 };

	rounds = param_number("rounds", 1000);
	start_cpus(other_cpu, NULL);
	region_begin("smp");
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	count();
	while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) != cpu_count)
		cpu_relax();
	for (u32 i = 1; i < cpu_count; i++)
		others[i / 64] |= 1UL << i % 64;
	for (u64 i = 0; cpu_count > 1 && i < calls; i++) {
		smp_call_begin(others, cpu_count - 1, handler, NULL);
		smp_call_wait(others);
	}
	region_end("smp");
	report("counter", counter);
	report("handled", handled);
}
