/* x86: entries stand for themselves. They are empty while they change, so that
 * no dirty bit is lost. */
#include <asm/pgtable.h>
#include <kernel.h>
#include <mprotect.h>

u64 entry_with_access(u64 entry, bool write)
{
	return write ? entry | PTE_RW : entry & ~PTE_RW;
}

/* The invalidation at the end of the range is enough: until then other CPUs may
 * use what they hold, and set no bit in an entry that is not present. */
pmd_t pmd_modify_start(struct mm *mm, u64 addr, pmd_t *pmdp)
{
	return xchg_entry(pmdp, read_entry(pmdp) & ~PTE_PRESENT);
}

static void change(struct mm *mm, u64 addr, pte_t *ptep, u64 nr, bool write)
{
	for (; nr; nr--, ptep++) {
		pte_t old = xchg_entry(ptep, 0);

		set_entry(ptep, entry_with_access(old, write));
	}
}

static const struct change_variant only = { "unfold_each", change };

const struct change_variant *find_change_variant(const char *name)
{
	if (!streq(name, only.name))
		panic("parameter change=%s is not known: x86 has no contiguous groups", name);
	return &only;
}
