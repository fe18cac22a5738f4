/* First contents of page descriptors. Size and zeroing are constants of each
 * loop, so that a descriptor takes a fixed run of stores. */
#include <asm/zero.h>
#include <frame.h>
#include <kernel.h>
#include <memmap.h>

#define __inline static inline __attribute__((always_inline))

__inline void zero_stores(void *page, u64 size, enum store store)
{
	u8 *p = page;
	u64 at = 0;

	if (store == STORE_LINE) {
		zero_line(page);
		return;
	}
#pragma clang loop unroll(full)
	for (; store == STORE_16 && at + 16 <= size; at += 16)
		zero_16(p + at);
#pragma clang loop unroll(full)
	for (; at < size; at += 8)
		WRITE_ONCE(*(u64 *)(p + at), 0);
}

__inline void init_range(const struct memory_range *range, u64 size, enum zeroing zeroing, enum store store)
{
	u64 flags = 1UL << FLAG_ZONE_SHIFT | (range->kind == MEMORY_RESERVED ? FLAG_RESERVED : 0);
	u8 *p = (u8 *)VMEMMAP + range->first * size, *end = (u8 *)VMEMMAP + range->behind * size;

	zero_store_begin();
	for (; p < end; p += size) {
		struct boot_page *page = (struct boot_page *)p;

		if (zeroing == ZEROING_IN_INIT_MEMSET)
			memset(page, 0, size);
		else if (zeroing == ZEROING_IN_INIT_STORES)
			zero_stores(page, size, store);
		WRITE_ONCE(page->flags, flags);
		WRITE_ONCE(page->refs, 1);
		WRITE_ONCE(page->mapcount, MAPCOUNT_NONE);
		WRITE_ONCE(page->next, page);
		WRITE_ONCE(page->prev, page);
	}
}

__inline void init_sized(const struct memmap *memmap, const struct memory_range *range, u64 size)
{
	if (memmap->zeroing == ZEROING_IN_INIT_MEMSET)
		init_range(range, size, ZEROING_IN_INIT_MEMSET, STORE_8);
	else if (memmap->zeroing != ZEROING_IN_INIT_STORES)
		init_range(range, size, ZEROING_NONE, STORE_8);
	else if (memmap->store == STORE_8)
		init_range(range, size, ZEROING_IN_INIT_STORES, STORE_8);
	else if (memmap->store == STORE_16)
		init_range(range, size, ZEROING_IN_INIT_STORES, STORE_16);
	else if (size == 64)
		init_range(range, 64, ZEROING_IN_INIT_STORES, STORE_LINE);
	else
		panic("store=line clears 64 bytes: a descriptor has %lu", size);
}

void memmap_init(struct memmap *memmap)
{
	for (u32 i = 0; i < memmap->map.nr; i++) {
		const struct memory_range *range = &memmap->map.ranges[i];

		if (range->kind == MEMORY_HOLE)
			continue;
		switch (memmap->size) {
		case 56:
			init_sized(memmap, range, 56);
			break;
		case 64:
			init_sized(memmap, range, 64);
			break;
		case 72:
			init_sized(memmap, range, 72);
			break;
		case 80:
			init_sized(memmap, range, 80);
			break;
		default:
			panic("a descriptor has 56, 64, 72 or 80 bytes, not %lu", memmap->size);
		}
	}
}

void memmap_zero_unavailable(struct memmap *memmap)
{
	for (u32 i = 0; i < memmap->map.nr; i++) {
		const struct memory_range *range = &memmap->map.ranges[i];

		if (range->kind == MEMORY_HOLE)
			memset(boot_page(memmap, range->first), 0, (range->behind - range->first) * memmap->size);
	}
}
