/* Writes to shared pages. */
#include <asm/pgtable.h>
#include <fork.h>
#include <kernel.h>
#include <tlb.h>

/* The page under `addr` becomes a new one with the same contents. */
static void copy_page(struct mm *mm, u64 addr, pte_t *ptep, bool exec)
{
	u64 old = entry_pa(read_entry(ptep)), new = alloc_folio(ORDER_4K);

	memcpy(__va(new), __va(old), PAGE_SIZE);
	page_of(new)->dirty = 1;
	/* Nobody may see the new page while others still see the old one. */
	ptep_get_and_clear(mm, addr, ptep);
	flush_tlb_page(mm, addr);
	set_ptes(mm, addr, ptep, mk_user_leaf(new, LEVEL_PTE, true, exec), 1);
	put_folio(old);
}

static bool is_only_user(u64 pa)
{
	return READ_ONCE(page_of(folio_start(pa))->refs) == 1;
}

/* A 2 MiB leaf that nobody else has becomes writable as a whole. */
static bool reuse_leaf(struct mm *mm, u64 addr, pmd_t *pmd)
{
	struct spinlock *lock = table_lock(pmd);

	spin_lock(lock);

	u64 leaf = read_entry(pmd);
	bool reused = entry_is_block(leaf) && is_only_user(ALIGN_DOWN(entry_pa(leaf), PMD_SIZE));

	if (reused && !entry_writable(leaf))
		allow_write(mm, addr, pmd);
	spin_unlock(lock);
	return reused;
}

bool write_fault(struct mm *mm, u64 addr)
{
	struct vma *vma = find_vma(mm, addr);
	pmd_t *pmd = pmd_lookup(mm, addr);

	if (!vma || vma->start > addr || !(vma->flags & VM_WRITE) || !pmd || entry_none(read_entry(pmd)))
		return false;
	addr = ALIGN_DOWN(addr, PAGE_SIZE);
	if (entry_is_block(read_entry(pmd))) {
		if (reuse_leaf(mm, addr, pmd))
			return true;
		split_huge_pmd(mm, pmd, addr);
	}

	pte_t *ptep = pte_offset(pmd, addr);
	struct spinlock *lock = table_lock(ptep);

	spin_lock(lock);

	pte_t pte = read_entry(ptep);
	bool valid = entry_valid(pte);

	/* Another CPU may have been here first. */
	if (valid && !entry_writable(pte)) {
		/* Pages of a larger folio are copied, even when all of it is this
		 * address space's. */
		if (page_of(entry_pa(pte))->order == ORDER_4K && is_only_user(entry_pa(pte)))
			allow_write(mm, addr, ptep);
		else
			copy_page(mm, addr, ptep, vma->flags & VM_EXEC);
	}
	spin_unlock(lock);
	return valid;
}
