/* Services every part of the kernel uses: messages, parameters, reports to the
 * machine, and the C library routines a freestanding compiler may call. */
#ifndef KERNEL_H
#define KERNEL_H

#include <abi.h>
#include <types.h>

extern struct boot_info *boot_info;

static inline bool has_feature(u64 bit)
{
	return boot_info->features & bit;
}

/* Formats %s %c %d %u %lu %lx %x %%. */
void printk(const char *fmt, ...) __printf(1, 2);
void panic(const char *fmt, ...) __printf(1, 2) __noreturn;
/* Records that a check of the guest failed; the run goes on. */
void report_unsafe(const char *fmt, ...) __printf(1, 2);
bool found_unsafe(void);
void report(const char *key, u64 value);
void region_begin(const char *name);
void region_end(const char *name);
void exit_guest(u64 code) __noreturn;

/* The text of a parameter, or `fallback` when it is absent. */
const char *param_text(const char *key, const char *fallback);
/* A decimal parameter; anything else than digits is a panic. */
u64 param_number(const char *key, u64 fallback);

void *memset(void *to, int byte, u64 len);
void *memcpy(void *to, const void *from, u64 len);
int memcmp(const void *a, const void *b, u64 len);
u64 strlen(const char *s);
bool streq(const char *a, const char *b);

/* What the image runs: each file under programs/ defines one. Runs on the
 * boot CPU, with every translation structure of the kernel set up. */
void program_main(void);

#endif
