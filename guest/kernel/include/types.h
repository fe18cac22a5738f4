/* Basic types and compiler words of the guest kernel. Included by everything. */
#ifndef TYPES_H
#define TYPES_H

/* Every symbol lives in one image: no reference needs an indirection, so the
 * code also runs at its physical address before translation is on. */
#ifndef HOST
#pragma GCC visibility push(hidden)
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef long s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define ALIGN_DOWN(x, a) ((x) & ~((u64)(a) - 1))
#define ALIGN_UP(x, a) (((x) + (u64)(a) - 1) & ~((u64)(a) - 1))
#define IS_ALIGNED(x, a) (((x) & ((u64)(a) - 1)) == 0)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#define barrier() __asm__ volatile("" ::: "memory")

#define __noreturn __attribute__((noreturn))
#define __aligned(n) __attribute__((aligned(n)))
#define __printf(f, a) __attribute__((format(printf, f, a)))

#endif
