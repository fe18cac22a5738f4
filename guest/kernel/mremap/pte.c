/* mremap, level=pte: pages one by one; 2 MiB leaves are split first. */
#include <mremap.h>

static void move_pte(struct move *move)
{
	move_page_tables(move, 0);
}

MREMAP_VARIANT(pte, "pages one by one; 2 MiB leaves are split first", move_pte);
