/* What the host build counts. */
#ifndef RECORD_H
#define RECORD_H

#include <types.h>

struct counts {
	/* Stores to live tables of the user half, by level of the entry. */
	u64 install_table[4], install_leaf[4];
	u64 clear_table[4], clear_leaf[4];
	u64 attr[4], cont_set;
	u64 tlbi_va, tlbi_asid, tlbi_range, tlbi_range_pages, tlbi_erratum_repeat;
	u64 dsb_ish, dsb_ishst;
	u64 invlpg[2], cr3[2]; /* by the first CPU, by the others */
	u64 handlers, ipis;
};

extern struct counts counts;

/* Memory of `size` bytes that stands for RAM at `base`. */
void record_init(u64 base, u64 size);
/* Counting begins: the table at pa and all below it are live; its entries are
 * of this level. */
void record_root(u64 pa, int level);

#endif
