/* The image's user code in an address space. */
#include <asm/pgtable.h>
#include <kernel.h>
#include <user.h>

void map_user_image(struct mm *mm)
{
	u64 len = (u64)(user_image_end - user_image_start);

	map_area(mm, USER_TEXT, len, VM_EXEC, ORDER_4K);
	for (u64 at = 0; at < len; at += PAGE_SIZE) {
		u64 pa = __pa(user_image_start + at);

		set_ptes(mm, USER_TEXT + at, pte_alloc(mm, USER_TEXT + at),
			 mk_user_leaf(pa, LEVEL_PTE, false, true), 1);
	}
}
