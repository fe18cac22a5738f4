/* Addresses described by what they are aligned to: the highest level whose
 * entries an address does not cut, and pages beyond. */
#include <kernel.h>
#include <offset.h>
#include <pgtable.h>

u64 parse_offset(const char *key, const char *text)
{
	u64 offset, pages = 0;

	if (memcmp(text, "pud", 3) == 0)
		offset = 0;
	else if (memcmp(text, "pmd", 3) == 0)
		offset = PMD_SIZE;
	else if (memcmp(text, "pte", 3) == 0)
		offset = PAGE_SIZE;
	else
		panic("%s=%s: pte, pmd or pud, and +N pages", key, text);

	const char *rest = text + 3;

	if (*rest && (*rest++ != '+' || !*rest))
		panic("%s=%s: only +N may follow the level", key, text);
	for (; *rest; rest++) {
		if (*rest < '0' || *rest > '9' || pages > PUD_SIZE / PAGE_SIZE)
			panic("%s=%s: N is a number of pages below 1 GiB", key, text);
		pages = pages * 10 + (u64)(*rest - '0');
	}
	return offset + pages * PAGE_SIZE;
}
