/* aarch64: invalidation is broadcast by the hardware. */
#include <asm/pgtable.h>
#include <asm/tlbops.h>
#include <gather.h>
#include <kernel.h>
#include <tlb.h>

/* Without range operations, this many operations are dearer than a new ASID's
 * worth of misses. */
#define MAX_OPS 512UL
/* What the largest range operation covers: 32 units of 2^16 pages. */
#define MAX_RANGE_PAGES (32UL << 16)
#define GRANULE_4K 1UL

static bool no_threshold;

void tlb_set_no_threshold(bool on)
{
	no_threshold = on;
}

/* Completes what was issued. A CPU with the erratum needs the pair twice. */
static void tlb_sync(void)
{
	dsb(ish);
	if (has_feature(FEAT_REPEAT_TLBI)) {
		tlbi_va(0, true);
		dsb(ish);
	}
}

void flush_tlb_mm(struct mm *mm)
{
	dsb(ishst);
	tlbi_asid(mm->asid << 48);
	tlb_sync();
}

static u64 va_operand(u64 asid, u64 addr, int level)
{
	u64 ttl = 0;

	if (level != TLB_LEVEL_UNKNOWN && has_feature(FEAT_TTL))
		ttl = GRANULE_4K << 2 | (u64)level;
	return asid << 48 | ttl << 44 | (addr >> PAGE_SHIFT & ((1UL << 44) - 1));
}

static u64 range_operand(u64 asid, u64 addr, u64 scale, u64 num, int level)
{
	u64 ttl = level == TLB_LEVEL_UNKNOWN ? 0 : (u64)level;

	return asid << 48 | GRANULE_4K << 46 | scale << 44 | num << 39 | ttl << 37 |
	       (addr >> PAGE_SHIFT & ((1UL << 37) - 1));
}

/* Issues the fewest operations: the largest units first, an odd page last. */
static void issue_range(u64 asid, u64 addr, u64 pages, u64 stride, bool last_level, int level)
{
	int scale = 3;

	while (pages) {
		if (!has_feature(FEAT_TLBIRANGE) || pages == 1) {
			tlbi_va(va_operand(asid, addr, level), last_level);
			addr += stride;
			pages -= stride >> PAGE_SHIFT;
			continue;
		}

		u64 unit = 5 * (u64)scale + 1;
		u64 units = MIN(pages >> unit, 32UL);

		if (units) {
			tlbi_range(range_operand(asid, addr, (u64)scale, units - 1, level), last_level);
			addr += units << unit << PAGE_SHIFT;
			pages -= units << unit;
		}
		scale--;
	}
}

static bool dearer_than_asid(u64 len, u64 stride)
{
	if (no_threshold)
		return false;
	if (!has_feature(FEAT_TLBIRANGE) && len >= MAX_OPS * stride)
		return true;
	return len >> PAGE_SHIFT > MAX_RANGE_PAGES;
}

static void flush_range(struct mm *mm, u64 start, u64 end, u64 stride, bool last_level, int level)
{
	start = ALIGN_DOWN(start, stride);
	end = ALIGN_UP(end, stride);

	/* The fallback completes its operation, and the caller once more. */
	if (dearer_than_asid(end - start, stride)) {
		flush_tlb_mm(mm);
	} else {
		dsb(ishst);
		issue_range(mm->asid, start, (end - start) >> PAGE_SHIFT, stride, last_level, level);
	}
	tlb_sync();
}

void flush_tlb_range(struct mm *mm, u64 start, u64 end)
{
	flush_range(mm, start, end, PAGE_SIZE, false, TLB_LEVEL_UNKNOWN);
}

void flush_pmd_tlb_range(struct mm *mm, u64 start, u64 end)
{
	flush_range(mm, start, end, PMD_SIZE, false, LEVEL_PMD);
}

void flush_contpte_range(struct mm *mm, u64 start, u64 end)
{
	flush_range(mm, start, end, PAGE_SIZE, true, LEVEL_PTE);
}

flush_range_fn arch_flush_leaves(void)
{
	return flush_contpte_range;
}

void flush_tlb_page(struct mm *mm, u64 addr)
{
	dsb(ishst);
	tlbi_va(va_operand(mm->asid, addr, TLB_LEVEL_UNKNOWN), true);
	tlb_sync();
}

void arch_tlb_flush(struct mmu_gather *tlb)
{
	flush_range(tlb->mm, tlb->start, tlb->end, tlb_stride(tlb), !tlb->freed_tables, tlb_level(tlb));
}

pmd_t pmdp_invalidate(struct mm *mm, u64 addr, pmd_t *pmdp)
{
	pmd_t old = xchg_entry(pmdp, read_entry(pmdp) & ~PTE_VALID);

	flush_pmd_tlb_range(mm, addr, addr + PMD_SIZE);
	return old;
}
