/* Exceptions of every kind: demand faults, write-protect faults, system calls,
 * all from user mode. Results: what was taken, and the sum the user code made of
 * the data it found. */
#include <asm/pgtable.h>
#include <asm/usercall.h>
#include <kernel.h>
#include <mm.h>
#include <tlb.h>
#include <trap.h>
#include <user.h>

#define AREA (1UL << 30)
#define STACK_ADDR (2UL << 30)
#define SYS_COUNT SYS_PROGRAM

struct user_args {
	u64 pages, calls;
};

static struct mm mm;
static u64 demand_faults, protect_faults, calls_seen;

/* Writes each page, reads it back, and makes the calls. */
__user_code static void user_touch(const struct user_args *args)
{
	u64 sum = 0;

	for (u64 i = 0; i < args->pages; i++)
		WRITE_ONCE(*(u64 *)(AREA + i * PAGE_SIZE), i);
	for (u64 i = 0; i < args->pages; i++)
		sum += READ_ONCE(*(u64 *)(AREA + i * PAGE_SIZE));
	for (u64 i = 0; i < args->calls; i++)
		sum += user_syscall(SYS_COUNT, i);
	user_syscall(SYS_EXIT, sum);
}

static u64 count_call(struct regs *regs, u64 number, u64 a, u64 b, u64 c)
{
	calls_seen++;
	return a;
}

static void set_access(u64 addr, bool write)
{
	pte_t *pte = pte_offset(pmd_lookup(&mm, addr), addr);

	set_entry(pte, mk_user_leaf(frame_at(&mm, addr), LEVEL_PTE, write, false));
	flush_tlb_page(&mm, addr);
}

static bool on_fault(struct regs *regs, const struct fault *fault)
{
	if (!fault->present) {
		demand_faults++;
		return false;
	}
	if (!fault->write || !fault->user)
		return false;
	protect_faults++;
	set_access(ALIGN_DOWN(fault->addr, PAGE_SIZE), true);
	return true;
}

void program_main(void)
{
	struct user_args *args = (struct user_args *)STACK_ADDR;
	u64 stack_top = STACK_ADDR + 4 * PAGE_SIZE;

	mm_init(&mm, 4);
	map_user_image(&mm);
	populate(&mm, map_area(&mm, STACK_ADDR, 4 * PAGE_SIZE, VM_WRITE, ORDER_4K));
	switch_mm(&mm);
	args->pages = param_number("pages", 64);
	args->calls = param_number("calls", 10);
	map_area(&mm, AREA, args->pages * PAGE_SIZE, VM_WRITE, ORDER_4K);
	fault_hook = on_fault;
	syscall_hook = count_call;

	region_begin("faults");
	report("first_sum", run_user(user_address(user_touch), stack_top, STACK_ADDR));
	for (u64 i = 0; i < args->pages; i++)
		set_access(AREA + i * PAGE_SIZE, false);
	report("second_sum", run_user(user_address(user_touch), stack_top, STACK_ADDR));
	region_end("faults");

	report("demand_faults", demand_faults);
	report("protect_faults", protect_faults);
	report("calls", calls_seen);
}
