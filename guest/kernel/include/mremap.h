/* Moving page tables: the mechanism and its variants.
 *
 * A variant is one file under mremap/ that defines one function and names it
 * with MREMAP_VARIANT; the parameter `level` selects it at run time. */
#ifndef MREMAP_H
#define MREMAP_H

#include <mm.h>

/* When the old translations are removed. */
enum flush_policy {
	FLUSH_EXTENT,              /* behind every extent, under its locks */
	FLUSH_END,                 /* once, for everything, at the end */
	FLUSH_EXTENT_NO_THRESHOLD, /* as the first, always page by page */
};

/* What may be moved by one entry. */
#define MOVE_HPAGE_PMD 1U /* leaves of 2 MiB */
#define MOVE_PMD 2U       /* tables of pages */
#define MOVE_PUD 4U       /* tables of 2 MiB entries */

struct move {
	struct mm *mm;
	u64 src, dst, len; /* whole pages; no overlap */
	enum flush_policy flush;
	const struct mremap_variant *variant;
	u64 extents; /* moved so far */
};

struct mremap_variant {
	const char *name;
	const char *about;
	/* Moves every entry of [src, src + len) to dst. */
	void (*run)(struct move *move);
};

#define MREMAP_VARIANT(id, description, function) \
	const struct mremap_variant mremap_##id __attribute__((section("mremap_variants"), used)) = { \
		.name = #id, \
		.about = description, \
		.run = function, \
	}

/* The engine the variants share: extent by extent, the largest that `allowed`
 * and both addresses permit. */
void move_page_tables(struct move *move, u32 allowed);
/* Extends the move down to a 2 MiB boundary when that moves nothing else. */
void realign_move(struct move *move);

const struct mremap_variant *find_mremap_variant(const char *name);

#endif
