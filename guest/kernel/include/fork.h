/* Copying an address space: parent and child share every private page, read
 * only, until one of them writes to it.
 *
 * What differs between variants is how a run of the parent's entries is made
 * read only, and how the child's are set. Variants are listed per architecture
 * (fork/ARCH); the parameter `wrprotect` selects one at run time. */
#ifndef FORK_H
#define FORK_H

#include <mm.h>

struct wrprotect_variant {
	const char *name;
	/* Takes write access from `nr` entries that map pages of one folio in
	 * order, and are all valid. Stale writable translations may remain: the
	 * caller flushes once, behind everything. */
	void (*wrprotect)(struct mm *mm, u64 addr, pte_t *ptep, u64 nr);
	/* Sets `nr` entries that were empty. */
	void (*set)(struct mm *mm, u64 addr, pte_t *ptep, pte_t pte, u64 nr);
	/* Brings the tables of an area that was just filled into the state that
	 * the variant begins with; may be NULL. */
	void (*prepare)(struct mm *mm, struct vma *vma);
};

struct fork {
	struct mm *parent, *child;
	const struct wrprotect_variant *variant;
	u64 pages;   /* entries copied so far; a 2 MiB leaf is one */
	u64 batches; /* runs of entries that were handled together */
};

/* Copies all writable private areas of the parent. */
void fork_mm(struct fork *fork);

/* Gives a write to a read-only page of a writable area what it needs: the page,
 * if no one else has it, or a copy. False when no area allows the write. */
bool write_fault(struct mm *mm, u64 addr);

/* The architecture's part. */
const struct wrprotect_variant *find_wrprotect_variant(const char *name);
/* The entry, with what hardware recorded in any entry of its group. */
pte_t read_gathered(const pte_t *ptep);
/* Entries from here to the end of the group that is cached as one; 1 without. */
u64 batch_hint(const pte_t *ptep, pte_t pte);
/* Whether two entries are alike but for what hardware records. */
bool same_attributes(pte_t one, pte_t other);
bool entry_writable(u64 entry);
u64 entry_wrprotected(u64 entry);
/* Write access comes back to a leaf; removes what could still fault. */
void allow_write(struct mm *mm, u64 addr, u64 *entry);

/* Takes write access from one entry, whatever hardware sets in it meanwhile. */
static inline void wrprotect_entry(u64 *entry)
{
	u64 old = READ_ONCE(*entry);

	while (!__atomic_compare_exchange_n(entry, &old, entry_wrprotected(old), false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

#endif
