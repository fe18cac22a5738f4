/* Changing the access that an address range allows.
 *
 * What differs between variants is how a run of entries is changed; they are
 * listed per architecture (mprotect/ARCH), and the parameter `change` selects
 * one at run time. */
#ifndef MPROTECT_H
#define MPROTECT_H

#include <mm.h>

struct change_variant {
	const char *name;
	/* Gives or takes write access in `nr` entries that map pages of one folio
	 * in order, and are all valid. The caller invalidates behind everything;
	 * what a variant does to groups beside that, it invalidates itself. */
	void (*change)(struct mm *mm, u64 addr, pte_t *ptep, u64 nr, bool write);
};

/* Areas within [start, start + len) become writable or read only, and so do
 * their pages at once. The pages must be this address space's alone: shared ones
 * may only become writable by a fault. */
void protect_range(struct mm *mm, u64 start, u64 len, bool write, const struct change_variant *variant);

/* The architecture's part. */
const struct change_variant *find_change_variant(const char *name);
/* The entry with or without write access; keeps that it was written to. */
u64 entry_with_access(u64 entry, bool write);
/* Makes a 2 MiB leaf invalid so that hardware no longer changes it, and gives
 * what it was. */
pmd_t pmd_modify_start(struct mm *mm, u64 addr, pmd_t *pmdp);

#endif
