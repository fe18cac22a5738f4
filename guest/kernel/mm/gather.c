/* Batching of unmaps: what to invalidate, and the frames to free behind it. */
#include <asm/pgtable.h>
#include <gather.h>
#include <kernel.h>
#include <tlb.h>

/* Tables of an architecture whose other CPUs may walk them without an interrupt
 * to hold them off go through a batch of their own: one frame of addresses
 * behind a header of three words. */
#define TABLE_BATCH ((PAGE_SIZE - 24) / 8)
/* Data frames: addresses behind two words of header, in a chain of frames. */
#define PAGE_BATCH ((PAGE_SIZE - 16) / 8)
#define PAGE_BATCHES_MAX 19

struct table_batch {
	u64 header[3];
	u64 tables[TABLE_BATCH];
};

struct page_batch {
	u64 next;
	u32 used;
	u32 depth; /* batches from here to the end of the chain */
	u64 frames[PAGE_BATCH];
};

/* In page batches, bit 0 tells an empty table from data; bit 1, that the next
 * word is the number of pages of the same folio, in order. */
#define IS_TABLE 1UL
#define HAS_COUNT 2UL

static void reset_range(struct mmu_gather *tlb)
{
	tlb->start = ~0UL;
	tlb->end = 0;
	tlb->cleared = 0;
	tlb->freed_tables = false;
}

void tlb_gather_mmu(struct mmu_gather *tlb, struct mm *mm)
{
	tlb->mm = mm;
	tlb->batch = 0;
	tlb->batched = 0;
	tlb->pages = 0;
	reset_range(tlb);
}

u64 tlb_stride(const struct mmu_gather *tlb)
{
	for (int level = LEVEL_PTE; level > LEVEL_PGD; level--)
		if (tlb->cleared & 1U << level)
			return 1UL << level_shift(level);
	return PGD_SIZE;
}

int tlb_level(const struct mmu_gather *tlb)
{
	if (tlb->freed_tables || tlb->cleared & (tlb->cleared - 1))
		return TLB_LEVEL_UNKNOWN;
	return __builtin_ctz(tlb->cleared);
}

void tlb_note_cleared(struct mmu_gather *tlb, int level, u64 addr, u64 size)
{
	tlb->start = MIN(tlb->start, addr);
	tlb->end = MAX(tlb->end, addr + size);
	tlb->cleared |= 1U << level;
}

static void invalidate(struct mmu_gather *tlb)
{
	if (!tlb->cleared)
		return;
	arch_tlb_flush(tlb);
	reset_range(tlb);
}

static void free_batched_tables(struct mmu_gather *tlb)
{
	struct table_batch *batch = __va(tlb->batch);

	for (u32 i = 0; i < tlb->batched; i++)
		free_empty_table(batch->tables[i]);
	put_folio(tlb->batch);
	tlb->batch = 0;
	tlb->batched = 0;
}

static void put_pages(u64 pa, u64 nr)
{
	for (; nr; nr--)
		put_folio(pa);
}

static void free_pages(struct mmu_gather *tlb)
{
	while (tlb->pages) {
		u64 pa = tlb->pages;
		struct page_batch *batch = __va(pa);

		for (u32 i = 0; i < batch->used; i++) {
			u64 frame = batch->frames[i];

			if (frame & IS_TABLE)
				free_empty_table(frame & ~IS_TABLE);
			else if (frame & HAS_COUNT)
				put_pages(frame & ~HAS_COUNT, batch->frames[++i]);
			else
				put_folio(frame);
		}
		tlb->pages = batch->next;
		put_folio(pa);
	}
}

static void flush(struct mmu_gather *tlb)
{
	invalidate(tlb);
	if (tlb->batch)
		free_batched_tables(tlb);
	free_pages(tlb);
}

void tlb_finish_mmu(struct mmu_gather *tlb)
{
	flush(tlb);
}

/* The newest batch, with room for `words`. */
static struct page_batch *batch_with_room(struct mmu_gather *tlb, u32 words)
{
	struct page_batch *batch = tlb->pages ? __va(tlb->pages) : NULL;
	bool full = batch && batch->used + words > PAGE_BATCH;

	if (full && batch->depth == PAGE_BATCHES_MAX) {
		flush(tlb);
		batch = NULL;
	}
	if (!batch || full) {
		u64 pa = alloc_folio(ORDER_4K);
		u32 depth = batch ? batch->depth + 1 : 1;

		batch = __va(pa);
		batch->next = tlb->pages;
		batch->depth = depth;
		tlb->pages = pa;
	}
	return batch;
}

static void add_frame(struct mmu_gather *tlb, u64 frame)
{
	struct page_batch *batch = batch_with_room(tlb, 1);

	batch->frames[batch->used++] = frame;
}

void tlb_remove_pages(struct mmu_gather *tlb, u64 pa, u64 nr)
{
	if (nr == 1) {
		add_frame(tlb, pa);
		return;
	}

	struct page_batch *batch = batch_with_room(tlb, 2);

	batch->frames[batch->used++] = pa | HAS_COUNT;
	batch->frames[batch->used++] = nr;
}

void tlb_end_vma(struct mmu_gather *tlb)
{
	if (!ARCH_MERGES_VMAS)
		invalidate(tlb);
}

void tlb_remove_table(struct mmu_gather *tlb, int level, u64 addr, u64 pa)
{
	tlb_note_cleared(tlb, level, addr, PAGE_SIZE);
	tlb->freed_tables = true;
	if (!ARCH_TABLE_BATCH) {
		add_frame(tlb, pa | IS_TABLE);
		return;
	}
	if (!tlb->batch)
		tlb->batch = alloc_folio(ORDER_4K);

	struct table_batch *batch = __va(tlb->batch);

	batch->tables[tlb->batched++] = pa;
	if (tlb->batched == TABLE_BATCH) {
		invalidate(tlb);
		free_batched_tables(tlb);
	}
}
