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

/* In page batches, bit 0 tells an empty table from data. */
#define IS_TABLE 1UL

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

static void free_pages(struct mmu_gather *tlb)
{
	while (tlb->pages) {
		u64 pa = tlb->pages;
		struct page_batch *batch = __va(pa);

		for (u32 i = 0; i < batch->used; i++) {
			if (batch->frames[i] & IS_TABLE)
				free_empty_table(batch->frames[i] & ~IS_TABLE);
			else
				put_folio(batch->frames[i]);
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

static void add_frame(struct mmu_gather *tlb, u64 frame)
{
	struct page_batch *batch = tlb->pages ? __va(tlb->pages) : NULL;

	if (batch && batch->used == PAGE_BATCH && batch->depth == PAGE_BATCHES_MAX) {
		flush(tlb);
		batch = NULL;
	}
	if (!batch || batch->used == PAGE_BATCH) {
		u64 pa = alloc_folio(ORDER_4K);
		u32 depth = batch ? batch->depth + 1 : 1;

		batch = __va(pa);
		batch->next = tlb->pages;
		batch->depth = depth;
		tlb->pages = pa;
	}
	batch->frames[batch->used++] = frame;
}

void tlb_remove_page(struct mmu_gather *tlb, u64 pa)
{
	add_frame(tlb, pa);
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
