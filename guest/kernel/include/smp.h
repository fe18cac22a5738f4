/* Other CPUs: starting them, running functions on them. */
#ifndef SMP_H
#define SMP_H

#include <cpu.h>

#define IPI_CALL_SINGLE 0
#define IPI_CALL_MANY 1
#define IPI_RESCHEDULE 2

/* Starts CPUs 1.. ; each runs `job(arg)` with interrupts masked, then idles.
 * Returns when all of them have begun. */
void start_cpus(void (*job)(void *), void *arg);

/* Runs func(info) on the CPUs of a mask that does not name the caller's.
 * Between the two calls the caller may work; `info` must stay. */
void smp_call_begin(const u64 *mask, u32 count, void (*func)(void *), void *info);
void smp_call_wait(const u64 *mask);

/* The receiver's part, from the interrupt handler. */
void smp_run_calls(void);

/* Sends to the `count` CPUs of a mask without the caller's. */
void arch_send_ipi(const u64 *mask, u32 count, int kind);
/* Opens this CPU for interrupts by others. */
void arch_ipi_init(void);

#endif
