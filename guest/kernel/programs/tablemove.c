/* Moving a table, and walkers that remember where it was.
 *
 * A core that has walked through an old table entry may go on doing so: a page
 * that is in no TLB is found through the old address until the table entry
 * itself is invalidated, which an invalidation of leaves does not do. Results
 * (page n holds 0x100 + n; a load that faults gives 0):
 *   KIND_old   a page of the old address that was never read before, after the
 *              move and the invalidation KIND
 *   KIND_full  the same after the full invalidation
 *   KIND_new   the same page at the new address
 * KIND is `none` (no invalidation) or `leaf` (last level only; x86 has no such
 * operation and reports nothing for it). */
#include <asm/pgtable.h>
#include <kernel.h>
#include <mm.h>
#include <tlb.h>
#include <trap.h>

#define OLD_ADDR (1UL << 30)
#define NEW_ADDR ((1UL << 30) + 8 * PMD_SIZE)
#define PAGES 128UL
/* Far enough from the page that was read that no TLB entry covers both. */
#define UNREAD_PAGE 64UL

static struct mm mm;

static u64 load(u64 addr)
{
	u64 value = try_load(addr);

	return value == LOAD_FAULTED ? 0 : value;
}

static void fill(u64 start)
{
	for (u64 i = 0; i < PAGES; i++)
		*(u64 *)__va(frame_at(&mm, start + i * PAGE_SIZE)) = 0x100 + i;
}

/* Only the pointer to the table changes place. */
static void move_table(u64 from, u64 to)
{
	pmd_t *old = pmd_lookup(&mm, from), *new = pmd_alloc(&mm, to);
	u64 table = entry_pa(read_entry(old));

	set_entry(old, 0);
	populate_entry(new, table);
}

struct round {
	u64 from, to;
	flush_range_fn invalidate;
	const char *old, *full, *new;
};

static void play(const struct round *round)
{
	u64 unread = UNREAD_PAGE * PAGE_SIZE;

	load(round->from);
	move_table(round->from, round->to);
	if (round->invalidate)
		round->invalidate(&mm, round->from, round->from + PAGES * PAGE_SIZE);
	report(round->old, load(round->from + unread));
	flush_tlb_range(&mm, round->from, round->from + PMD_SIZE);
	report(round->full, load(round->from + unread));
	report(round->new, load(round->to + unread));
}

void program_main(void)
{
	static const struct round none = { OLD_ADDR, NEW_ADDR, NULL, "none_old", "none_full", "none_new" };
	struct round leaf = { NEW_ADDR, OLD_ADDR, arch_flush_leaves(), "leaf_old", "leaf_full", "leaf_new" };

	mm_init(&mm, 4);
	populate(&mm, map_area(&mm, OLD_ADDR, PAGES * PAGE_SIZE, VM_WRITE, ORDER_4K));
	fill(OLD_ADDR);
	switch_mm(&mm);

	region_begin("tablemove");
	play(&none);
	if (leaf.invalidate) {
		flush_tlb_mm(&mm);
		play(&leaf);
	}
	region_end("tablemove");
}
