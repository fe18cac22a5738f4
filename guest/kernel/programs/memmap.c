/* What descriptors of physical pages cost at boot.
 *
 * A described machine gets its memory map, in the region of interest `boot`. Its
 * stages are regions too: `populate` maps the memory of
 * the descriptors (and zeroes it, with zeroing=early_memset), `init` writes their
 * first contents, `free` hands pages to the free lists. With fill=poison the memory
 * holds other bytes before. Every descriptor is checked behind. Results: `pages`,
 * those with memory behind them; `freed`. */
#include <frame.h>
#include <kernel.h>
#include <memmap.h>

#define POISON 0xff

static struct memmap memmap;

static enum zeroing parse_zeroing(const char *text)
{
	if (streq(text, "none"))
		return ZEROING_NONE;
	if (streq(text, "early_memset"))
		return ZEROING_EARLY_MEMSET;
	if (streq(text, "in_init_memset"))
		return ZEROING_IN_INIT_MEMSET;
	if (streq(text, "in_init_stores"))
		return ZEROING_IN_INIT_STORES;
	panic("parameter zeroing=%s is not known", text);
}

static enum store parse_store(const char *text)
{
	if (streq(text, "8"))
		return STORE_8;
	if (streq(text, "16"))
		return STORE_16;
	if (streq(text, "line"))
		return STORE_LINE;
	panic("parameter store=%s is not known", text);
}

/* One of two words; true for the second. */
static bool parse_pair(const char *key, const char *first, const char *second)
{
	const char *text = param_text(key, first);

	if (!streq(text, first) && !streq(text, second))
		panic("parameter %s=%s is not known", key, text);
	return streq(text, second);
}

void program_main(void)
{
	u64 memory = param_number("memory", 1UL << 30), hole = param_number("hole", 0);
	bool pages_4k = parse_pair("mapping", "2M", "4K");
	bool poison = parse_pair("fill", "zero", "poison");
	bool leave = parse_pair("unavailable", "zeroed", "left");

	memmap.size = param_number("struct_page", 64);
	if (memmap.size < BOOT_PAGE_MIN || memmap.size > BOOT_PAGE_MAX || !IS_ALIGNED(memmap.size, 8))
		panic("struct_page=%lu: %lu to %lu bytes, in words", memmap.size, BOOT_PAGE_MIN, BOOT_PAGE_MAX);
	if (memory < 64UL << 20 || !IS_ALIGNED(memory | hole, PAGE_SIZE))
		panic("memory=%lu hole=%lu: whole pages of 4096 bytes, at least 64 MiB", memory, hole);
	memmap.zeroing = parse_zeroing(param_text("zeroing", "in_init_memset"));
	memmap.store = parse_store(param_text("store", "8"));
	describe_memory(&memmap.map, memory, hole);
	memmap_take_frames(&memmap);
	if (poison)
		memset(__va(memmap.pa), POISON, memmap.bytes);

	region_begin("boot");
	region_begin("populate");
	memmap_populate(&memmap, !pages_4k);
	region_end("populate");

	region_begin("init");
	memmap_init(&memmap);
	if (!leave)
		memmap_zero_unavailable(&memmap);
	region_end("init");

	region_begin("free");
	u64 freed = memmap_free(&memmap);
	region_end("free");
	region_end("boot");

	u64 wrong = memmap_count_wrong(&memmap);

	if (wrong)
		report_unsafe("%lu of %lu page descriptors hold what was never written", wrong, memmap.map.pages);
	report("pages", memory >> PAGE_SHIFT);
	report("freed", freed);
}
