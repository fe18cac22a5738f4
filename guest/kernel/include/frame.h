/* Physical frames and their descriptors. */
#ifndef FRAME_H
#define FRAME_H

#include <arch.h>
#include <lock.h>

#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)

/* Orders the allocator hands out: a page, 64 KiB, 2 MiB. */
#define ORDER_4K 0
#define ORDER_64K 4
#define ORDER_2M 9

struct page {
	struct spinlock ptl; /* of the table that this frame holds */
	u32 next;            /* frame number + 1 in a free list */
	u32 refs;
	u8 order; /* of the folio this frame belongs to */
	u8 dirty; /* the contents may be other than zero */
};

void frame_init(u64 ram_base, u64 ram_size, u64 first_free);

/* A folio of 1 << order frames aligned to its size, all zero; panics when
 * memory is exhausted. References: one on the first frame. */
u64 alloc_folio(int order);
/* Drops the reference of each frame of a folio's mapping; frees at the last. */
void get_folio(u64 pa);
void put_folio(u64 pa);
/* A table frame whose entries are all clear again. */
void free_empty_table(u64 pa);
u64 frames_in_use(void);

struct page *page_of(u64 pa);
u64 folio_start(u64 pa);

#endif
