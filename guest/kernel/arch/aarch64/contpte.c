/* Contiguous groups: 16 entries that map 64 KiB may be cached as one (Arm ARM
 * DDI 0487, D8.7.1). The members of a group must agree, so changing one first
 * takes the bit away from all (unfold), by break-before-make; completing a
 * group gives it back (fold). */
#include <asm/pgtable.h>
#include <kernel.h>
#include <mm.h>

void flush_contpte_range(struct mm *mm, u64 start, u64 end);

static pte_t *group_of(pte_t *ptep)
{
	return (pte_t *)ALIGN_DOWN((u64)ptep, CONT_PTES * sizeof(*ptep));
}

static void store_ptes(pte_t *ptep, pte_t pte, u64 nr)
{
	for (; nr; nr--, ptep++, pte += PAGE_SIZE)
		set_entry(ptep, pte);
}

void contpte_set_ptes(struct mm *mm, u64 addr, pte_t *ptep, pte_t pte, u64 nr)
{
	u64 end = addr + nr * PAGE_SIZE;

	while (addr != end) {
		u64 next = MIN(ALIGN_DOWN(addr, CONT_PTE_SIZE) + CONT_PTE_SIZE, end);
		u64 pages = (next - addr) / PAGE_SIZE;
		bool whole = IS_ALIGNED(addr | next | entry_pa(pte), CONT_PTE_SIZE);

		store_ptes(ptep, whole ? pte | PTE_CONT : pte & ~PTE_CONT, pages);
		pte += next - addr;
		ptep += pages;
		addr = next;
	}
}

/* Rewrites a group with the bit as in `cont`. Clearing every entry collects
 * what hardware recorded in any of them. */
static void contpte_convert(struct mm *mm, u64 addr, pte_t *group, u64 cont)
{
	u64 start = ALIGN_DOWN(addr, CONT_PTE_SIZE);
	pte_t first = 0;
	u64 seen = 0;

	for (u64 i = 0; i < CONT_PTES; i++) {
		pte_t pte = xchg_entry(group + i, 0);

		if (i == 0)
			first = pte;
		seen |= pte & (PTE_DIRTY | PTE_AF);
	}
	if (!has_feature(FEAT_BBML2_NOABORT))
		flush_contpte_range(mm, start, start + CONT_PTE_SIZE);
	store_ptes(group, (first & ~PTE_CONT) | seen | cont, CONT_PTES);
}

void contpte_unfold(struct mm *mm, u64 addr, pte_t *ptep)
{
	contpte_convert(mm, addr, group_of(ptep), 0);
}

static bool group_can_fold(const pte_t *group, u64 pa, pte_t like)
{
	const u64 ignore = PTE_DIRTY | PTE_AF;

	if (page_of(pa)->order < ORDER_64K)
		return false;
	for (u64 i = 0; i < CONT_PTES; i++, pa += PAGE_SIZE) {
		pte_t expected = (like & ~PTE_ADDR) | pa;

		if ((read_entry(group + i) ^ expected) & ~ignore)
			return false;
	}
	return true;
}

/* Called after every single set: only the last page of a group, on the last
 * frame of one, is worth a look. */
void contpte_try_fold(struct mm *mm, u64 addr, pte_t *ptep, pte_t pte)
{
	u64 pa = entry_pa(pte);
	u64 last = CONT_PTE_SIZE - PAGE_SIZE;

	if ((addr & last) != last || (pa & last) != last || !entry_valid(pte) || (pte & PTE_CONT))
		return;
	if (group_can_fold(group_of(ptep), ALIGN_DOWN(pa, CONT_PTE_SIZE), pte))
		contpte_convert(mm, addr, group_of(ptep), PTE_CONT);
}
