/* x86: entries stand for themselves. */
#include <asm/pgtable.h>
#include <fork.h>
#include <kernel.h>

bool entry_writable(u64 entry)
{
	return entry & PTE_RW;
}

u64 entry_wrprotected(u64 entry)
{
	return entry & ~PTE_RW;
}

bool same_attributes(pte_t one, pte_t other)
{
	return !((one ^ other) & ~(PTE_ADDR | PTE_DIRTY | PTE_ACCESSED));
}

pte_t read_gathered(const pte_t *ptep)
{
	return read_entry(ptep);
}

u64 batch_hint(const pte_t *ptep, pte_t pte)
{
	return 1;
}

/* The fault itself removed the translation; other CPUs take one more. */
void allow_write(struct mm *mm, u64 addr, u64 *entry)
{
	set_entry(entry, read_entry(entry) | PTE_RW | PTE_DIRTY | PTE_ACCESSED);
}

static void wrprotect(struct mm *mm, u64 addr, pte_t *ptep, u64 nr)
{
	for (; nr; nr--, ptep++)
		wrprotect_entry(ptep);
}

static const struct wrprotect_variant only = { "whole_range", wrprotect, set_ptes, NULL };

const struct wrprotect_variant *find_wrprotect_variant(const char *name)
{
	if (!streq(name, only.name))
		panic("parameter wrprotect=%s is not known: x86 has no contiguous groups", name);
	return &only;
}
