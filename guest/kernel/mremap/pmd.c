/* mremap, level=pmd: 2 MiB leaves and tables of pages as a whole. */
#include <mremap.h>

static void move_pmd(struct move *move)
{
	move_page_tables(move, MOVE_HPAGE_PMD | MOVE_PMD);
}

MREMAP_VARIANT(pmd, "2 MiB leaves and tables of pages as a whole", move_pmd);
