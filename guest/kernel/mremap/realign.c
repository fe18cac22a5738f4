/* mremap, level=realign: as pud, and a move whose addresses have the same
 * offset in 2 MiB is extended down to whole tables. */
#include <mremap.h>

static void move_realign(struct move *move)
{
	realign_move(move);
	move_page_tables(move, MOVE_HPAGE_PMD | MOVE_PMD | MOVE_PUD);
}

MREMAP_VARIANT(realign, "as pud, extended down to whole tables when both offsets are equal", move_realign);
