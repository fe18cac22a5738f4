/* What moving a mapping costs.
 *
 * One area of anonymous memory is filled, marked through its user addresses and
 * moved by one call; the region of interest is that call. Then every mark must
 * be found at the new address and nothing may be left at the old one. */
#include <kernel.h>
#include <marks.h>
#include <mremap.h>
#include <offset.h>
#include <smp.h>
#include <trap.h>
#include <user.h>

#define SRC_BASE (128UL << 30)
#define DST_BASE (256UL << 30)

static struct mm mm;

struct choice {
	const char *name;
	u64 value;
};

static u64 choose(const char *key, const char *fallback, const struct choice *choices, u64 count)
{
	const char *text = param_text(key, fallback);

	for (u64 i = 0; i < count; i++)
		if (streq(text, choices[i].name))
			return choices[i].value;
	panic("parameter %s=%s is not known", key, text);
}

#define CHOOSE(key, fallback, ...) \
	({ \
		static const struct choice choices_[] = { __VA_ARGS__ }; \
		choose(key, fallback, choices_, ARRAY_LEN(choices_)); \
	})

static void write_marks(u64 start, u64 pages)
{
	for (u64 page = 0; page < pages; page++)
		WRITE_ONCE(*mark_of(start, page), mark(page));
}

static void check_marks(u64 start, u64 pages)
{
	u64 wrong = 0;

	for (u64 page = 0; page < pages; page++)
		wrong += READ_ONCE(*mark_of(start, page)) != mark(page);
	report("pages_wrong", wrong);
	if (wrong)
		report_unsafe("%lu of %lu pages hold other data after the move", wrong, pages);
}

static u64 count_mapped(u64 start, u64 len)
{
	u64 mapped = 0;

	for (u64 addr = start; addr < start + len; addr += PAGE_SIZE)
		mapped += frame_at(&mm, addr) != 0;
	return mapped;
}

enum { THREADS_NONE, THREADS_SPIN, THREADS_LAZY };

static void other_cpu(void *arg)
{
	u64 threads = (u64)arg;

	if (threads == THREADS_NONE)
		return;
	switch_mm(&mm);
	cpu_online();
	if (threads == THREADS_LAZY)
		enter_lazy_tlb();
	else
		run_user(user_address(user_spin), 0, 0);
}

void program_main(void)
{
	static struct move move;
	u64 size = param_number("size", 1UL << 30);
	u64 src = SRC_BASE + parse_offset("src", param_text("src", "pud"));
	u64 dst = DST_BASE + parse_offset("dst", param_text("dst", "pud"));
	u64 order = CHOOSE("folio", "4K", { "4K", ORDER_4K }, { "64K", ORDER_64K }, { "2M", ORDER_2M });
	u64 shared = CHOOSE("map", "private", { "private", 0 }, { "shared", 1 });
	u64 repeat = param_number("repeat", 1);
	u64 threads = CHOOSE("threads", "none", { "none", THREADS_NONE }, { "spin", THREADS_SPIN },
			     { "lazy", THREADS_LAZY });

	move.variant = find_mremap_variant(param_text("level", "pud"));
	move.flush = CHOOSE("flush", "extent", { "extent", FLUSH_EXTENT }, { "end", FLUSH_END },
			    { "extent_no_threshold", FLUSH_EXTENT_NO_THRESHOLD });
	if (!size || !IS_ALIGNED(size, PAGE_SIZE) || size > DST_BASE - SRC_BASE - PUD_SIZE)
		panic("size=%lu: whole pages of 4096 bytes, at most 127 GiB", size);

	mm_init(&mm, arch_levels(param_number("levels", 4)));
	map_user_image(&mm);

	struct vma *area = map_area(&mm, src, size, VM_WRITE, (int)order);

	if (shared)
		make_shared(area);
	populate(&mm, area);
	switch_mm(&mm);
	write_marks(src, size / PAGE_SIZE);
	start_cpus(other_cpu, (void *)threads);

	for (u64 call = 0; call < repeat; call++) {
		region_begin("mremap");
		do_mremap(&mm, src, dst, &move);
		region_end("mremap");

		/* The next call moves it back, with warm caches. */
		u64 back = src;

		src = dst;
		dst = back;
	}

	check_marks(src, size / PAGE_SIZE);

	u64 left = count_mapped(dst, size);

	if (left)
		report_unsafe("%lu pages are still mapped at the old address", left);
	report("pages", size / PAGE_SIZE);
	report("extents", move.extents);
}
