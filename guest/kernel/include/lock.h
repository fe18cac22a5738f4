/* Spin locks: one word, 0 when free. */
#ifndef LOCK_H
#define LOCK_H

#include <asm/cpu.h>

struct spinlock {
	u32 held;
};

static inline void spin_lock(struct spinlock *lock)
{
	u32 free = 0;

	while (!__atomic_compare_exchange_n(&lock->held, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		while (READ_ONCE(lock->held))
			cpu_relax();
		free = 0;
	}
}

static inline void spin_unlock(struct spinlock *lock)
{
	__atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

#endif
