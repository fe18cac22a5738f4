/* x86-64 paging-structure entries (Intel SDM vol. 3A, chapter 4). Pure
 * functions of values; levels are numbered from the root: 0 (PML4) to 3 (page
 * tables). */
#ifndef ASM_PTE_H
#define ASM_PTE_H

#include <types.h>

#define PTE_PRESENT (1UL << 0)
#define PTE_RW (1UL << 1)
#define PTE_USER (1UL << 2)
#define PTE_ACCESSED (1UL << 5)
#define PTE_DIRTY (1UL << 6)
#define PTE_PSE (1UL << 7) /* a leaf at levels 1 and 2 */
#define PTE_GLOBAL (1UL << 8)
#define PTE_NX (1UL << 63)
#define PTE_ADDR 0x000ffffffffff000UL

#define ENTRY_ACCESSED PTE_ACCESSED

static inline bool entry_valid(u64 e)
{
	return e & PTE_PRESENT;
}

/* `level` < 3. */
static inline bool entry_is_table(u64 e)
{
	return (e & (PTE_PRESENT | PTE_PSE)) == PTE_PRESENT;
}

/* `level` < 3. */
static inline bool entry_is_block(u64 e)
{
	return (e & (PTE_PRESENT | PTE_PSE)) == (PTE_PRESENT | PTE_PSE);
}

static inline u64 entry_pa(u64 e)
{
	return e & PTE_ADDR;
}

static inline u64 mk_table(u64 pa)
{
	return pa | PTE_PRESENT | PTE_RW | PTE_USER | PTE_ACCESSED | PTE_DIRTY;
}

static inline u64 leaf_type(int level)
{
	return level == 3 ? PTE_PRESENT : PTE_PRESENT | PTE_PSE;
}

static inline u64 mk_kernel_leaf(u64 pa, int level, bool exec)
{
	return pa | leaf_type(level) | PTE_RW | PTE_ACCESSED | PTE_DIRTY | PTE_GLOBAL | (exec ? 0 : PTE_NX);
}

#endif
