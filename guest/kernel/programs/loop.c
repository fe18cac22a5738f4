/* One load and one store a turn, over `pages` pages: what speed is measured
 * with. `count` turns, for ever when it is 0. */
#include <kernel.h>
#include <mm.h>

#define AREA (1UL << 30)

static struct mm mm;

void program_main(void)
{
	u64 pages = param_number("pages", 16), count = param_number("count", 0);
	u64 mask = pages * PAGE_SIZE - 1;

	if (!pages || (pages & (pages - 1)))
		panic("pages=%lu: a power of two", pages);
	mm_init(&mm, 4);
	populate(&mm, map_area(&mm, AREA, pages * PAGE_SIZE, VM_WRITE, ORDER_4K));
	switch_mm(&mm);
	region_begin("loop");
	for (u64 i = 0; !count || i < count; i++) {
		u64 *word = (u64 *)(AREA + (i * 64 & mask));

		WRITE_ONCE(*word, READ_ONCE(*word) + 1);
	}
	region_end("loop");
}
