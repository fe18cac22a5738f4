/* Free lists of aligned blocks, and the check of what boot has left behind. */
#include <kernel.h>
#include <memmap.h>

static void free_block(struct memmap *memmap, u64 pfn, int order)
{
	struct boot_page *head = &memmap->free[order], *first = boot_page(memmap, pfn);

	for (u64 i = 0; i < 1UL << order; i++)
		WRITE_ONCE(boot_page(memmap, pfn + i)->refs, 0);
	first->flags |= FLAG_BUDDY;
	first->private = (u64)order;
	first->next = head->next;
	first->prev = head;
	head->next->prev = first;
	head->next = first;
}

/* The largest block that starts at pfn and ends by `behind`. */
static int block_order(u64 pfn, u64 behind)
{
	int order = BLOCK_ORDER_MAX;

	while (!IS_ALIGNED(pfn, 1UL << order) || pfn + (1UL << order) > behind)
		order--;
	return order;
}

u64 memmap_free(struct memmap *memmap)
{
	u64 freed = 0;

	for (int order = 0; order <= BLOCK_ORDER_MAX; order++)
		memmap->free[order].next = memmap->free[order].prev = &memmap->free[order];
	for (u32 i = 0; i < memmap->map.nr; i++) {
		const struct memory_range *range = &memmap->map.ranges[i];

		if (range->kind != MEMORY_USABLE)
			continue;
		for (u64 pfn = range->first; pfn < range->behind;) {
			int order = block_order(pfn, range->behind);

			free_block(memmap, pfn, order);
			pfn += 1UL << order;
		}
		freed += range->behind - range->first;
	}
	return freed;
}

static bool zero_from(const struct boot_page *page, u64 at, u64 size)
{
	for (; at < size; at += 8)
		if (*(const u64 *)((const u8 *)page + at))
			return false;
	return true;
}

static bool is_right(const struct memmap *memmap, const struct boot_page *page, enum memory_kind kind)
{
	if (kind == MEMORY_HOLE)
		return zero_from(page, 0, memmap->size);

	bool head = page->flags & FLAG_BUDDY, reserved = page->flags & FLAG_RESERVED;
	u64 rest = page->flags & ~(FLAG_BUDDY | FLAG_RESERVED);

	return rest == 1UL << FLAG_ZONE_SHIFT && reserved == (kind == MEMORY_RESERVED) &&
	       page->refs == (kind == MEMORY_RESERVED) && page->mapcount == MAPCOUNT_NONE && !page->mapping &&
	       !page->index && (head || (!page->private && page->next == page && page->prev == page)) &&
	       zero_from(page, sizeof(*page), memmap->size);
}

u64 memmap_count_wrong(const struct memmap *memmap)
{
	u64 wrong = 0;

	for (u32 i = 0; i < memmap->map.nr; i++) {
		const struct memory_range *range = &memmap->map.ranges[i];

		for (u64 pfn = range->first; pfn < range->behind; pfn++)
			wrong += !is_right(memmap, boot_page(memmap, pfn), range->kind);
	}
	return wrong;
}
