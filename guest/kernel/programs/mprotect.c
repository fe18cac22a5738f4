/* What changing access costs.
 *
 * One area is filled and marked. Region `protect`: its middle becomes read only,
 * with `pad` bytes left on either side; `unprotect`: it becomes writable again;
 * `retouch`: every page of the middle is written. All pages must hold their data
 * at the end. At last the first pages become read only once more: every write to
 * them must fault, so a translation that outlived the change is found. */
#include <kernel.h>
#include <marks.h>
#include <mprotect.h>
#include <smp.h>
#include <trap.h>
#include <user.h>

#define AREA (128UL << 30)
#define PAGES_TRIED 16UL

static struct mm mm;
static const struct change_variant *variant;
static u64 denied;

static bool on_fault(struct regs *regs, const struct fault *fault)
{
	if (!fault->present || !fault->write)
		return false;
	denied++;
	protect_range(&mm, ALIGN_DOWN(fault->addr, PAGE_SIZE), PAGE_SIZE, true, variant);
	return true;
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

/* `change` tells later marks from the first. */
static void write_marks(u64 from, u64 to, u64 change)
{
	for (u64 page = from; page < to; page++)
		WRITE_ONCE(*mark_of(AREA, page), mark(page) ^ change);
}

static void check_marks(u64 from, u64 to, u64 change)
{
	u64 wrong = 0;

	for (u64 page = from; page < to; page++)
		wrong += READ_ONCE(*mark_of(AREA, page)) != (mark(page) ^ change);
	if (wrong)
		report_unsafe("%lu of %lu pages hold other data", wrong, to - from);
}

/* Writes to the first of the pages while they are read only. */
static void try_writes(u64 first, u64 pages)
{
	u64 start = AREA + first * PAGE_SIZE, faults = denied;

	protect_range(&mm, start, pages * PAGE_SIZE, false, variant);
	write_marks(first, first + pages, 0);
	if (denied - faults != pages)
		report_unsafe("%lu of %lu writes to read-only pages went through", pages - (denied - faults), pages);
	check_marks(first, first + pages, 0);
}

void program_main(void)
{
	u64 size = param_number("size", 4UL << 20), pad = param_number("pad", 0);
	u64 first = pad / PAGE_SIZE, behind = first + size / PAGE_SIZE, pages = behind + first;

	if (!size || !IS_ALIGNED(size | pad, PAGE_SIZE))
		panic("size=%lu pad=%lu: whole pages of 4096 bytes", size, pad);
	variant = find_change_variant(param_text("change", "unfold_each"));
	mm_init(&mm, arch_levels(4));
	map_user_image(&mm);
	populate(&mm, map_area(&mm, AREA, pages * PAGE_SIZE, VM_WRITE, folio_order(param_text("folio", "64K"))));
	switch_mm(&mm);
	write_marks(0, pages, 0);
	fault_hook = on_fault;
	start_cpus(other_cpu, (void *)parse_threads(param_text("threads", "none")));

	region_begin("protect");
	protect_range(&mm, AREA + pad, size, false, variant);
	region_end("protect");
	check_marks(0, pages, 0);

	region_begin("unprotect");
	protect_range(&mm, AREA + pad, size, true, variant);
	region_end("unprotect");

	region_begin("retouch");
	write_marks(first, behind, ~0UL);
	region_end("retouch");
	if (denied)
		report_unsafe("%lu writes faulted though all pages are writable", denied);

	check_marks(0, first, 0);
	check_marks(first, behind, ~0UL);
	check_marks(behind, pages, 0);
	try_writes(first, MIN(size / PAGE_SIZE, PAGES_TRIED));
	report("pages", size / PAGE_SIZE);
}
