/* What one access takes when each depends on the one before.
 *
 * The slots of an area are linked into one random ring: each holds the address
 * of the next. After a lap that warms the TLBs and the caches up, the region of
 * interest follows `loads` links. With touch=page a slot is one line of each 4
 * KiB, so that the TLB is what fills up; with touch=line every line is a slot. */
#include <kernel.h>
#include <mm.h>

#define AREA (128UL << 30)
#define LINE_SIZE 64UL
#define LINES_PER_PAGE (PAGE_SIZE / LINE_SIZE)
#define UNROLL 16UL

static struct mm mm;

struct slots {
	u64 count;
	bool by_line;
};

/* splitmix64: every seed gives another sequence, 0 included. */
static u64 next_random(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15UL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9UL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebUL;
	return z ^ z >> 31;
}

/* Slots of pages lie in lines that differ from page to page: one and the same
 * line of every page would fall into few sets of the caches. */
static u64 *slot_at(const struct slots *slots, u64 index)
{
	if (slots->by_line)
		return (u64 *)(AREA + index * LINE_SIZE);

	u64 state = index;

	return (u64 *)(AREA + index * PAGE_SIZE + next_random(&state) % LINES_PER_PAGE * LINE_SIZE);
}

/* Sattolo's shuffle: the permutation it gives is one cycle, so that no slot is
 * left out and no shorter ring comes round earlier. */
static void link_ring(const struct slots *slots, u64 seed)
{
	for (u64 i = 0; i < slots->count; i++)
		*slot_at(slots, i) = (u64)slot_at(slots, i);
	for (u64 i = slots->count - 1; i > 0; i--) {
		u64 *one = slot_at(slots, i), *other = slot_at(slots, next_random(&seed) % i);
		u64 held = *one;

		*one = *other;
		*other = held;
	}
}

/* Follows `loads` links, a multiple of UNROLL. */
static u64 follow(u64 at, u64 loads)
{
	for (; loads; loads -= UNROLL) {
#pragma clang loop unroll(full)
		for (u64 i = 0; i < UNROLL; i++)
			at = READ_ONCE(*(u64 *)at);
	}
	return at;
}

/* A ring that is followed for one whole lap ends where it began. This is also
 * the lap that warms up. */
static void check_ring(const struct slots *slots)
{
	u64 start = (u64)slot_at(slots, 0), at = start, steps = 0;

	do {
		at = READ_ONCE(*(u64 *)at);
		steps++;
	} while (at != start && steps <= slots->count);
	if (steps != slots->count)
		report_unsafe("the ring of %lu slots closes after %lu", slots->count, steps);
}

static int folio_order(const char *text)
{
	if (streq(text, "4K"))
		return ORDER_4K;
	if (streq(text, "64K"))
		return ORDER_64K;
	if (streq(text, "2M"))
		return ORDER_2M;
	panic("parameter folio=%s is not known", text);
}

static bool touches_lines(const char *text)
{
	if (streq(text, "line"))
		return true;
	if (streq(text, "page"))
		return false;
	panic("parameter touch=%s is not known", text);
}

void program_main(void)
{
	u64 size = param_number("footprint", 1UL << 20);
	u64 loads = ALIGN_UP(param_number("loads", 16384), UNROLL);
	int order = folio_order(param_text("folio", "4K"));
	struct slots slots = { .by_line = touches_lines(param_text("touch", "page")) };

	if (!size || !IS_ALIGNED(size, PAGE_SIZE))
		panic("footprint=%lu: whole pages of 4096 bytes", size);
	slots.count = size / (slots.by_line ? LINE_SIZE : PAGE_SIZE);
	mm_init(&mm, arch_levels(4));
	/* Whole folios: a footprint that ends inside one is still held by it. */
	populate(&mm, map_area(&mm, AREA, ALIGN_UP(size, PAGE_SIZE << order), VM_WRITE, order));
	switch_mm(&mm);
	link_ring(&slots, param_number("seed", 1));
	check_ring(&slots);

	u64 at = (u64)slot_at(&slots, 0);

	region_begin("chase");
	at = follow(at, loads);
	region_end("chase");

	report("slots", slots.count);
	report("loads", loads);
	report("last", at - AREA);
}
