/* Memory for page descriptors, and its mapping. */
#include <asm/pgtable.h>
#include <asm/zero.h>
#include <early.h>
#include <kernel.h>
#include <memmap.h>
#include <mm.h>

#define RESERVED_BYTES (16UL << 20) /* the image and what the firmware keeps */

static void add_range(struct memory_map *map, u64 pages, enum memory_kind kind)
{
	if (!pages)
		return;
	map->ranges[map->nr++] = (struct memory_range){ map->pages, map->pages + pages, kind };
	map->pages += pages;
}

void describe_memory(struct memory_map *map, u64 bytes, u64 hole)
{
	u64 pages = bytes >> PAGE_SHIFT, reserved = RESERVED_BYTES >> PAGE_SHIFT;
	u64 half = pages / 2 - reserved;

	map->nr = 0;
	map->pages = 0;
	add_range(map, reserved, MEMORY_RESERVED);
	add_range(map, half, MEMORY_USABLE);
	add_range(map, hole >> PAGE_SHIFT, MEMORY_HOLE);
	add_range(map, pages - reserved - half, MEMORY_USABLE);
}

void memmap_take_frames(struct memmap *memmap)
{
	memmap->bytes = ALIGN_UP(memmap->map.pages * memmap->size, PMD_SIZE);
	memmap->pa = alloc_folio(ORDER_2M);
	for (u64 have = PMD_SIZE; have < memmap->bytes; have += PMD_SIZE)
		if (alloc_folio(ORDER_2M) != memmap->pa + have)
			panic("the frames of the memory map are not contiguous");
}

/* The tables that are live on every CPU. */
static struct mm kernel_tables;

static void map_huge(const struct memmap *memmap)
{
	for (u64 at = 0; at < memmap->bytes; at += PMD_SIZE)
		set_entry(pmd_alloc(&kernel_tables, VMEMMAP + at), mk_kernel_leaf(memmap->pa + at, LEVEL_PMD, false));
}

static void map_pages(const struct memmap *memmap)
{
	for (u64 at = 0; at < memmap->bytes; at += PAGE_SIZE)
		set_entry(pte_alloc(&kernel_tables, VMEMMAP + at), mk_kernel_leaf(memmap->pa + at, LEVEL_PTE, false));
}

/* Through the direct map, as a boot allocator does. */
static void zero_early(const struct memmap *memmap)
{
	u8 *p = __va(memmap->pa), *end = p + memmap->bytes;

	zero_store_begin();
	switch (memmap->store) {
	case STORE_8:
		memset(p, 0, memmap->bytes);
		break;
	case STORE_16:
		for (; p < end; p += 16)
			zero_16(p);
		break;
	case STORE_LINE:
		for (; p < end; p += 64)
			zero_line(p);
		break;
	}
}

void memmap_populate(struct memmap *memmap, bool huge)
{
	kernel_tables.levels = 4;
	kernel_tables.root = __va(early.kernel_root);
	if (memmap->zeroing == ZEROING_EARLY_MEMSET)
		zero_early(memmap);
	if (huge)
		map_huge(memmap);
	else
		map_pages(memmap);
	table_barrier();
}
