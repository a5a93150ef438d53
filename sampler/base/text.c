/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and repairs UTF-8, because a server refuses a whole profile for one bad byte in a label.
 * Splits lists and reads numbers: strtol() depends on the host's locale, and newer headers redirect
 * it to symbols that older C libraries lack. Formats text: libc's printf may take locale locks and
 * allocate, and hosts wrap it. Contexts: INIT, APP and the exporter. No state, no allocation, no
 * errno.
 */
#include "sampler/base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char replacement[3] = {'\xef', '\xbf', '\xbd'};

/*
 * The length of the sequence that a lead byte opens (0 = no lead byte) and the range of its second
 * byte. The range excludes overlong forms, surrogates and values above U+10FFFF.
 */
static size_t lead(unsigned char c, unsigned char *low, unsigned char *high)
{
	*low = 0x80;
	*high = 0xbf;
	if (c < 0x80)
		return c != '\0';
	if (c < 0xc2 || c > 0xf4)
		return 0;
	if (c < 0xe0)
		return 2;
	if (c == 0xe0)
		*low = 0xa0;
	if (c == 0xed)
		*high = 0x9f;
	if (c == 0xf0)
		*low = 0x90;
	if (c == 0xf4)
		*high = 0x8f;
	return c < 0xf0 ? 3 : 4;
}

/* The length of the next character; *good false: of the maximal invalid part. */
static size_t step(const unsigned char *s, size_t len, bool *good)
{
	unsigned char low;
	unsigned char high;
	size_t want = lead(s[0], &low, &high);
	size_t have = 1;

	*good = false;
	if (want == 0)
		return 1;
	for (; have < want && have < len; have++) {
		if (s[have] < low || s[have] > high)
			return have;
		low = 0x80;
		high = 0xbf;
	}
	*good = have == want;
	return have;
}

bool sp_text_has_control(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (sp_text_is_control(text[i]))
			return true;
	return false;
}

bool sp_text_valid(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	bool good = true;

	for (size_t i = 0; i < len && good;)
		i += step(s + i, len - i, &good);
	return good;
}

/*
 * Whether eight characters are ASCII and not NUL. Subtracting 1 sets the top bit of a byte that is
 * NUL or above 0x80; 0x80 has the top bit itself.
 */
static bool plain(const char *s)
{
	uint64_t w;

	memcpy(&w, s, sizeof(w));
	return (((w - UINT64_C(0x0101010101010101)) | w) & UINT64_C(0x8080808080808080)) == 0;
}

/* The length of the beginning that needs no repair, in steps of eight. */
static size_t plain_length(const char *s, size_t len)
{
	size_t n = 0;

	while (len - n >= 8 && plain(s + n))
		n += 8;
	return n;
}

size_t sp_text_clean(char *dst, size_t cap, const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t out = plain_length(text, len < cap ? len : cap);

	memcpy(dst, text, out);
	for (size_t i = out; i < len;) {
		bool good;
		size_t n = step(s + i, len - i, &good);
		size_t size = good ? n : sizeof(replacement);

		if (size > cap - out)
			break;
		memcpy(dst + out, good ? text + i : replacement, size);
		out += size;
		i += n;
	}
	return out;
}

size_t sp_text_boundary(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char low;
	unsigned char high;
	size_t start = len;

	while (start > 0 && len - start < 4) {
		start--;
		if ((s[start] & 0xc0) != 0x80)
			return lead(s[start], &low, &high) > len - start ? start : len;
	}
	return len;
}

void sp_text_printable(char *s, size_t len)
{
	bool good;

	for (size_t i = 0, n; i < len; i += n) {
		n = step((const unsigned char *)s + i, len - i, &good);
		if (!good)
			memset(s + i, '?', n);
		else if (n == 1 && sp_text_is_control(s[i]))
			s[i] = ' ';
		else if (n == 2 && s[i] == '\xc2' && (unsigned char)s[i + 1] < 0xa0)
			memset(s + i, ' ', n);
	}
}

int sp_text_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool sp_text_number(const char **s, unsigned base, uint64_t *n)
{
	const char *begin = *s;

	*n = 0;
	for (;; (*s)++) {
		int digit = sp_text_digit(**s);

		if (digit < 0 || (unsigned)digit >= base)
			return *s != begin;
		if (__builtin_mul_overflow(*n, base, n) ||
		    __builtin_add_overflow(*n, (unsigned)digit, n))
			*n = UINT64_MAX;
	}
}

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

size_t sp_text_percent(char out[3], char c)
{
	static const char digits[] = "0123456789ABCDEF";

	if (is_unreserved(c)) {
		out[0] = c;
		return 1;
	}
	out[0] = '%';
	out[1] = digits[(unsigned char)c >> 4];
	out[2] = digits[(unsigned char)c & 15];
	return 3;
}

