/* How table entries are read and written. Every store to a translation table
 * goes through these, so that the host build can record them. */
#ifndef ENTRY_H
#define ENTRY_H

#include <types.h>

static inline u64 read_entry(const u64 *entry)
{
	return READ_ONCE(*entry);
}

#ifdef HOST
void set_entry(u64 *entry, u64 value);
u64 xchg_entry(u64 *entry, u64 value);
#else
static inline void set_entry(u64 *entry, u64 value)
{
	WRITE_ONCE(*entry, value);
}

static inline u64 xchg_entry(u64 *entry, u64 value)
{
	return __atomic_exchange_n(entry, value, __ATOMIC_RELAXED);
}
#endif

#endif
