/* Descriptors of physical pages at boot: their memory, their first contents, and
 * the free lists they end in.
 *
 * The machine described is not the machine that runs: descriptors exist, the
 * pages behind them are never touched. */
#ifndef MEMMAP_H
#define MEMMAP_H

#include <types.h>

/* Where descriptors are mapped; page number n is at n times their size. */
#define VMEMMAP 0xffffea0000000000UL

enum memory_kind { MEMORY_USABLE, MEMORY_RESERVED, MEMORY_HOLE };

/* Pages [first, behind) of the described machine. */
struct memory_range {
	u64 first, behind;
	enum memory_kind kind;
};

#define MEMORY_RANGES_MAX 8

struct memory_map {
	struct memory_range ranges[MEMORY_RANGES_MAX]; /* by address, without gaps */
	u32 nr;
	u64 pages;
};

/* The part of a descriptor that boot writes; it may be longer. */
struct boot_page {
	u64 flags;
	struct boot_page *next, *prev; /* free list; itself when on none */
	u64 mapping;
	u64 index;
	u64 private; /* order of a free block, in its first page */
	u32 mapcount;
	u32 refs;
};

#define BOOT_PAGE_MIN sizeof(struct boot_page)
#define BOOT_PAGE_MAX 80UL

#define FLAG_RESERVED (1UL << 0)
#define FLAG_BUDDY (1UL << 1)
#define FLAG_ZONE_SHIFT 60 /* zone 1 for all of it: node 0 */
#define MAPCOUNT_NONE 0xffffffffU
#define BLOCK_ORDER_MAX 10

enum zeroing { ZEROING_NONE, ZEROING_EARLY_MEMSET, ZEROING_IN_INIT_MEMSET, ZEROING_IN_INIT_STORES };
enum store { STORE_8, STORE_16, STORE_LINE };

struct memmap {
	struct memory_map map;
	u64 size; /* bytes of a descriptor */
	u64 pa;   /* of the first one; contiguous, 2 MiB aligned */
	u64 bytes;
	enum zeroing zeroing;
	enum store store;
	struct boot_page free[BLOCK_ORDER_MAX + 1]; /* heads of lists */
};

static inline struct boot_page *boot_page(const struct memmap *memmap, u64 pfn)
{
	return (struct boot_page *)(VMEMMAP + pfn * memmap->size);
}

/* One reserved range, and one hole in the middle. */
void describe_memory(struct memory_map *map, u64 bytes, u64 hole);

/* Takes frames for all descriptors; nothing is mapped. */
void memmap_take_frames(struct memmap *memmap);
/* Maps them, in leaves of 2 MiB or 4 KiB, and zeroes them when that comes early. */
void memmap_populate(struct memmap *memmap, bool huge);
/* First contents of every descriptor that has memory behind it. */
void memmap_init(struct memmap *memmap);
/* Contents of those that have none. */
void memmap_zero_unavailable(struct memmap *memmap);
/* Usable pages go to the free lists in aligned blocks; gives their number. */
u64 memmap_free(struct memmap *memmap);
/* Descriptors that do not hold what they should. */
u64 memmap_count_wrong(const struct memmap *memmap);

#endif
