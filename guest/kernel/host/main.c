/* Carries out one move with the kernel's own code on the host and prints what
 * it did to tables and TLBs, a `name value` pair a line.
 *
 * Arguments are key=value words: level, size (bytes), src, dst, order (of
 * folios), flush (number of the policy), threads, cpus, levels, features (bits),
 * and special: `hole` leaves the second 2 MiB of the source empty, `taken` puts
 * an empty table where the first pmd entry would move to, `top` moves to the end
 * of the address space. */
#include <asm/pgtable.h>
#include <cpu.h>
#include <early.h>
#include <kernel.h>
#include <mm.h>
#include <mremap.h>
#include <offset.h>
#include <smp.h>

#include "record.h"

int printf(const char *fmt, ...);
u64 strtoul(const char *text, char **end, int base);

#define RAM_BASE 0x40000000UL
#define RAM_SIZE (4UL << 30)
#define SRC_BASE (128UL << 30)
#define DST_BASE (256UL << 30)
#define FIXED_AREA 0x400000UL

static struct mm mm;
static struct boot_info info = { .ram_base = RAM_BASE, .ram_size = RAM_SIZE };

static void print_levels(const char *name, const u64 *values)
{
	for (int level = 0; level < 4; level++)
		printf("pt_L%d_%s %lu\n", level, name, values[level]);
}

static void print_counts(void)
{
	const struct counts *c = &counts;

	print_levels("install_table", c->install_table);
	print_levels("install_leaf", c->install_leaf);
	print_levels("clear_table", c->clear_table);
	print_levels("clear_leaf", c->clear_leaf);
	print_levels("attr", c->attr);
	printf("tlbi_va %lu\ntlbi_asid %lu\ntlbi_range %lu\n", c->tlbi_va, c->tlbi_asid, c->tlbi_range);
	printf("tlbi_range_pages %lu\ntlbi_erratum_repeat %lu\n", c->tlbi_range_pages, c->tlbi_erratum_repeat);
	printf("dsb_ish %lu\ndsb_ishst %lu\n", c->dsb_ish, c->dsb_ishst);
	printf("invlpg_initiator %lu\ninvlpg_others %lu\n", c->invlpg[0], c->invlpg[1]);
	printf("cr3_initiator %lu\ncr3_others %lu\n", c->cr3[0], c->cr3[1]);
	printf("flush_tlb_func_others %lu\nipi %lu\n", c->handlers, c->ipis);
}

/* The other CPUs run the address space, or did and are idle. */
static void run_on_others(const char *threads)
{
	if (streq(threads, "none"))
		return;
	for (u32 i = 1; i < cpu_count; i++) {
		host_cpu = &cpus[i];
		host_cpu->number = i;
		switch_mm(&mm);
		if (streq(threads, "lazy"))
			enter_lazy_tlb();
	}
	host_cpu = &cpus[0];
}

/* Every page, with the frame it has, at its new address and only there. */
static u64 pages_wrong(u64 src, u64 dst, u64 len, const u64 *frames)
{
	u64 wrong = 0;

	for (u64 at = 0; at < len; at += PAGE_SIZE) {
		wrong += frame_at(&mm, dst + at) != frames[at / PAGE_SIZE];
		wrong += frame_at(&mm, src + at) != 0;
	}
	return wrong;
}

static u64 frames[(1UL << 30) / PAGE_SIZE];
static char **words;

static const char *text_of(const char *key, const char *fallback)
{
	u64 len = strlen(key);

	for (char **word = words; *word; word++)
		if (memcmp(*word, key, len) == 0 && (*word)[len] == '=')
			return *word + len + 1;
	return fallback;
}

static u64 number_of(const char *key, u64 fallback)
{
	const char *text = text_of(key, NULL);

	return text ? strtoul(text, NULL, 10) : fallback;
}

int main(int argc, char **argv)
{
	static struct move move;

	words = argv + 1;

	u64 size = number_of("size", PUD_SIZE);
	u64 src = SRC_BASE + parse_offset("src", text_of("src", "pud"));
	u64 dst = DST_BASE + parse_offset("dst", text_of("dst", "pud"));
	int levels = (int)number_of("levels", 4);
	const char *special = text_of("special", "");

	if (size > sizeof(frames) / sizeof(*frames) * PAGE_SIZE)
		panic("size=%lu: at most 1 GiB", size);
	info.features = number_of("features", 0);
	boot_info = &info;
	record_init(RAM_BASE, RAM_SIZE);
	frame_init(RAM_BASE, RAM_SIZE, RAM_BASE + (2UL << 20));
	cpu_count = (u32)number_of("cpus", 1);
	early.kernel_root = alloc_table();

	mm_init(&mm, levels);
	if (streq(special, "top"))
		dst = mm_top(&mm) - size;
	populate(&mm, map_area(&mm, FIXED_AREA, PAGE_SIZE, VM_EXEC, ORDER_4K));
	populate(&mm, map_area(&mm, src, size, VM_WRITE, (int)number_of("order", ORDER_4K)));
	if (streq(special, "hole"))
		set_entry(pmd_lookup(&mm, ALIGN_UP(src + 1, PMD_SIZE)), 0);
	if (streq(special, "taken"))
		pte_alloc(&mm, dst);
	for (u64 at = 0; at < size; at += PAGE_SIZE)
		frames[at / PAGE_SIZE] = frame_at(&mm, src + at);
	switch_mm(&mm);
	run_on_others(text_of("threads", "none"));
	record_root(__pa(mm.root), levels == 3 ? LEVEL_PUD : LEVEL_PGD);

	move.variant = find_mremap_variant(text_of("level", "pud"));
	move.flush = (enum flush_policy)number_of("flush", FLUSH_EXTENT);
	counts = (struct counts){ 0 };
	do_mremap(&mm, src, dst, &move);
	printf("pages_wrong %lu\nextents %lu\n", pages_wrong(src, dst, size, frames), move.extents);
	print_counts();
	return 0;
}
