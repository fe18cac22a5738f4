/* The routines that a freestanding C compiler may call. */
#include <kernel.h>

void *memset(void *to, int byte, u64 len)
{
	u8 *p = to;
	u64 word = 0x0101010101010101UL * (u8)byte;

	for (; len >= 8 && IS_ALIGNED((u64)p, 8); len -= 8, p += 8)
		*(volatile u64 *)p = word;
	for (; len; len--)
		*(volatile u8 *)p++ = byte;
	return to;
}

void *memcpy(void *to, const void *from, u64 len)
{
	u8 *d = to;
	const u8 *s = from;

	for (; len >= 8 && IS_ALIGNED((u64)d | (u64)s, 8); len -= 8, d += 8, s += 8)
		*(volatile u64 *)d = *(const volatile u64 *)s;
	for (; len; len--)
		*(volatile u8 *)d++ = *s++;
	return to;
}

int memcmp(const void *a, const void *b, u64 len)
{
	const volatile u8 *x = a, *y = b;

	for (; len; len--, x++, y++)
		if (*x != *y)
			return *x < *y ? -1 : 1;
	return 0;
}

u64 strlen(const char *s)
{
	const volatile char *p = s;

	while (*p)
		p++;
	return (u64)(p - s);
}

bool streq(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return *a == *b;
}
