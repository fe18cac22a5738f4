/* x86: operations on user entries. */
#ifndef ASM_PGTABLE_H
#define ASM_PGTABLE_H

#include <asm/cpu.h>
#include <pgtable.h>

#define USER_TOP (1UL << 47)
#define ARCH_TABLE_BATCH false
/* One invalidation may cover several areas, and freed tables. */
#define ARCH_MERGES_VMAS true

/* Stores to tables are seen in order; nothing to wait for. */
static inline void table_barrier(void)
{
}

static inline u64 mk_user_leaf(u64 pa, int level, bool write, bool exec)
{
	return pa | leaf_type(level) | PTE_USER | PTE_ACCESSED | (write ? PTE_RW | PTE_DIRTY : 0) | (exec ? 0 : PTE_NX);
}

static inline pte_t pmd_to_pte(pmd_t pmd)
{
	return (pmd & ~PTE_PSE) | PTE_PRESENT;
}

static inline void set_ptes(struct mm *mm, u64 addr, pte_t *ptep, pte_t pte, u64 nr)
{
	for (; nr; nr--, ptep++, pte += PAGE_SIZE)
		set_entry(ptep, pte);
}

static inline pte_t ptep_get_and_clear(struct mm *mm, u64 addr, pte_t *ptep)
{
	return xchg_entry(ptep, 0);
}

static inline pte_t ptep_clear_in_range(struct mm *mm, u64 addr, pte_t *ptep, u64 start, u64 end)
{
	return xchg_entry(ptep, 0);
}

static inline void set_pmd_at(struct mm *mm, u64 addr, pmd_t *pmdp, pmd_t pmd)
{
	set_entry(pmdp, pmd);
}

static inline pmd_t pmdp_huge_get_and_clear(struct mm *mm, u64 addr, pmd_t *pmdp)
{
	return xchg_entry(pmdp, 0);
}

/* Makes a leaf invalid, keeping the rest of it, and removes it from the TLBs. */
pmd_t pmdp_invalidate(struct mm *mm, u64 addr, pmd_t *pmdp);

#endif
