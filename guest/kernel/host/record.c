/* The host build's hardware: RAM is a mapping, stores to live tables are
 * classified by what they change, maintenance is counted, and an interrupt to
 * another CPU runs its handler at once. */
#include <asm/pte.h>
#include <asm/tlbops.h>
#include <cpu.h>
#include <early.h>
#include <entry.h>
#include <kernel.h>
#include <smp.h>

#include "record.h"

void *mmap(void *addr, u64 len, int prot, int flags, int fd, long offset);
int printf(const char *fmt, ...);
int vprintf(const char *fmt, __builtin_va_list args);
void exit(int code) __noreturn;

#define PROT_READ_WRITE 3
#define MAP_PRIVATE_ANONYMOUS_NORESERVE 0x4022

u64 host_offset;
struct cpu *host_cpu = &cpus[0];
struct cpu cpus[CPUS_MAX];
u32 cpu_count = 1;
struct boot_info *boot_info;
struct early early;
struct counts counts;
char secondary_start[1];

static u64 ram_base;
static u8 *level_of; /* level + 1 of the live table in a frame, 0 for none */

void record_init(u64 base, u64 size)
{
	u8 *ram = mmap(NULL, size, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0);

	level_of = mmap(NULL, size >> 12, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0);
	if ((s64)ram == -1 || (s64)level_of == -1)
		panic("no memory for %lu bytes of RAM", size);
	ram_base = base;
	host_offset = (u64)ram - base;
}

static u8 *frame_level(u64 pa)
{
	return &level_of[(pa - ram_base) >> 12];
}

/* The level of an entry in a live table; -1 for any other memory. */
static int entry_level(const u64 *entry)
{
	u64 pa = __pa(entry);

	if (pa - ram_base >= boot_info->ram_size)
		return -1;
	return *frame_level(pa) - 1;
}

/* Tables below a new one become live with it. */
static void set_live(u64 table, int level)
{
	u64 *entries = __va(table);

	if (*frame_level(table) == level + 1)
		return;
	*frame_level(table) = (u8)(level + 1);
	for (int i = 0; level < 3 && i < 512; i++)
		if (entry_is_table(entries[i]))
			set_live(entry_pa(entries[i]), level + 1);
}

void record_root(u64 pa, int level)
{
	set_live(pa, level);
}

static void classify(int level, u64 old, u64 new)
{
	bool was_table = level < 3 && entry_is_table(old), is_table = level < 3 && entry_is_table(new);

	if (entry_valid(old) && !entry_valid(new)) {
		(was_table ? counts.clear_table : counts.clear_leaf)[level]++;
		if (was_table)
			*frame_level(entry_pa(old)) = 0;
	} else if (!entry_valid(old) && entry_valid(new)) {
		(is_table ? counts.install_table : counts.install_leaf)[level]++;
		if (is_table)
			set_live(entry_pa(new), level + 1);
	} else if (entry_valid(new) && old != new) {
		counts.attr[level]++;
	}
}

static void record_store(const u64 *entry, u64 new)
{
	int level = entry_level(entry);

	if (level >= 0)
		classify(level, *entry, new);
}

void set_entry(u64 *entry, u64 value)
{
	record_store(entry, value);
	*entry = value;
}

u64 xchg_entry(u64 *entry, u64 value)
{
	u64 old = *entry;

	set_entry(entry, value);
	return old;
}

void record_dsb(const char *kind)
{
	if (streq(kind, "ish"))
		counts.dsb_ish++;
	else if (streq(kind, "ishst"))
		counts.dsb_ishst++;
}

void tlbi_asid(u64 arg)
{
	counts.tlbi_asid++;
}

void tlbi_va(u64 arg, bool last_level)
{
	if (arg == 0)
		counts.tlbi_erratum_repeat++;
	else
		counts.tlbi_va++;
}

void tlbi_range(u64 arg, bool last_level)
{
	u64 scale = arg >> 44 & 3, num = arg >> 39 & 31;

	counts.tlbi_range++;
	counts.tlbi_range_pages += (num + 1) << (5 * scale + 1);
}

void invlpg(u64 addr)
{
	counts.invlpg[this_cpu()->number != 0]++;
}

void record_cr3(u64 value)
{
	counts.cr3[this_cpu()->number != 0]++;
}

void flush_tlb_local(void)
{
	record_cr3(0);
}

void arch_send_ipi(const u64 *mask, u32 count, int kind)
{
	struct cpu *sender = host_cpu;

	counts.ipis++;
	for (u32 i = 0; i < cpu_count; i++) {
		if (!(mask[i / 64] >> i % 64 & 1))
			continue;
		counts.handlers++;
		host_cpu = &cpus[i];
		smp_run_calls();
	}
	host_cpu = sender;
}

void arch_cpu_init(struct cpu *cpu)
{
}

bool streq(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return *a == *b;
}

void panic(const char *fmt, ...)
{
	__builtin_va_list args;

	__builtin_va_start(args, fmt);
	printf("panic: ");
	vprintf(fmt, args);
	printf("\n");
	__builtin_va_end(args);
	exit(1);
}
