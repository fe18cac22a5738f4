/* aarch64: operations on user entries. Single entries of a contiguous group go
 * through contpte.c. */
#ifndef ASM_PGTABLE_H
#define ASM_PGTABLE_H

#include <asm/cpu.h>
#include <pgtable.h>

#define USER_TOP (1UL << 48)
/* Walkers of other CPUs read tables without being asked by interrupt. */
#define ARCH_TABLE_BATCH true
/* Each area's leaves are invalidated by themselves. */
#define ARCH_MERGES_VMAS false

#define CONT_PTES 16UL
#define CONT_PTE_SIZE (CONT_PTES * PAGE_SIZE)

/* What makes a new table pointer visible to walkers before it is relied on. */
static inline void table_barrier(void)
{
	dsb(ishst);
	isb();
}

static inline u64 mk_user_leaf(u64 pa, int level, bool write, bool exec)
{
	return pa | leaf_type(level) | USER_LEAF | (write ? PTE_DBM | PTE_DIRTY : PTE_RDONLY) | (exec ? 0 : PTE_UXN);
}

static inline pte_t pmd_to_pte(pmd_t pmd)
{
	return pmd | PTE_VALID | PTE_TYPE;
}

static inline bool pte_valid_cont(pte_t pte)
{
	return (pte & (PTE_VALID | PTE_CONT)) == (PTE_VALID | PTE_CONT);
}

void contpte_set_ptes(struct mm *mm, u64 addr, pte_t *ptep, pte_t pte, u64 nr);
void contpte_unfold(struct mm *mm, u64 addr, pte_t *ptep);
void contpte_try_fold(struct mm *mm, u64 addr, pte_t *ptep, pte_t pte);

static inline void set_ptes(struct mm *mm, u64 addr, pte_t *ptep, pte_t pte, u64 nr)
{
	if (nr > 1) {
		contpte_set_ptes(mm, addr, ptep, pte, nr);
		return;
	}
	if (pte_valid_cont(read_entry(ptep)))
		contpte_unfold(mm, addr, ptep);
	set_entry(ptep, pte & ~PTE_CONT);
	contpte_try_fold(mm, addr, ptep, pte);
}

static inline pte_t ptep_get_and_clear(struct mm *mm, u64 addr, pte_t *ptep)
{
	if (pte_valid_cont(read_entry(ptep)))
		contpte_unfold(mm, addr, ptep);
	return xchg_entry(ptep, 0);
}

/* As above, when all of [start, end) goes: a group inside it goes as one. */
static inline pte_t ptep_clear_in_range(struct mm *mm, u64 addr, pte_t *ptep, u64 start, u64 end)
{
	u64 group = ALIGN_DOWN(addr, CONT_PTE_SIZE);

	if (pte_valid_cont(read_entry(ptep)) && (group < start || group + CONT_PTE_SIZE > end))
		contpte_unfold(mm, addr, ptep);
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
