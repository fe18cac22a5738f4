/* The copy itself: area by area, table by table, run by run. */
#include <asm/pgtable.h>
#include <fork.h>
#include <kernel.h>
#include <tlb.h>

static void add_references(u64 pa, u64 nr)
{
	__atomic_add_fetch(&page_of(folio_start(pa))->refs, (u32)nr, __ATOMIC_RELAXED);
}

/* How many entries from here map the pages that follow in the same folio, with
 * the same attributes: at least one, at most `limit`. */
static u64 run_length(const pte_t *ptep, pte_t pte, u64 limit)
{
	u64 pa = entry_pa(pte);
	u64 folio_end = folio_start(pa) + (PAGE_SIZE << page_of(pa)->order);
	u64 room = MIN(limit, (folio_end - pa) >> PAGE_SHIFT);
	u64 nr = 1;

	if (room > 1)
		nr = MIN(batch_hint(ptep, pte), room);
	while (nr < room) {
		pte_t next = read_gathered(ptep + nr);

		if (!entry_valid(next) || !same_attributes(next, pte) || entry_pa(next) != pa + (nr << PAGE_SHIFT))
			break;
		nr = MIN(nr + batch_hint(ptep + nr, next), room);
	}
	return nr;
}

static void copy_ptes(struct fork *fork, pmd_t *pmd, u64 addr, u64 end)
{
	const struct wrprotect_variant *variant = fork->variant;
	pte_t *to = pte_alloc(fork->child, addr);
	pte_t *from = pte_offset(pmd, addr);
	struct spinlock *to_lock = table_lock(to), *from_lock = table_lock(from);
	u64 nr;

	spin_lock(to_lock);
	spin_lock(from_lock);
	for (; addr < end; addr += nr << PAGE_SHIFT, from += nr, to += nr) {
		pte_t pte = read_gathered(from);

		nr = 1;
		if (!entry_valid(pte))
			continue;
		nr = run_length(from, pte, (end - addr) >> PAGE_SHIFT);
		add_references(entry_pa(pte), nr);
		if (entry_writable(pte))
			variant->wrprotect(fork->parent, addr, from, nr);
		variant->set(fork->child, addr, to, entry_wrprotected(pte), nr);
		fork->pages += nr;
		fork->batches++;
	}
	spin_unlock(from_lock);
	spin_unlock(to_lock);
}

static void copy_leaf(struct fork *fork, pmd_t *from, u64 addr)
{
	pmd_t *to = pmd_alloc(fork->child, addr);
	struct spinlock *to_lock = table_lock(to), *from_lock = table_lock(from);

	spin_lock(to_lock);
	spin_lock(from_lock);
	add_references(ALIGN_DOWN(entry_pa(read_entry(from)), PMD_SIZE), 1);
	wrprotect_entry(from);
	set_pmd_at(fork->child, addr, to, entry_wrprotected(read_entry(from)));
	spin_unlock(from_lock);
	spin_unlock(to_lock);
	fork->pages++;
	fork->batches++;
}

static void copy_area(struct fork *fork, const struct vma *vma)
{
	u64 next;

	for (u64 addr = vma->start; addr != vma->end; addr = next) {
		pud_t *pud = pud_offset(fork->parent, addr);
		u64 room = PMD_SIZE - (addr & (PMD_SIZE - 1));

		next = addr + MIN(room, vma->end - addr);
		if (!pud || entry_none(read_entry(pud)))
			continue;

		pmd_t *pmd = pmd_offset(pud, addr);

		if (entry_none(read_entry(pmd)))
			continue;
		if (entry_is_block(read_entry(pmd)) && next - addr != PMD_SIZE)
			split_huge_pmd(fork->parent, pmd, addr);
		if (entry_is_block(read_entry(pmd)))
			copy_leaf(fork, pmd, addr);
		else
			copy_ptes(fork, pmd, addr, next);
	}
}

void fork_mm(struct fork *fork)
{
	struct mm *parent = fork->parent;

	spin_lock(&parent->mmap_lock);
	for (struct vma *vma = parent->vmas; vma; vma = vma->next) {
		/* What nobody can have written needs no copy: a fault finds it. */
		if (!(vma->flags & VM_WRITE) || vma->flags & VM_SHARED)
			continue;
		map_area(fork->child, vma->start, vma->end - vma->start, vma->flags, vma->order);
		copy_area(fork, vma);
	}
	/* Until here other CPUs may write by translations they hold. */
	flush_tlb_mm(parent);
	spin_unlock(&parent->mmap_lock);
}
