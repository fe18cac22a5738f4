/* Messages, parameters and reports to the machine. */
#include <arch.h>
#include <kernel.h>

#define MESSAGE_MAX 256

struct boot_info *boot_info;
static bool unsafe_seen;

struct text {
	char *at, *end;
};

static void put(struct text *t, char c)
{
	if (t->at < t->end)
		*t->at++ = c;
}

static void put_number(struct text *t, u64 n, u64 base)
{
	char digits[20];
	int len = 0;

	do {
		digits[len++] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	while (len)
		put(t, digits[--len]);
}

static void put_integer(struct text *t, char kind, u64 n, bool wide)
{
	if (kind == 'd') {
		s64 value = wide ? (s64)n : (int)n;

		if (value < 0)
			put(t, '-');
		put_number(t, value < 0 ? -(u64)value : (u64)value, 10);
		return;
	}
	put_number(t, wide ? n : (u32)n, kind == 'x' ? 16 : 10);
}

/* The message is on the stack, which the direct map covers. */
struct message {
	char buffer[MESSAGE_MAX];
	u64 len;
};

static void format(struct message *m, const char *fmt, __builtin_va_list args)
{
	struct text t = { m->buffer, m->buffer + sizeof(m->buffer) };

	for (; *fmt; fmt++) {
		if (*fmt != '%') {
			put(&t, *fmt);
			continue;
		}
		bool wide = *++fmt == 'l';

		if (wide)
			fmt++;
		switch (*fmt) {
		case 's':
			for (const char *s = __builtin_va_arg(args, const char *); *s; s++)
				put(&t, *s);
			break;
		case 'c':
			put(&t, (char)__builtin_va_arg(args, int));
			break;
		case 'd':
		case 'u':
		case 'x':
			put_integer(&t, *fmt, wide ? __builtin_va_arg(args, u64) : __builtin_va_arg(args, u32), wide);
			break;
		default:
			put(&t, *fmt);
		}
	}
	m->len = (u64)(t.at - m->buffer);
	barrier();
}

void printk(const char *fmt, ...)
{
	__builtin_va_list args;
	struct message m;

	__builtin_va_start(args, fmt);
	format(&m, fmt, args);
	__builtin_va_end(args);
	hypercall(HC_CONSOLE, __pa(m.buffer), m.len, 0);
}

void panic(const char *fmt, ...)
{
	__builtin_va_list args;
	struct message m;

	__builtin_va_start(args, fmt);
	format(&m, fmt, args);
	__builtin_va_end(args);
	hypercall(HC_PANIC, __pa(m.buffer), m.len, 0);
	for (;;)
		cpu_halt();
}

void report_unsafe(const char *fmt, ...)
{
	__builtin_va_list args;
	struct message m;

	unsafe_seen = true;
	__builtin_va_start(args, fmt);
	format(&m, fmt, args);
	__builtin_va_end(args);
	hypercall(HC_UNSAFE, __pa(m.buffer), m.len, 0);
}

bool found_unsafe(void)
{
	return unsafe_seen;
}

void report(const char *key, u64 value)
{
	hypercall(HC_RESULT, __pa(key), strlen(key), value);
}

void region_begin(const char *name)
{
	hypercall(HC_REGION_BEGIN, __pa(name), strlen(name), 0);
}

void region_end(const char *name)
{
	hypercall(HC_REGION_END, __pa(name), strlen(name), 0);
}

void exit_guest(u64 code)
{
	hypercall(HC_EXIT, code, 0, 0);
	for (;;)
		cpu_halt();
}

const char *param_text(const char *key, const char *fallback)
{
	u32 count = MIN(boot_info->nparams, (u32)ARRAY_LEN(boot_info->params));

	for (u32 i = 0; i < count; i++) {
		struct boot_param *p = &boot_info->params[i];

		if (streq(p->key, key))
			return p->text;
	}
	return fallback;
}

u64 param_number(const char *key, u64 fallback)
{
	const char *text = param_text(key, NULL);
	u64 n = 0;

	if (!text)
		return fallback;
	if (!*text)
		panic("parameter %s is empty", key);
	for (const char *s = text; *s; s++) {
		if (*s < '0' || *s > '9')
			panic("parameter %s=%s is not a decimal number", key, text);
		n = n * 10 + (u64)(*s - '0');
	}
	return n;
}
