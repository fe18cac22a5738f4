/* Translation tables of an address space: geometry, walking, allocation.
 *
 * Levels carry the kernel's usual names; the number is the architecture's:
 * pgd 0, pud 1, pmd 2, pte 3. An address space of three levels has no pgd: its
 * root holds pud entries. */
#ifndef PGTABLE_H
#define PGTABLE_H

#include <asm/pte.h>
#include <entry.h>
#include <frame.h>

#define PTRS_PER_TABLE 512UL
#define PMD_SIZE (1UL << 21)
#define PUD_SIZE (1UL << 30)
#define PGD_SIZE (1UL << 39)

#define LEVEL_PGD 0
#define LEVEL_PUD 1
#define LEVEL_PMD 2
#define LEVEL_PTE 3

typedef u64 pgd_t;
typedef u64 pud_t;
typedef u64 pmd_t;
typedef u64 pte_t;

struct mm;

static inline u64 level_shift(int level)
{
	return 39 - 9 * (u64)level;
}

static inline u64 *table_entry(u64 *table, u64 addr, int level)
{
	return table + ((addr >> level_shift(level)) & (PTRS_PER_TABLE - 1));
}

static inline u64 *table_below(const u64 *entry)
{
	return __va(entry_pa(read_entry(entry)));
}

/* The lock of the table that an entry is in. */
static inline struct spinlock *table_lock(const void *entry)
{
	return &page_of(__pa((void *)ALIGN_DOWN((u64)entry, PAGE_SIZE)))->ptl;
}

static inline bool entry_none(u64 e)
{
	return e == 0;
}

/* Entries on the way to `addr`. pud_offset is NULL when there is no table of
 * pud entries; the others need the entry above them to point to a table. */
pud_t *pud_offset(struct mm *mm, u64 addr);

static inline pmd_t *pmd_offset(const pud_t *pud, u64 addr)
{
	return table_entry(table_below(pud), addr, LEVEL_PMD);
}

static inline pte_t *pte_offset(const pmd_t *pmd, u64 addr)
{
	return table_entry(table_below(pmd), addr, LEVEL_PTE);
}

/* As above; missing tables are allocated and installed. */
pud_t *pud_alloc(struct mm *mm, u64 addr);
pmd_t *pmd_alloc(struct mm *mm, u64 addr);
pte_t *pte_alloc(struct mm *mm, u64 addr);

/* The pmd entry, or NULL when a table above it is missing. */
pmd_t *pmd_lookup(struct mm *mm, u64 addr);

/* The frame that a user address translates to, 0 for none. */
u64 frame_at(struct mm *mm, u64 addr);

/* Stores a table pointer that was not there before, visible to all walkers. */
void populate_entry(u64 *entry, u64 table_pa);
u64 alloc_table(void);

#endif
