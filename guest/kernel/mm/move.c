/* Moving translations from one address range to another, by the highest entry
 * that covers only what moves. */
#include <asm/pgtable.h>
#include <kernel.h>
#include <mremap.h>
#include <tlb.h>

/* How far an entry of `size` reaches: to its end at either address, or to the
 * end of the move. Written with lengths, so the top of the address space needs
 * no care. */
static u64 extent_of(u64 src, u64 dst, u64 left, u64 size)
{
	u64 src_room = size - (src & (size - 1));
	u64 dst_room = size - (dst & (size - 1));

	return MIN(left, MIN(src_room, dst_room));
}

static void lock_two(struct spinlock *old, struct spinlock *new)
{
	spin_lock(old);
	if (new != old)
		spin_lock(new);
}

static void unlock_two(struct spinlock *old, struct spinlock *new)
{
	if (new != old)
		spin_unlock(new);
	spin_unlock(old);
}

static void flush_extent(struct move *move, u64 src, u64 len, int level)
{
	move->extents++;
	if (move->flush == FLUSH_END)
		return;
	if (level == LEVEL_PMD)
		flush_pmd_tlb_range(move->mm, src, src + len);
	else
		flush_tlb_range(move->mm, src, src + len);
}

/* Moves a table: the entry that points to it changes place, all entries in it
 * stay where they are. Refused when the destination is taken. */
static bool move_table(struct move *move, u64 *old, u64 *new, u64 src, u64 size)
{
	struct spinlock *old_lock = table_lock(old), *new_lock = table_lock(new);

	if (!entry_none(read_entry(new)))
		return false;
	lock_two(old_lock, new_lock);

	u64 table = entry_pa(read_entry(old));

	set_entry(old, 0);
	populate_entry(new, table);
	/* Before the locks go: the old address must not reach the table any
	 * more, neither by leaves nor by cached table entries. */
	flush_extent(move, src, size, TLB_LEVEL_UNKNOWN);
	unlock_two(old_lock, new_lock);
	return true;
}

static bool move_huge_pmd(struct move *move, pmd_t *old, pmd_t *new, u64 src, u64 dst)
{
	struct spinlock *old_lock = table_lock(old), *new_lock = table_lock(new);

	if (!entry_none(read_entry(new)))
		return false;
	lock_two(old_lock, new_lock);
	set_pmd_at(move->mm, dst, new, pmdp_huge_get_and_clear(move->mm, src, old));
	flush_extent(move, src, PMD_SIZE, LEVEL_PMD);
	unlock_two(old_lock, new_lock);
	return true;
}

static void move_ptes(struct move *move, pmd_t *old_pmd, u64 src, u64 dst, u64 len)
{
	struct mm *mm = move->mm;
	pte_t *new = pte_alloc(mm, dst);
	pte_t *old = pte_offset(old_pmd, src);
	struct spinlock *old_lock = table_lock(old), *new_lock = table_lock(new);
	bool moved = false;

	lock_two(old_lock, new_lock);
	for (u64 done = 0; done < len; done += PAGE_SIZE, old++, new++) {
		if (entry_none(read_entry(old)))
			continue;
		set_ptes(mm, dst + done, new, ptep_get_and_clear(mm, src + done, old), 1);
		moved = true;
	}
	if (moved)
		flush_extent(move, src, len, TLB_LEVEL_UNKNOWN);
	unlock_two(old_lock, new_lock);
}

/* One 2 MiB entry or a part of it. `len` does not reach beyond the entry at
 * either address. */
static void move_pmd_extent(struct move *move, pmd_t *old, u64 src, u64 dst, u64 len, u32 allowed)
{
	bool whole = len == PMD_SIZE;
	pmd_t *new = pmd_alloc(move->mm, dst);

	if (entry_is_block(read_entry(old))) {
		if (whole && (allowed & MOVE_HPAGE_PMD) && move_huge_pmd(move, old, new, src, dst))
			return;
		split_huge_pmd(move->mm, old, src);
	}
	if (whole && (allowed & MOVE_PMD) && move_table(move, old, new, src, PMD_SIZE))
		return;
	move_ptes(move, old, src, dst, len);
}

/* Moves what it can at once; returns how far that was. Where the source has no
 * entry there is nothing to move, and no destination is allocated. */
static u64 move_extent(struct move *move, u64 src, u64 dst, u64 left, u32 allowed)
{
	u64 len = extent_of(src, dst, left, PUD_SIZE);
	pud_t *pud = pud_offset(move->mm, src);

	if (!pud || entry_none(read_entry(pud)))
		return len;
	if (len == PUD_SIZE && (allowed & MOVE_PUD) &&
	    move_table(move, pud, pud_alloc(move->mm, dst), src, PUD_SIZE))
		return len;

	pmd_t *pmd = pmd_offset(pud, src);

	len = extent_of(src, dst, left, PMD_SIZE);
	if (!entry_none(read_entry(pmd)))
		move_pmd_extent(move, pmd, src, dst, len, allowed);
	return len;
}

void move_page_tables(struct move *move, u32 allowed)
{
	tlb_set_no_threshold(move->flush == FLUSH_EXTENT_NO_THRESHOLD);
	for (u64 done = 0; done < move->len;)
		done += move_extent(move, move->src + done, move->dst + done, move->len - done, allowed);
	tlb_set_no_threshold(false);
	if (move->flush == FLUSH_END && move->extents)
		flush_tlb_range(move->mm, move->src, move->src + move->len);
}

/* The area that starts at addr is the first thing in its 2 MiB. */
static bool can_align_down(struct mm *mm, u64 addr)
{
	struct vma *vma = find_vma(mm, ALIGN_DOWN(addr, PMD_SIZE));

	return vma && vma->start == addr;
}

void realign_move(struct move *move)
{
	u64 offset = move->src & (PMD_SIZE - 1);

	if (offset != (move->dst & (PMD_SIZE - 1)) || move->len < PMD_SIZE - offset)
		return;
	if (!can_align_down(move->mm, move->src) || !can_align_down(move->mm, move->dst))
		return;
	move->src -= offset;
	move->dst -= offset;
	move->len += offset;
}

/* The linker collects the section of this name. */
extern const struct mremap_variant __start_mremap_variants[], __stop_mremap_variants[];

const struct mremap_variant *find_mremap_variant(const char *name)
{
	for (const struct mremap_variant *v = __start_mremap_variants; v < __stop_mremap_variants; v++)
		if (streq(v->name, name))
			return v;
	panic("no mremap variant is named %s", name);
}

void do_mremap(struct mm *mm, u64 old, u64 new, struct move *move)
{
	struct vma *vma = find_vma(mm, old);
	u64 len = vma->end - vma->start;

	spin_lock(&mm->mmap_lock);
	unmap_range(mm, new, len);

	struct vma *copy = map_area(mm, new, len, vma->flags, vma->order);

	copy->shmem = vma->shmem;
	copy->pgoff = vma->pgoff;
	move->mm = mm;
	move->src = old;
	move->dst = new;
	move->len = len;
	move->extents = 0;
	move->variant->run(move);
	unmap_range(mm, old, len);
	spin_unlock(&mm->mmap_lock);
}
