/* Areas of an address space: a list sorted by address. */
#include <asm/pgtable.h>
#include <kernel.h>
#include <mm.h>

u64 mm_top(const struct mm *mm)
{
	return mm->levels == 3 ? PGD_SIZE : USER_TOP;
}

struct vma *find_vma(struct mm *mm, u64 addr)
{
	struct vma *vma = mm->vmas;

	while (vma && vma->end <= addr)
		vma = vma->next;
	return vma;
}

static struct vma *alloc_vma(struct mm *mm)
{
	struct vma *vma = mm->spare;

	if (!vma)
		panic("more than %d areas in an address space", VMAS_MAX);
	mm->spare = vma->next;
	return vma;
}

static void link_vma(struct mm *mm, struct vma *vma)
{
	struct vma **at = &mm->vmas;

	while (*at && (*at)->start < vma->start)
		at = &(*at)->next;
	vma->next = *at;
	*at = vma;
}

void unlink_vma(struct mm *mm, struct vma *vma)
{
	struct vma **at = &mm->vmas;

	while (*at != vma)
		at = &(*at)->next;
	*at = vma->next;
	vma->next = mm->spare;
	mm->spare = vma;
}

struct vma *map_area(struct mm *mm, u64 start, u64 len, u32 flags, int order)
{
	struct vma *next = find_vma(mm, start);

	if (!len || !IS_ALIGNED(start | len, PAGE_SIZE))
		panic("area %lx, %lx bytes: not whole pages", start, len);
	if (start >= mm_top(mm) || len > mm_top(mm) - start)
		panic("area %lx, %lx bytes: outside the user half of %lx bytes", start, len, mm_top(mm));
	if (next && next->start - start < len)
		panic("area %lx, %lx bytes: overlaps %lx", start, len, next->start);

	struct vma *vma = alloc_vma(mm);

	*vma = (struct vma){ .start = start, .end = start + len, .flags = flags, .order = order };
	link_vma(mm, vma);
	return vma;
}

void mm_init(struct mm *mm, int levels)
{
	static u64 next_asid = 1;

	memset(mm, 0, sizeof(*mm));
	mm->root = __va(alloc_table());
	mm->levels = levels;
	mm->asid = next_asid++;
	mm->tlb_gen = 1;
	for (u32 i = 0; i < VMAS_MAX; i++) {
		mm->pool[i].next = mm->spare;
		mm->spare = &mm->pool[i];
	}
	arch_share_kernel(mm->root);
}

/* Makes `addr` a boundary between areas. */
static void split_vma(struct mm *mm, u64 addr)
{
	struct vma *vma = find_vma(mm, addr);

	if (!vma || vma->start >= addr)
		return;

	struct vma *tail = alloc_vma(mm);

	*tail = *vma;
	tail->start = addr;
	tail->pgoff += (addr - vma->start) >> PAGE_SHIFT;
	vma->end = addr;
	vma->next = tail;
}

struct vma *cut_areas(struct mm *mm, u64 start, u64 end)
{
	split_vma(mm, start);
	split_vma(mm, end);

	struct vma *first = find_vma(mm, start);

	return first && first->start < end ? first : NULL;
}
