/* What taking a mapping away costs.
 *
 * One area is filled and marked; the region of interest `munmap` takes its
 * middle away, with `pad` bytes left on either side. What is left must hold its
 * data. */
#include <kernel.h>
#include <marks.h>
#include <mm.h>
#include <smp.h>
#include <trap.h>
#include <user.h>

#define AREA (128UL << 30)

static struct mm mm;

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

static u64 parse_threads(const char *text)
{
	if (streq(text, "none"))
		return THREADS_NONE;
	if (streq(text, "spin"))
		return THREADS_SPIN;
	if (streq(text, "lazy"))
		return THREADS_LAZY;
	panic("parameter threads=%s is not known", text);
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

/* Wrong marks in pages [from, to) of the area. */
static u64 count_wrong(u64 from, u64 to)
{
	u64 wrong = 0;

	for (u64 page = from; page < to; page++)
		wrong += READ_ONCE(*mark_of(AREA, page)) != mark(page);
	return wrong;
}

void program_main(void)
{
	u64 size = param_number("size", 256UL << 10), pad = param_number("pad", 0);
	u64 first = pad / PAGE_SIZE, behind = first + size / PAGE_SIZE, pages = behind + first;
	u64 left = 0;

	if (!size || !IS_ALIGNED(size | pad, PAGE_SIZE))
		panic("size=%lu pad=%lu: whole pages of 4096 bytes", size, pad);
	mm_init(&mm, arch_levels(4));
	map_user_image(&mm);
	populate(&mm, map_area(&mm, AREA, pages * PAGE_SIZE, VM_WRITE, folio_order(param_text("folio", "4K"))));
	switch_mm(&mm);
	for (u64 page = 0; page < pages; page++)
		WRITE_ONCE(*mark_of(AREA, page), mark(page));
	start_cpus(other_cpu, (void *)parse_threads(param_text("threads", "none")));

	region_begin("munmap");
	unmap_range(&mm, AREA + pad, size);
	region_end("munmap");

	for (u64 page = first; page < behind; page++)
		left += frame_at(&mm, AREA + page * PAGE_SIZE) != 0;
	if (left)
		report_unsafe("%lu pages are still mapped", left);

	u64 wrong = count_wrong(0, first) + count_wrong(behind, pages);

	if (wrong)
		report_unsafe("%lu of the %lu pages that stay hold other data", wrong, 2 * first);
	report("pages", size / PAGE_SIZE);
}
