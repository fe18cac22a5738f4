/* The first translation tables. Runs at physical addresses: uses nothing but
 * its arguments, PC-relative data and frames behind the image. */
#include <arch.h>
#include <asm/pte.h>
#include <early.h>

#define BLOCK_SIZE (1UL << 21)
#define ENTRIES 512UL
#define IMAGE_OFFSET BLOCK_SIZE /* the image starts here in RAM */

struct early early;
extern char image_end[];

static u64 early_table(void)
{
	u64 pa = early.free;

	early.free += 4096;
	return pa;
}

static u64 *entry_of(u64 table, u64 va, int level)
{
	return (u64 *)table + ((va >> (12 + 9 * (3 - level))) & (ENTRIES - 1));
}

static u64 next_table(u64 table, u64 va, int level)
{
	u64 *entry = entry_of(table, va, level);

	if (!entry_valid(*entry))
		*entry = mk_table(early_table());
	return entry_pa(*entry);
}

/* Maps RAM in 2 MiB blocks at physical + offset; only the image is executable. */
static void map_ram(u64 root, u64 offset, const struct boot_info *info)
{
	u64 image = info->ram_base + IMAGE_OFFSET;
	u64 image_stop = ALIGN_UP(info->free_start, BLOCK_SIZE);
	u64 stop = info->ram_base + ALIGN_DOWN(info->ram_size, BLOCK_SIZE);

	for (u64 pa = info->ram_base; pa < stop; pa += BLOCK_SIZE) {
		u64 va = pa + offset;
		u64 table = next_table(next_table(root, va, 0), va, 1);

		*entry_of(table, va, 2) = mk_kernel_leaf(pa, 2, pa >= image && pa < image_stop);
	}
}

/* Called by the boot code of the first CPU, translation off. */
void early_paging(struct boot_info *info)
{
	early.info = (u64)info;
	early.free = ALIGN_UP(info->free_start, 4096);
	early.kernel_root = early_table();
	early.boot_root = early_table();
	map_ram(early.kernel_root, KERNEL_OFFSET, info);

	/* The identity map shares everything below the root. */
	u64 *boot = (u64 *)early.boot_root;
	u64 *kernel = (u64 *)early.kernel_root;
	u64 first = (KERNEL_OFFSET >> 39) & (ENTRIES - 1);

	for (u64 i = first; i < ENTRIES; i++) {
		boot[i] = kernel[i];
		if (i - first < ENTRIES / 2)
			boot[i - first] = kernel[i];
	}
}
