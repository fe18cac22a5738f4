/* aarch64: changing entries that may belong to contiguous groups.
 *
 * An entry is empty while it changes: hardware must not set its dirty state in
 * between. Changing a part of a group needs the group unfolded first, since
 * members must agree (Arm ARM DDI 0487, D8.7.1); a whole group may keep its
 * bit. */
#include <asm/pgtable.h>
#include <kernel.h>
#include <mprotect.h>

u64 entry_with_access(u64 entry, bool write)
{
	/* With DBM, dirty is told by the permission, which goes. */
	if (!(entry & PTE_RDONLY) && entry & PTE_DBM)
		entry |= PTE_DIRTY;
	if (!write)
		return (entry & ~PTE_DBM) | PTE_RDONLY;
	/* A clean page stays read only until hardware finds DBM. */
	return entry & PTE_DIRTY ? (entry & ~PTE_RDONLY) | PTE_DBM : entry | PTE_DBM;
}

pmd_t pmd_modify_start(struct mm *mm, u64 addr, pmd_t *pmdp)
{
	return pmdp_invalidate(mm, addr, pmdp);
}

/* As if each entry were alone: groups are unfolded, and folded again when their
 * last entry has changed. */
static void unfold_each(struct mm *mm, u64 addr, pte_t *ptep, u64 nr, bool write)
{
	for (; nr; nr--, ptep++, addr += PAGE_SIZE) {
		pte_t old = ptep_get_and_clear(mm, addr, ptep);

		set_ptes(mm, addr, ptep, entry_with_access(old, write), 1);
	}
}

/* Entries of one group: all of them, or none has the bit. */
static void change_together(pte_t *ptep, u64 nr, bool write)
{
	pte_t old[CONT_PTES];
	u64 seen = 0;

	for (u64 i = 0; i < nr; i++) {
		old[i] = xchg_entry(ptep + i, 0);
		if (old[i] & PTE_CONT)
			seen |= entry_with_access(old[i], write) & (PTE_DIRTY | PTE_AF);
	}
	for (u64 i = 0; i < nr; i++) {
		u64 hardware = old[i] & PTE_CONT ? seen : 0;

		set_entry(ptep + i, entry_with_access(old[i] | hardware, write));
	}
}

/* Whole groups are emptied and set as one and keep their bit. */
static void batched(struct mm *mm, u64 addr, pte_t *ptep, u64 nr, bool write)
{
	u64 end = addr + (nr << PAGE_SHIFT), next;

	for (; addr != end; ptep += (next - addr) >> PAGE_SHIFT, addr = next) {
		next = MIN(ALIGN_DOWN(addr, CONT_PTE_SIZE) + CONT_PTE_SIZE, end);
		if (next - addr < CONT_PTE_SIZE && pte_valid_cont(read_entry(ptep)))
			contpte_unfold(mm, addr, ptep);
		change_together(ptep, (next - addr) >> PAGE_SHIFT, write);
	}
}

static const struct change_variant variants[] = {
	{ "unfold_each", unfold_each },
	{ "batched", batched },
};

const struct change_variant *find_change_variant(const char *name)
{
	for (u64 i = 0; i < ARRAY_LEN(variants); i++)
		if (streq(name, variants[i].name))
			return &variants[i];
	panic("parameter change=%s is not known", name);
}