bool sp_text_is_escape(const char *text, size_t len, char *byte)
{
	if (len < 3 || text[0] != '%' || sp_text_digit(text[1]) < 0 || sp_text_digit(text[2]) < 0)
		return false;
	*byte = (char)(sp_text_digit(text[1]) << 4 | sp_text_digit(text[2]));
	return true;
}

size_t sp_text_unescape(char *out, const char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (sp_text_is_escape(text + i, len - i, &c))
			i += 2;
		out[n++] = c;
	}
	return n;
}

void sp_text_hex(char *out, const uint8_t *bytes, size_t n)
{
	static const char digit[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digit[bytes[i] >> 4];
		out[2 * i + 1] = digit[bytes[i] & 15U];
	}
	out[2 * n] = '\0';
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

static void trim(const char **s, size_t *len)
{
	while (*len > 0 && blank((*s)[*len - 1]))
		(*len)--;
	for (; *len > 0 && blank(**s); (*s)++)
		(*len)--;
}

bool sp_text_next_item(const char **list, const char **item, size_t *len)
{
	while (**list != '\0') {
		*item = *list;
		*len = strcspn(*list, ",");
		*list += *len;
		if (**list == ',')
			(*list)++;
		trim(item, len);
		if (*len > 0)
			return true;
	}
	return false;
}

bool sp_text_next_pair(const char **list, struct sp_text_pair *p)
{
	const char *at;

	*p = (struct sp_text_pair){0};
	if (!sp_text_next_item(list, &p->key, &p->key_len))
		return false;
	at = memchr(p->key, '=', p->key_len);
	if (at == NULL)
		at = memchr(p->key, ':', p->key_len);
	if (at == NULL)
		return true;
	p->separator = *at;
	p->value = at + 1;
	p->value_len = p->key_len - (size_t)(p->value - p->key);
	p->key_len = (size_t)(at - p->key);
	trim(&p->key, &p->key_len);
	trim(&p->value, &p->value_len);
	return true;
}

/* The analyzer does not follow a va_list through a pointer and calls each va_arg uninitialized. */
// NOLINTBEGIN(clang-analyzer-valist.Uninitialized)

struct out {
	char *buf;
	size_t cap; /* without the byte for the NUL */
	size_t len;
};

static void put(struct out *o, char c)
{
	if (o->len < o->cap)
		o->buf[o->len++] = c;
}

static void put_number(struct out *o, uint64_t value, bool negative)
{
	char text[20];
	size_t at = sizeof(text);

	if (negative)
		put(o, '-');
	for (; value != 0 || at == sizeof(text); value /= 10)
		text[--at] = (char)('0' + value % 10);
	for (; at < sizeof(text); at++)
		put(o, text[at]);
}

/* Writes one conversion; false ends the output. */
static bool put_conversion(struct out *o, const char **fmt, va_list *args)
{
	size_t most = SIZE_MAX;
	bool is_long = false;
	const char *text;
	int64_t value;

	_Static_assert(sizeof(long) == 8 && sizeof(long long) == 8 && sizeof(size_t) == 8,
		       "one 64-bit length serves l, ll and z");
	if ((*fmt)[0] == '.' && (*fmt)[1] == '*') {
		most = (size_t)va_arg(*args, int);
		*fmt += 2;
	}
	for (; **fmt == 'l' || **fmt == 'z'; (*fmt)++)
		is_long = true;
	switch (*(*fmt)++) {
	case 'd':
		value = is_long ? va_arg(*args, long) : va_arg(*args, int);
		put_number(o, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
		return true;
	case 'u':
		put_number(o, is_long ? va_arg(*args, unsigned long) : va_arg(*args, unsigned),
			   false);
		return true;
	case 's':
		text = va_arg(*args, const char *);
		if (text == NULL)
			text = "(null)";
		/*
		 * The precision is also the bound of an array without a NUL, so it is checked
		 * first.
		 */
		for (size_t i = 0; i < most && text[i] != '\0'; i++)
			put(o, text[i]);
		return true;
	case '%':
		put(o, '%');
		return true;
	default:
		put(o, '%');
		put(o, '?');
		return false;
	}
}

// NOLINTEND(clang-analyzer-valist.Uninitialized)

size_t sp_fmt_vsnprintf(char *buf, size_t cap, const char *fmt, va_list args)
{
	struct out o = {.buf = buf, .cap = cap > 0 ? cap - 1 : 0};
	va_list own;

	if (cap == 0)
		return 0;
	va_copy(own, args);
	while (*fmt != '\0') {
		if (*fmt != '%')
			put(&o, *fmt++);
		else if (fmt++, !put_conversion(&o, &fmt, &own))
			break;
	}
	va_end(own);
	buf[o.len] = '\0';
	return o.len;
}

size_t sp_fmt_snprintf(char *buf, size_t cap, const char *fmt, ...)
{
	va_list args;
	size_t len;

	va_start(args, fmt);
	len = sp_fmt_vsnprintf(buf, cap, fmt, args);
	va_end(args);
	return len;
}
