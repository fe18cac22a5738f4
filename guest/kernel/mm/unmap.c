/* Removing mappings and the tables that become empty. */
#include <asm/pgtable.h>
#include <gather.h>
#include <mm.h>

/* Pages of one folio in order are given up together. */
struct run {
	u64 pa, nr;
};

static void end_run(struct mmu_gather *tlb, struct run *run)
{
	if (run->nr)
		tlb_remove_pages(tlb, run->pa, run->nr);
	run->nr = 0;
}

static void add_to_run(struct mmu_gather *tlb, struct run *run, u64 pa)
{
	bool follows = run->nr && pa == run->pa + (run->nr << PAGE_SHIFT) && folio_start(pa) == folio_start(run->pa);

	if (!follows) {
		end_run(tlb, run);
		run->pa = pa;
	}
	run->nr++;
}

static void zap_ptes(struct mmu_gather *tlb, pmd_t *pmd, u64 addr, u64 end)
{
	u64 first = addr;
	pte_t *pte = pte_offset(pmd, addr);
	struct spinlock *lock = table_lock(pte);
	struct run run = { 0, 0 };

	spin_lock(lock);
	for (; addr < end; addr += PAGE_SIZE, pte++) {
		if (entry_none(read_entry(pte)))
			continue;

		pte_t old = ptep_clear_in_range(tlb->mm, addr, pte, first, end);

		tlb_note_cleared(tlb, LEVEL_PTE, addr, PAGE_SIZE);
		add_to_run(tlb, &run, entry_pa(old));
	}
	end_run(tlb, &run);
	spin_unlock(lock);
}

/* A leaf that lies in the range as a whole goes as a whole. */
static bool zap_leaf(struct mmu_gather *tlb, pmd_t *pmd, u64 addr, u64 end)
{
	if (!entry_is_block(read_entry(pmd)))
		return false;
	if (!IS_ALIGNED(addr, PMD_SIZE) || end - addr != PMD_SIZE) {
		split_huge_pmd(tlb->mm, pmd, addr);
		return false;
	}

	struct spinlock *lock = table_lock(pmd);

	spin_lock(lock);

	pmd_t old = pmdp_huge_get_and_clear(tlb->mm, addr, pmd);

	spin_unlock(lock);
	tlb_note_cleared(tlb, LEVEL_PMD, addr, PMD_SIZE);
	tlb_remove_pages(tlb, ALIGN_DOWN(entry_pa(old), PMD_SIZE), 1);
	return true;
}

/* The end of the piece of [addr, end) that one entry of size covers. */
static u64 piece_end(u64 addr, u64 end, u64 size)
{
	u64 left = size - (addr & (size - 1));

	return end - addr < left ? end : addr + left;
}

static void zap_range(struct mmu_gather *tlb, u64 addr, u64 end)
{
	while (addr != end) {
		pud_t *pud = pud_offset(tlb->mm, addr);

		if (!pud || entry_none(read_entry(pud))) {
			addr = piece_end(addr, end, pud ? PUD_SIZE : PGD_SIZE);
			continue;
		}

		pmd_t *pmd = pmd_offset(pud, addr);
		u64 next = piece_end(addr, end, PMD_SIZE);

		if (!entry_none(read_entry(pmd)) && !zap_leaf(tlb, pmd, addr, next))
			zap_ptes(tlb, pmd, addr, next);
		addr = next;
	}
}

/* Tables may go when all that they cover lies in [floor, ceiling): nothing
 * beside the range uses them. */
struct free_range {
	struct mmu_gather *tlb;
	u64 floor, ceiling; /* ceiling 0: the end of the address space */
};

static bool covers(const struct free_range *range, u64 addr, u64 size)
{
	u64 start = ALIGN_DOWN(addr, size);

	return start >= range->floor && start + size - 1 <= range->ceiling - 1;
}

static void free_table(const struct free_range *range, u64 *entry, int level, u64 addr)
{
	u64 table = entry_pa(read_entry(entry));

	set_entry(entry, 0);
	tlb_remove_table(range->tlb, level, ALIGN_DOWN(addr, 1UL << level_shift(level)), table);
}

static void free_pte_tables(const struct free_range *range, pud_t *pud, u64 addr, u64 end)
{
	while (addr != end) {
		u64 next = piece_end(addr, end, PMD_SIZE);
		pmd_t *pmd = pmd_offset(pud, addr);

		if (entry_is_table(read_entry(pmd)) && covers(range, addr, PMD_SIZE))
			free_table(range, pmd, LEVEL_PMD, addr);
		addr = next;
	}
}

static void free_pmd_tables(const struct free_range *range, u64 addr, u64 end)
{
	struct mm *mm = range->tlb->mm;

	while (addr != end) {
		u64 next = piece_end(addr, end, PUD_SIZE);
		pud_t *pud = pud_offset(mm, addr);

		if (pud && entry_is_table(read_entry(pud))) {
			free_pte_tables(range, pud, addr, next);
			if (covers(range, addr, PUD_SIZE))
				free_table(range, pud, LEVEL_PUD, addr);
		}
		addr = next;
	}
}

static void free_tables(const struct free_range *range, u64 addr, u64 end)
{
	struct mm *mm = range->tlb->mm;

	while (addr != end) {
		u64 next = piece_end(addr, end, PGD_SIZE);

		free_pmd_tables(range, addr, next);
		if (mm->levels == 4 && covers(range, addr, PGD_SIZE)) {
			pgd_t *pgd = table_entry(mm->root, addr, LEVEL_PGD);

			if (entry_is_table(read_entry(pgd)))
				free_table(range, pgd, LEVEL_PGD, addr);
		}
		addr = next;
	}
}

void unmap_range(struct mm *mm, u64 start, u64 len)
{
	u64 end = start + len;
	struct vma *vma = cut_areas(mm, start, end);
	struct vma *before = NULL;
	struct mmu_gather tlb;

	if (!vma)
		return;
	for (struct vma *at = mm->vmas; at != vma; at = at->next)
		before = at;

	u64 first = vma->start, last = first;

	tlb_gather_mmu(&tlb, mm);
	while (vma && vma->start < end) {
		struct vma *next = vma->next;

		zap_range(&tlb, vma->start, vma->end);
		tlb_end_vma(&tlb);
		last = vma->end;
		unlink_vma(mm, vma);
		vma = next;
	}

	struct free_range range = { &tlb, before ? before->end : 0, vma ? vma->start : mm_top(mm) };

	free_tables(&range, first, last);
	tlb_finish_mmu(&tlb);
}
