/* mremap, level=pud: also tables of 2 MiB entries as a whole. */
#include <mremap.h>

static void move_pud(struct move *move)
{
	move_page_tables(move, MOVE_HPAGE_PMD | MOVE_PMD | MOVE_PUD);
}

MREMAP_VARIANT(pud, "also tables of 2 MiB entries as a whole", move_pud);
