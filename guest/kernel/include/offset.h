/* Addresses described by what they are aligned to. */
#ifndef OFFSET_H
#define OFFSET_H

#include <types.h>

/* The offset from a 1 GiB boundary that a text names: "pud" 0, "pmd" 2 MiB,
 * "pte" one page, each with "+N" that many pages more. Panics on others; `key`
 * is for the message. */
u64 parse_offset(const char *key, const char *text);

#endif
