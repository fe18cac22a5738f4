/* Frame allocator: a bump pointer over fresh memory, which is zero, and one
 * free list an order. Nothing is cleared that is known to be zero. */
#include <frame.h>
#include <kernel.h>

#define ORDERS 10

static struct page *memmap;
static u64 ram_start, bump, bump_end, in_use;
static u32 free_list[ORDERS];
static struct spinlock frame_lock;

struct page *page_of(u64 pa)
{
	return &memmap[(pa - ram_start) >> PAGE_SHIFT];
}

u64 folio_start(u64 pa)
{
	return ALIGN_DOWN(pa, PAGE_SIZE << page_of(pa)->order);
}

void frame_init(u64 ram_base, u64 ram_size, u64 first_free)
{
	u64 frames = ram_size >> PAGE_SHIFT;

	ram_start = ram_base;
	bump_end = ram_base + ram_size;
	memmap = __va(ALIGN_UP(first_free, PAGE_SIZE));
	bump = ALIGN_UP(__pa(memmap + frames), PAGE_SIZE);
	in_use = 0;
	for (int i = 0; i < ORDERS; i++)
		free_list[i] = 0;
	if (bump > bump_end)
		panic("%lu KiB of RAM do not hold the kernel", ram_size >> 10);
}

static void push_free(u64 pa, int order)
{
	struct page *page = page_of(pa);

	page->next = free_list[order];
	free_list[order] = (u32)((pa - ram_start) >> PAGE_SHIFT) + 1;
}

static u64 pop_free(int order)
{
	u64 pa = ram_start + ((u64)(free_list[order] - 1) << PAGE_SHIFT);

	free_list[order] = page_of(pa)->next;
	return pa;
}

/* Frames skipped for alignment go to the list of single frames. */
static u64 take_fresh(int order)
{
	u64 size = PAGE_SIZE << order;

	while (!IS_ALIGNED(bump, size) && bump < bump_end) {
		push_free(bump, 0);
		bump += PAGE_SIZE;
	}
	if (bump + size > bump_end)
		panic("out of memory: %lu MiB of RAM are in use", (bump_end - ram_start) >> 20);
	bump += size;
	return bump - size;
}

u64 alloc_folio(int order)
{
	u64 pa;

	spin_lock(&frame_lock);
	pa = free_list[order] ? pop_free(order) : take_fresh(order);
	in_use += 1UL << order;
	spin_unlock(&frame_lock);

	struct page *page = page_of(pa);

	if (page->dirty)
		memset(__va(pa), 0, PAGE_SIZE << order);
	page->dirty = 0;
	page->refs = 1;
	if (order != page->order)
		for (u64 i = 0; i < 1UL << order; i++)
			page[i].order = (u8)order;
	return pa;
}

static void free_folio(u64 pa, int order)
{
	spin_lock(&frame_lock);
	push_free(pa, order);
	in_use -= 1UL << order;
	spin_unlock(&frame_lock);
}

void get_folio(u64 pa)
{
	__atomic_add_fetch(&page_of(folio_start(pa))->refs, 1, __ATOMIC_RELAXED);
}

void put_folio(u64 pa)
{
	struct page *page = page_of(folio_start(pa));

	if (__atomic_sub_fetch(&page->refs, 1, __ATOMIC_ACQ_REL))
		return;
	page->dirty = 1;
	free_folio(folio_start(pa), page->order);
}

void free_empty_table(u64 pa)
{
	free_folio(pa, 0);
}

u64 frames_in_use(void)
{
	return in_use;
}
