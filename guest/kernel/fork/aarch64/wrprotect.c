/* aarch64: taking write access from entries that may belong to contiguous
 * groups.
 *
 * All members of a group must agree in everything but AF and dirty state (Arm
 * ARM DDI 0487, D8.7.1). Write access may be taken from a whole group entry by
 * entry: the contiguous bit stays the same in all, and what a TLB holds of the
 * group is either the old permission or the new one. A part of a group is
 * unfolded first. */
#include <asm/pgtable.h>
#include <fork.h>
#include <kernel.h>
#include <tlb.h>

bool entry_writable(u64 entry)
{
	return entry & PTE_DBM || !(entry & PTE_RDONLY);
}

u64 entry_wrprotected(u64 entry)
{
	/* Hardware tells dirty by the permission, which goes. */
	if (!(entry & PTE_RDONLY) && entry & PTE_DBM)
		entry |= PTE_DIRTY;
	return (entry & ~PTE_DBM) | PTE_RDONLY;
}

bool same_attributes(pte_t one, pte_t other)
{
	return !((one ^ other) & ~(PTE_ADDR | PTE_DIRTY | PTE_AF));
}

pte_t read_gathered(const pte_t *ptep)
{
	pte_t pte = read_entry(ptep);

	if (!pte_valid_cont(pte))
		return pte;

	const pte_t *group = (const pte_t *)ALIGN_DOWN((u64)ptep, CONT_PTES * sizeof(*ptep));

	for (u64 i = 0; i < CONT_PTES; i++)
		pte |= read_entry(group + i) & (PTE_DIRTY | PTE_AF);
	return pte;
}

u64 batch_hint(const pte_t *ptep, pte_t pte)
{
	return pte_valid_cont(pte) ? CONT_PTES - (u64)ptep / sizeof(*ptep) % CONT_PTES : 1;
}

void allow_write(struct mm *mm, u64 addr, u64 *entry)
{
	if (pte_valid_cont(read_entry(entry)))
		contpte_unfold(mm, addr, entry);
	set_entry(entry, (read_entry(entry) & ~PTE_RDONLY) | PTE_DBM | PTE_DIRTY | PTE_AF);
	flush_tlb_page(mm, addr);
}

static void unfold(struct mm *mm, u64 addr, pte_t *ptep)
{
	if (pte_valid_cont(read_entry(ptep)))
		contpte_unfold(mm, addr, ptep);
}

static void wrprotect_run(pte_t *ptep, u64 nr)
{
	for (; nr; nr--, ptep++)
		wrprotect_entry(ptep);
}

/* Each entry is treated as if it were alone. */
static void per_pte(struct mm *mm, u64 addr, pte_t *ptep, u64 nr)
{
	for (; nr; nr--, ptep++, addr += PAGE_SIZE) {
		unfold(mm, addr, ptep);
		wrprotect_entry(ptep);
		contpte_try_fold(mm, addr, ptep, read_entry(ptep));
	}
}

static void per_pte_no_refold(struct mm *mm, u64 addr, pte_t *ptep, u64 nr)
{
	for (; nr; nr--, ptep++, addr += PAGE_SIZE) {
		unfold(mm, addr, ptep);
		wrprotect_entry(ptep);
	}
}

/* Only the groups at the ends can be covered in part. */
static void whole_range_uniform(struct mm *mm, u64 addr, pte_t *ptep, u64 nr)
{
	u64 end = addr + nr * PAGE_SIZE;

	if (!IS_ALIGNED(addr, CONT_PTE_SIZE) || nr < CONT_PTES)
		unfold(mm, addr, ptep);
	if (!IS_ALIGNED(end, CONT_PTE_SIZE))
		unfold(mm, end - PAGE_SIZE, ptep + nr - 1);
	wrprotect_run(ptep, nr);
}

static void whole_range(struct mm *mm, u64 addr, pte_t *ptep, u64 nr)
{
	if (nr == 1)
		per_pte(mm, addr, ptep, 1);
	else
		whole_range_uniform(mm, addr, ptep, nr);
}

/* No groups at all: entries are as single pages' are. */
static void none(struct mm *mm, u64 addr, pte_t *ptep, u64 nr)
{
	wrprotect_run(ptep, nr);
}

static void set_single(struct mm *mm, u64 addr, pte_t *ptep, pte_t pte, u64 nr)
{
	for (; nr; nr--, ptep++, pte += PAGE_SIZE)
		set_entry(ptep, pte & ~PTE_CONT);
}

static void unfold_area(struct mm *mm, struct vma *vma)
{
	for (u64 addr = vma->start; addr < vma->end; addr += PAGE_SIZE) {
		pmd_t *pmd = pmd_lookup(mm, addr);

		if (pmd && entry_is_table(read_entry(pmd)))
			unfold(mm, addr, pte_offset(pmd, addr));
	}
}

static const struct wrprotect_variant variants[] = {
	{ "none", none, set_single, unfold_area },
	{ "per_pte", per_pte, set_ptes, NULL },
	{ "per_pte_no_refold", per_pte_no_refold, set_ptes, NULL },
	{ "whole_range", whole_range, set_ptes, NULL },
	{ "whole_range_uniform", whole_range_uniform, set_ptes, NULL },
};

const struct wrprotect_variant *find_wrprotect_variant(const char *name)
{
	for (u64 i = 0; i < ARRAY_LEN(variants); i++)
		if (streq(name, variants[i].name))
			return &variants[i];
	panic("parameter wrprotect=%s is not known", name);
}
