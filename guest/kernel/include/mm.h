/* Address spaces: areas, their pages, and the operations on them. */
#ifndef MM_H
#define MM_H

#include <cpu.h>
#include <lock.h>
#include <pgtable.h>

#define VM_WRITE 1U
#define VM_EXEC 2U
#define VM_SHARED 4U

/* Pages of a shared mapping, by index; they outlive every mapping of it. */
struct shmem {
	u64 *frames; /* physical address, 0 when there is no page */
	u64 pages;
};

struct vma {
	u64 start, end; /* page aligned; end is the first byte behind */
	u32 flags;
	int order; /* preferred folio */
	struct shmem *shmem;
	u64 pgoff; /* index of the first page in shmem */
	struct vma *next;
};

#define VMAS_MAX 32

struct mm {
	u64 *root;
	int levels; /* 4, or 3: the root holds pud entries */
	u64 asid;   /* aarch64: ASID; x86: identity of the address space */
	u64 tlb_gen;
	u64 cpumask[CPUS_MAX / 64]; /* CPUs that may hold translations */
	struct spinlock page_table_lock;
	struct spinlock mmap_lock;
	struct vma *vmas; /* by address */
	struct vma *spare;
	struct vma pool[VMAS_MAX];
};

void mm_init(struct mm *mm, int levels);
u64 mm_top(const struct mm *mm); /* first address behind the user half */
struct vma *find_vma(struct mm *mm, u64 addr); /* first area that ends behind addr */
/* Reserves [start, start + len); panics when that is taken or out of range. */
struct vma *map_area(struct mm *mm, u64 start, u64 len, u32 flags, int order);
void unlink_vma(struct mm *mm, struct vma *vma);
void make_shared(struct vma *vma);
/* Splits areas at start and end; returns the first one between, or NULL. */
struct vma *cut_areas(struct mm *mm, u64 start, u64 end);

/* Fills an area with pages, in folios of its order where they fit. */
void populate(struct mm *mm, struct vma *vma);
/* Maps the page for a fault at addr; false when no area allows it. */
bool fault_in(struct mm *mm, u64 addr, bool write);
void split_huge_pmd(struct mm *mm, pmd_t *pmd, u64 addr);

/* Removes all mappings of [start, start + len), tables included. */
void unmap_range(struct mm *mm, u64 start, u64 len);

/* Moves the pages of the area [old, old + len) to new, replacing what is
 * there. The area must be mapped by exactly one call of map_area. */
struct move;
void do_mremap(struct mm *mm, u64 old, u64 new, struct move *move);

/* The number of levels to use; panics when the architecture has no such tables. */
int arch_levels(u64 wanted);
/* Fills the part of a root that is the kernel's, if roots have one. */
void arch_share_kernel(u64 *root);

/* Makes this CPU run mm; NULL for none (kernel only). */
void switch_mm(struct mm *mm);
/* This CPU has nothing to run; it keeps mm's translations until they change. */
void enter_lazy_tlb(void);

#endif
