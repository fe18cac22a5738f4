/* Walking and filling the tables of an address space. */
#include <asm/pgtable.h>
#include <mm.h>

u64 alloc_table(void)
{
	return alloc_folio(ORDER_4K);
}

void populate_entry(u64 *entry, u64 table_pa)
{
	smp_wmb();
	set_entry(entry, mk_table(table_pa));
	table_barrier();
}

/* Two CPUs may find the entry empty: the lock of the table it is in decides. */
static u64 *table_alloc(struct spinlock *lock, u64 *entry)
{
	if (entry_none(read_entry(entry))) {
		u64 table = alloc_table();

		spin_lock(lock);
		if (entry_none(read_entry(entry))) {
			populate_entry(entry, table);
			table = 0;
		}
		spin_unlock(lock);
		if (table)
			free_empty_table(table);
	}
	return table_below(entry);
}

pud_t *pud_offset(struct mm *mm, u64 addr)
{
	if (mm->levels == 3)
		return table_entry(mm->root, addr, LEVEL_PUD);

	pgd_t *pgd = table_entry(mm->root, addr, LEVEL_PGD);

	return entry_none(read_entry(pgd)) ? NULL : table_entry(table_below(pgd), addr, LEVEL_PUD);
}

pud_t *pud_alloc(struct mm *mm, u64 addr)
{
	if (mm->levels == 3)
		return table_entry(mm->root, addr, LEVEL_PUD);

	pgd_t *pgd = table_entry(mm->root, addr, LEVEL_PGD);

	return table_entry(table_alloc(&mm->page_table_lock, pgd), addr, LEVEL_PUD);
}

pmd_t *pmd_alloc(struct mm *mm, u64 addr)
{
	pud_t *pud = pud_alloc(mm, addr);

	return table_entry(table_alloc(table_lock(pud), pud), addr, LEVEL_PMD);
}

pte_t *pte_alloc(struct mm *mm, u64 addr)
{
	pmd_t *pmd = pmd_alloc(mm, addr);

	return table_entry(table_alloc(table_lock(pmd), pmd), addr, LEVEL_PTE);
}

pmd_t *pmd_lookup(struct mm *mm, u64 addr)
{
	pud_t *pud = pud_offset(mm, addr);

	return !pud || entry_none(read_entry(pud)) ? NULL : pmd_offset(pud, addr);
}

u64 frame_at(struct mm *mm, u64 addr)
{
	pmd_t *pmd = pmd_lookup(mm, addr);

	if (!pmd || !entry_valid(read_entry(pmd)))
		return 0;
	if (entry_is_block(read_entry(pmd)))
		return ALIGN_DOWN(entry_pa(read_entry(pmd)), PMD_SIZE) + ALIGN_DOWN(addr & (PMD_SIZE - 1), PAGE_SIZE);

	pte_t pte = read_entry(pte_offset(pmd, addr));

	return entry_valid(pte) ? entry_pa(pte) : 0;
}
