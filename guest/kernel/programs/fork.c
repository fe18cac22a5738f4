/* What copying an address space costs, and what is paid later.
 *
 * One area of anonymous memory is filled, marked and copied; the region of
 * interest `fork` is the copy. With touch=shared the parent then writes to every
 * page (region `retouch`), while the child still shares them. Both must find
 * their own data. Then the child's pages go (region `exit`); with touch=alone the
 * parent writes only now. */
#include <fork.h>
#include <kernel.h>
#include <marks.h>
#include <smp.h>
#include <trap.h>
#include <user.h>

#define AREA (128UL << 30)

static struct mm parent, child;
static u64 copy_faults;

static bool on_fault(struct regs *regs, const struct fault *fault)
{
	if (!fault->present || !fault->write || !write_fault(this_cpu()->active_mm, fault->addr))
		return false;
	copy_faults++;
	return true;
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

/* `change` tells the parent's second marks from the first. */
static void write_marks(u64 pages, u64 change)
{
	for (u64 page = 0; page < pages; page++)
		WRITE_ONCE(*mark_of(AREA, page), mark(page) ^ change);
}

static void check_marks(struct mm *mm, const char *who, u64 pages, u64 change)
{
	u64 wrong = 0;

	switch_mm(mm);
	for (u64 page = 0; page < pages; page++)
		wrong += READ_ONCE(*mark_of(AREA, page)) != (mark(page) ^ change);
	if (wrong)
		report_unsafe("%lu of %lu pages of the %s hold other data after the fork", wrong, pages, who);
}

enum { THREADS_NONE, THREADS_SPIN, THREADS_LAZY };

static void other_cpu(void *arg)
{
	u64 threads = (u64)arg;

	if (threads == THREADS_NONE)
		return;
	switch_mm(&parent);
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

enum { TOUCH_NONE, TOUCH_SHARED, TOUCH_ALONE };

static int parse_touch(const char *text)
{
	if (streq(text, "none"))
		return TOUCH_NONE;
	if (streq(text, "shared"))
		return TOUCH_SHARED;
	if (streq(text, "alone"))
		return TOUCH_ALONE;
	panic("parameter touch=%s is not known", text);
}

static void retouch(u64 pages, u64 change)
{
	region_begin("retouch");
	write_marks(pages, change);
	region_end("retouch");
}

void program_main(void)
{
	u64 size = param_number("size", 128UL << 20), pages = size / PAGE_SIZE, change = 0;
	struct fork fork = {
		.parent = &parent,
		.child = &child,
		.variant = find_wrprotect_variant(param_text("wrprotect", "whole_range")),
	};

	if (!size || !IS_ALIGNED(size, PAGE_SIZE) || size > AREA)
		panic("size=%lu: whole pages of 4096 bytes, at most 128 GiB", size);
	mm_init(&parent, arch_levels(4));
	map_user_image(&parent);

	struct vma *area = map_area(&parent, AREA, size, VM_WRITE, folio_order(param_text("folio", "64K")));

	populate(&parent, area);
	if (fork.variant->prepare)
		fork.variant->prepare(&parent, area);
	switch_mm(&parent);
	write_marks(pages, 0);
	fault_hook = on_fault;
	start_cpus(other_cpu, (void *)parse_threads(param_text("threads", "none")));

	/* Stores to tables are told from others by what a loaded root leads to: a
	 * root that no CPU has had yet is unknown to whoever counts them. */
	mm_init(&child, parent.levels);
	switch_mm(&child);
	switch_mm(&parent);

	region_begin("fork");
	fork_mm(&fork);
	region_end("fork");

	int touch = parse_touch(param_text("touch", "none"));

	if (touch == TOUCH_SHARED) {
		change = ~0UL;
		retouch(pages, change);
	}
	check_marks(&child, "child", pages, 0);
	check_marks(&parent, "parent", pages, change);

	region_begin("exit");
	unmap_range(&child, AREA, size);
	region_end("exit");
	if (touch == TOUCH_ALONE) {
		change = ~0UL;
		retouch(pages, change);
	}
	check_marks(&parent, "parent", pages, change);

	report("entries", fork.pages);
	report("batches", fork.batches);
	report("copy_faults", copy_faults);
}
