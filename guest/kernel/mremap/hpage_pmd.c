/* mremap, level=hpage_pmd: 2 MiB leaves as a whole, pages one by one. */
#include <mremap.h>

static void move_hpage_pmd(struct move *move)
{
	move_page_tables(move, MOVE_HPAGE_PMD);
}

MREMAP_VARIANT(hpage_pmd, "2 MiB leaves as a whole, pages one by one", move_hpage_pmd);
