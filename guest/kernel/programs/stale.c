/* Translations that outlive their table entry.
 *
 * A page is read, its entry is changed to another frame without telling the
 * TLB, and it is read again. Results (0x100 is the first frame's word, 0x200 the
 * second's):
 *   before          read with the first entry
 *   after_change    read after the change, nothing invalidated
 *   after_flush     read after the invalidation
 *   after_eviction  as after_change, with `evict_pages` other pages read between
 */
#include <asm/pgtable.h>
#include <kernel.h>
#include <mm.h>
#include <tlb.h>

#define PAGE_ADDR (1UL << 30)
#define OTHER_ADDR (2UL << 30)
#define FIRST_WORD 0x100
#define SECOND_WORD 0x200

static struct mm mm;
static u64 first, second;

/* A store to a live entry as a careless kernel does it. */
static void change_entry(u64 addr, u64 pa)
{
	pte_t *pte = pte_offset(pmd_lookup(&mm, addr), addr);

	set_entry(pte, mk_user_leaf(pa, LEVEL_PTE, true, false));
	table_barrier();
}

static u64 read_page(void)
{
	return READ_ONCE(*(u64 *)PAGE_ADDR);
}

static u64 read_others(u64 pages)
{
	u64 sum = 0;

	for (u64 i = 0; i < pages; i++)
		sum += READ_ONCE(*(u64 *)(OTHER_ADDR + i * PAGE_SIZE + i % 64 * 64));
	return sum;
}

void program_main(void)
{
	u64 evict_pages = param_number("evict_pages", 8192);

	mm_init(&mm, 4);
	populate(&mm, map_area(&mm, PAGE_ADDR, PAGE_SIZE, VM_WRITE, ORDER_4K));
	populate(&mm, map_area(&mm, OTHER_ADDR, evict_pages * PAGE_SIZE, VM_WRITE, ORDER_4K));
	first = frame_at(&mm, PAGE_ADDR);
	second = alloc_folio(ORDER_4K);
	*(u64 *)__va(first) = FIRST_WORD;
	*(u64 *)__va(second) = SECOND_WORD;
	switch_mm(&mm);

	region_begin("stale");
	report("before", read_page());
	change_entry(PAGE_ADDR, second);
	report("after_change", read_page());
	flush_tlb_page(&mm, PAGE_ADDR);
	report("after_flush", read_page());

	change_entry(PAGE_ADDR, first);
	flush_tlb_page(&mm, PAGE_ADDR);
	report("again_before", read_page());
	change_entry(PAGE_ADDR, second);
	report("others", read_others(evict_pages));
	report("after_eviction", read_page());
	region_end("stale");
}
