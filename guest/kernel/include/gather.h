/* Collecting what an unmap removes, so that one invalidation covers many pages
 * and frames are reused only after it. */
#ifndef GATHER_H
#define GATHER_H

#include <mm.h>

struct mmu_gather {
	struct mm *mm;
	u64 start, end;    /* range to invalidate; empty when start > end */
	u32 cleared;       /* bit L: entries of level L were cleared */
	bool freed_tables;
	u64 batch;         /* frame that lists the table frames, 0 when none */
	u32 batched;
	u64 pages;         /* chain of frames that list data frames, 0 when none */
};

void tlb_gather_mmu(struct mmu_gather *tlb, struct mm *mm);
void tlb_finish_mmu(struct mmu_gather *tlb);

/* An entry of `level` that covered [addr, addr + size) was cleared. */
void tlb_note_cleared(struct mmu_gather *tlb, int level, u64 addr, u64 size);
/* `nr` pages of one folio, in order, whose entries are gone. */
void tlb_remove_pages(struct mmu_gather *tlb, u64 pa, u64 nr);
/* The entries of an area are gone; its tables are not. */
void tlb_end_vma(struct mmu_gather *tlb);
/* A table was cleared from an entry of `level`; addr as for the entry. */
void tlb_remove_table(struct mmu_gather *tlb, int level, u64 addr, u64 pa);

/* Distance between entries to invalidate, by the lowest level that changed. */
u64 tlb_stride(const struct mmu_gather *tlb);
/* The only level of cleared leaves, or TLB_LEVEL_UNKNOWN. */
int tlb_level(const struct mmu_gather *tlb);

#endif
