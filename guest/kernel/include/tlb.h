/* Removing translations from the TLBs of all CPUs that may hold them. */
#ifndef TLB_H
#define TLB_H

#include <mm.h>

/* No hint about the level of the leaves. */
#define TLB_LEVEL_UNKNOWN (-1)

/* Pages, not last level only: after changes at any level. */
void flush_tlb_range(struct mm *mm, u64 start, u64 end);
void flush_tlb_page(struct mm *mm, u64 addr);
/* Leaves of 2 MiB. */
void flush_pmd_tlb_range(struct mm *mm, u64 start, u64 end);
void flush_tlb_mm(struct mm *mm);

typedef void (*flush_range_fn)(struct mm *mm, u64 start, u64 end);
/* Invalidates leaves and leaves table entries alone; NULL when the architecture
 * cannot do that. */
flush_range_fn arch_flush_leaves(void);

/* When set, ranges are invalidated page by page whatever their length. */
void tlb_set_no_threshold(bool on);

struct mmu_gather;

/* The invalidation that a batch of unmapped pages and tables needs. */
void arch_tlb_flush(struct mmu_gather *tlb);

#endif
