/* Filling areas with pages. */
#include <asm/pgtable.h>
#include <kernel.h>
#include <mm.h>

/* Objects of shared memory are few and never freed. */
void make_shared(struct vma *vma)
{
	static struct shmem objects[8];
	static u32 used;
	u64 pages = (vma->end - vma->start) >> PAGE_SHIFT;
	struct shmem *shmem = &objects[used++];
	int order = pages <= PAGE_SIZE / 8 ? ORDER_4K : ORDER_2M;

	if (used > ARRAY_LEN(objects))
		panic("more than %lu shared objects", ARRAY_LEN(objects));
	/* The index is one run of frames: single frames come from fresh memory
	 * in order, whatever their number. */
	shmem->frames = __va(alloc_folio(order));
	for (u64 have = PAGE_SIZE << order; have < pages * 8; have += PAGE_SIZE << order)
		if (alloc_folio(order) != __pa(shmem->frames) + have)
			panic("the index of a shared object is not contiguous");
	shmem->pages = pages;
	vma->shmem = shmem;
	vma->flags |= VM_SHARED;
}

static u64 shared_page(struct vma *vma, u64 addr, int order)
{
	u64 index = vma->pgoff + ((addr - vma->start) >> PAGE_SHIFT);
	u64 *slot = &vma->shmem->frames[index];

	if (!*slot) {
		u64 pa = alloc_folio(order);

		for (u64 i = 0; i < 1UL << order; i++)
			slot[i] = pa + (i << PAGE_SHIFT);
	}
	return *slot;
}

/* The pages behind [addr, addr + folio size), with one reference for each
 * entry that will map them (a 2 MiB leaf is one entry). */
static u64 folio_for(struct vma *vma, u64 addr, int order)
{
	u64 refs = order == ORDER_2M ? 1 : 1UL << order;
	u64 pa = vma->shmem ? shared_page(vma, addr, order) : alloc_folio(order);

	/* A private folio starts with one reference; the object keeps that one. */
	__atomic_add_fetch(&page_of(folio_start(pa))->refs, (u32)(vma->shmem ? refs : refs - 1), __ATOMIC_RELAXED);
	return pa;
}

/* The largest folio of the area that starts at addr and fits. */
static int order_at(const struct vma *vma, u64 addr)
{
	u64 size = PAGE_SIZE << vma->order;

	return IS_ALIGNED(addr, size) && vma->end - addr >= size ? vma->order : ORDER_4K;
}

static void map_folio(struct mm *mm, struct vma *vma, u64 addr, int order)
{
	u64 pa = folio_for(vma, addr, order);
	bool write = vma->flags & VM_WRITE, exec = vma->flags & VM_EXEC;

	if (order == ORDER_2M) {
		pmd_t *pmd = pmd_alloc(mm, addr);

		spin_lock(table_lock(pmd));
		set_pmd_at(mm, addr, pmd, mk_user_leaf(pa, LEVEL_PMD, write, exec));
		spin_unlock(table_lock(pmd));
		return;
	}

	pte_t *pte = pte_alloc(mm, addr);

	spin_lock(table_lock(pte));
	set_ptes(mm, addr, pte, mk_user_leaf(pa, LEVEL_PTE, write, exec), 1UL << order);
	spin_unlock(table_lock(pte));
}

void populate(struct mm *mm, struct vma *vma)
{
	for (u64 addr = vma->start; addr < vma->end;) {
		int order = order_at(vma, addr);

		map_folio(mm, vma, addr, order);
		addr += PAGE_SIZE << order;
	}
}

bool fault_in(struct mm *mm, u64 addr, bool write)
{
	struct vma *vma = find_vma(mm, addr);

	if (!vma || vma->start > addr || (write && !(vma->flags & VM_WRITE)))
		return false;

	spin_lock(&mm->mmap_lock);
	if (!frame_at(mm, addr))
		map_folio(mm, vma, ALIGN_DOWN(addr, PAGE_SIZE), ORDER_4K);
	spin_unlock(&mm->mmap_lock);
	return true;
}

/* Replaces a 2 MiB leaf by a table of pages that maps the same memory. The
 * table is filled before it is installed, so its entries are no stores to a
 * live table. */
void split_huge_pmd(struct mm *mm, pmd_t *pmd, u64 addr)
{
	u64 start = ALIGN_DOWN(addr, PMD_SIZE);
	struct spinlock *lock = table_lock(pmd);
	u64 table = alloc_table();
	pmd_t local;

	spin_lock(lock);

	pmd_t old = pmdp_invalidate(mm, start, pmd);
	u64 pa = ALIGN_DOWN(entry_pa(old), PMD_SIZE);

	/* 512 entries will hold what one did. */
	__atomic_add_fetch(&page_of(folio_start(pa))->refs, PTRS_PER_TABLE - 1, __ATOMIC_RELAXED);
	populate_entry(&local, table);
	set_ptes(mm, start, table_entry(table_below(&local), start, LEVEL_PTE), pmd_to_pte(old), PTRS_PER_TABLE);
	populate_entry(pmd, entry_pa(local));
	spin_unlock(lock);
}
