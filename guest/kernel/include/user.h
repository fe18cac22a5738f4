/* User code that is part of the image, and tasks that run it. */
#ifndef USER_H
#define USER_H

#include <mm.h>

/* Where every address space has the image's user code. */
#define USER_TEXT 0x400000UL

/* Maps the user code of the image at USER_TEXT. */
void map_user_image(struct mm *mm);

/* The user address of a symbol in section .user. */
#define user_address(symbol) (USER_TEXT + (u64)((char *)(symbol) - user_image_start))
extern char user_image_start[], user_image_end[];

/* Marks a function of user code. It may use its arguments, its stack and other
 * user code, but no data of the image. */
#define __user_code __attribute__((section(".user"), used, noinline))

/* Waits in user mode for ever. */
extern char user_spin[];

#endif
