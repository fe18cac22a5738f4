/* The walk over the range: area by area, table by table, run by run, with one
 * invalidation at the end. */
#include <asm/pgtable.h>
#include <gather.h>
#include <mprotect.h>

struct protection {
	struct mmu_gather tlb;
	const struct change_variant *variant;
	bool write;
};

/* Entries from here that map the following pages of the same folio. */
static u64 run_length(const pte_t *ptep, u64 limit)
{
	u64 pa = entry_pa(read_entry(ptep));
	u64 folio_end = folio_start(pa) + (PAGE_SIZE << page_of(pa)->order);
	u64 room = MIN(limit, (folio_end - pa) >> PAGE_SHIFT);
	u64 nr = 1;

	while (nr < room && entry_valid(read_entry(ptep + nr)) &&
	       entry_pa(read_entry(ptep + nr)) == pa + (nr << PAGE_SHIFT))
		nr++;
	return nr;
}

static void protect_ptes(struct protection *to, pmd_t *pmd, u64 addr, u64 end)
{
	struct mm *mm = to->tlb.mm;
	pte_t *ptep = pte_offset(pmd, addr);
	struct spinlock *lock = table_lock(ptep);
	u64 nr;

	spin_lock(lock);
	for (; addr < end; addr += nr << PAGE_SHIFT, ptep += nr) {
		nr = 1;
		if (!entry_valid(read_entry(ptep)))
			continue;
		nr = run_length(ptep, (end - addr) >> PAGE_SHIFT);
		to->variant->change(mm, addr, ptep, nr, to->write);
		tlb_note_cleared(&to->tlb, LEVEL_PTE, addr, nr << PAGE_SHIFT);
	}
	spin_unlock(lock);
}

static void protect_leaf(struct protection *to, pmd_t *pmd, u64 addr)
{
	struct mm *mm = to->tlb.mm;
	struct spinlock *lock = table_lock(pmd);

	spin_lock(lock);
	set_pmd_at(mm, addr, pmd, entry_with_access(pmd_modify_start(mm, addr, pmd), to->write));
	spin_unlock(lock);
	tlb_note_cleared(&to->tlb, LEVEL_PMD, addr, PMD_SIZE);
}

static void protect_area(struct protection *to, const struct vma *vma)
{
	struct mm *mm = to->tlb.mm;
	u64 next;

	for (u64 addr = vma->start; addr != vma->end; addr = next) {
		pmd_t *pmd = pmd_lookup(mm, addr);
		u64 room = PMD_SIZE - (addr & (PMD_SIZE - 1));

		next = addr + MIN(room, vma->end - addr);
		if (!pmd || entry_none(read_entry(pmd)))
			continue;
		if (entry_is_block(read_entry(pmd)) && next - addr != PMD_SIZE)
			split_huge_pmd(mm, pmd, addr);
		if (entry_is_block(read_entry(pmd)))
			protect_leaf(to, pmd, addr);
		else
			protect_ptes(to, pmd, addr, next);
	}
}

void protect_range(struct mm *mm, u64 start, u64 len, bool write, const struct change_variant *variant)
{
	struct protection to = { .variant = variant, .write = write };
	u64 end = start + len;

	spin_lock(&mm->mmap_lock);
	tlb_gather_mmu(&to.tlb, mm);
	for (struct vma *vma = cut_areas(mm, start, end); vma && vma->start < end; vma = vma->next) {
		vma->flags = write ? vma->flags | VM_WRITE : vma->flags & ~VM_WRITE;
		protect_area(&to, vma);
	}
	tlb_finish_mmu(&to.tlb);
	spin_unlock(&mm->mmap_lock);
}
