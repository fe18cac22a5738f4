/* aarch64 descriptors, 4 KiB granule (Arm ARM DDI 0487, D8.3). Pure functions
 * of values; levels are numbered as the architecture does, 0 (root of four) to
 * 3 (pages). */
#ifndef ASM_PTE_H
#define ASM_PTE_H

#include <types.h>

#define PTE_VALID (1UL << 0)
#define PTE_TYPE (1UL << 1) /* table at levels 0-2, page at level 3 */
#define PTE_ATTR_NORMAL (0UL << 2) /* MAIR index 0: write-back */
#define PTE_USER (1UL << 6)
#define PTE_RDONLY (1UL << 7)
#define PTE_SHARED (3UL << 8) /* inner shareable */
#define PTE_AF (1UL << 10)
#define PTE_NG (1UL << 11)
#define PTE_DBM (1UL << 51)
#define PTE_CONT (1UL << 52)
#define PTE_PXN (1UL << 53)
#define PTE_UXN (1UL << 54)
#define PTE_DIRTY (1UL << 55) /* software */
#define PTE_ADDR 0x0000fffffffff000UL

#define ENTRY_ACCESSED PTE_AF

static inline bool entry_valid(u64 e)
{
	return e & PTE_VALID;
}

/* `level` < 3. */
static inline bool entry_is_table(u64 e)
{
	return (e & (PTE_VALID | PTE_TYPE)) == (PTE_VALID | PTE_TYPE);
}

/* `level` < 3. */
static inline bool entry_is_block(u64 e)
{
	return (e & (PTE_VALID | PTE_TYPE)) == PTE_VALID;
}

static inline u64 entry_pa(u64 e)
{
	return e & PTE_ADDR;
}

static inline u64 mk_table(u64 pa)
{
	return pa | PTE_TYPE | PTE_VALID;
}

static inline u64 leaf_type(int level)
{
	return level == 3 ? PTE_VALID | PTE_TYPE : PTE_VALID;
}

#define KERNEL_LEAF (PTE_ATTR_NORMAL | PTE_SHARED | PTE_AF | PTE_UXN)
#define USER_LEAF (PTE_ATTR_NORMAL | PTE_SHARED | PTE_AF | PTE_USER | PTE_NG | PTE_PXN)

static inline u64 mk_kernel_leaf(u64 pa, int level, bool exec)
{
	return pa | leaf_type(level) | KERNEL_LEAF | (exec ? 0 : PTE_PXN);
}

#endif
