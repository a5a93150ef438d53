/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded text formatting for messages. Nothing here calls libc, so no lock, heap, locale or errno
 * is involved. Contexts: INIT and APP.
 */
#include "sampler/base/fmt.h"

#include <stdbool.h>
#include <stdint.h>

/* Widths beyond this are cut: no message needs them and a wrong '*' must stay harmless. */
#define WIDTH_MAX 1000

/* The analyzer does not follow a va_list through a pointer and calls each va_arg uninitialized. */
// NOLINTBEGIN(clang-analyzer-valist.Uninitialized)

struct out {
	char *buf;
	size_t cap; /* without the place of the NUL */
	size_t len;
};

struct spec {
	bool left;
	bool zero;
	bool has_precision;
	size_t width;
	size_t precision;
	char length; /* 0, 'h', 'H' (hh), 'l' (also ll, z, j, t: all 64 bits wide here) */
};

_Static_assert(sizeof(long) == 8 && sizeof(long long) == 8 && sizeof(size_t) == 8,
	       "one 64-bit length serves l, ll, z, j and t");

static void put(struct out *o, char c)
{
	if (o->len < o->cap)
		o->buf[o->len++] = c;
}

static void put_many(struct out *o, char c, size_t n)
{
	while (n-- > 0)
		put(o, c);
}

static void put_padded(struct out *o, const struct spec *s, const char *text, size_t len)
{
	size_t pad = s->width > len ? s->width - len : 0;

	if (!s->left)
		put_many(o, ' ', pad);
	for (size_t i = 0; i < len; i++)
		put(o, text[i]);
	if (s->left)
		put_many(o, ' ', pad);
}

static void put_string(struct out *o, const struct spec *s, const char *text)
{
	size_t len = 0;

	if (text == NULL)
		text = "(null)";
	/* The precision is also the bound of an unterminated array, so it is asked first. */
	while ((!s->has_precision || len < s->precision) && text[len] != '\0')
		len++;
	put_padded(o, s, text, len);
}

static void put_number(struct out *o, const struct spec *s, uint64_t value, unsigned base,
		       const char *sign_and_digits)
{
	const char *digit = sign_and_digits + 1;
	char sign = sign_and_digits[0];
	char text[32];
	size_t at = sizeof(text);
	size_t len;
	size_t zeros = 0;

	for (; value != 0 || at == sizeof(text); value /= base)
		text[--at] = digit[value % base];
	len = sizeof(text) - at;
	if (s->has_precision)
		zeros = s->precision > len ? s->precision - len : 0;
	else if (s->zero && !s->left && s->width > len + (sign != ' '))
		zeros = s->width - len - (sign != ' ');
	len += zeros + (sign != ' ');
	if (!s->left && s->width > len)
		put_many(o, ' ', s->width - len);
	if (sign != ' ')
		put(o, sign);
	put_many(o, '0', zeros);
	for (; at < sizeof(text); at++)
		put(o, text[at]);
	if (s->left && s->width > len)
		put_many(o, ' ', s->width - len);
}

static int64_t take_signed(const struct spec *s, va_list *args)
{
	if (s->length == 'l')
		return va_arg(*args, long);
	if (s->length == 'h')
		return (short)va_arg(*args, int);
	if (s->length == 'H')
		return (signed char)va_arg(*args, int);
	return va_arg(*args, int);
}

static uint64_t take_unsigned(const struct spec *s, va_list *args)
{
	if (s->length == 'l')
		return va_arg(*args, unsigned long);
	if (s->length == 'h')
		return (unsigned short)va_arg(*args, unsigned);
	if (s->length == 'H')
		return (unsigned char)va_arg(*args, unsigned);
	return va_arg(*args, unsigned);
}

static size_t take_count(const char **fmt, va_list *args, bool *negative)
{
	size_t n = 0;

	if (**fmt == '*') {
		int given = va_arg(*args, int);

		(*fmt)++;
		*negative = given < 0;
		n = given < 0 ? (size_t)(-(long)given) : (size_t)given;
	} else {
		for (; **fmt >= '0' && **fmt <= '9'; (*fmt)++)
			if (n <= WIDTH_MAX)
				n = n * 10 + (size_t)(**fmt - '0');
	}
	return n;
}

static void take_length(const char **fmt, struct spec *s)
{
	for (;; (*fmt)++) {
		switch (**fmt) {
		case 'h':
			s->length = s->length == 'h' ? 'H' : 'h';
			break;
		case 'l':
		case 'z':
		case 'j':
		case 't':
			s->length = 'l';
			break;
		default:
			return;
		}
	}
}

static void take_spec(const char **fmt, va_list *args, struct spec *s)
{
	bool negative = false;

	for (;; (*fmt)++) {
		if (**fmt == '-')
			s->left = true;
		else if (**fmt == '0')
			s->zero = true;
		else
			break;
	}
	s->width = take_count(fmt, args, &negative);
	if (negative)
		s->left = true;
	if (s->width > WIDTH_MAX)
		s->width = WIDTH_MAX;
	if (**fmt == '.') {
		(*fmt)++;
		negative = false;
		s->precision = take_count(fmt, args, &negative);
		s->has_precision = !negative;
	}
	take_length(fmt, s);
}

/* One conversion; false ends the output. */
static bool put_conversion(struct out *o, const char **fmt, va_list *args)
{
	struct spec s = {.width = 0};
	int64_t value;
	char c;

	take_spec(fmt, args, &s);
	switch (*(*fmt)++) {
	case 'd':
	case 'i':
		value = take_signed(&s, args);
		put_number(o, &s, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10,
			   value < 0 ? "-0123456789" : " 0123456789");
		return true;
	case 'u':
		put_number(o, &s, take_unsigned(&s, args), 10, " 0123456789");
		return true;
	case 'x':
		put_number(o, &s, take_unsigned(&s, args), 16, " 0123456789abcdef");
		return true;
	case 'X':
		put_number(o, &s, take_unsigned(&s, args), 16, " 0123456789ABCDEF");
		return true;
	case 'p':
		put(o, '0');
		put(o, 'x');
		put_number(o, &s, (uintptr_t)va_arg(*args, void *), 16, " 0123456789abcdef");
		return true;
	case 'c':
		c = (char)va_arg(*args, int);
		put_padded(o, &s, &c, 1);
		return true;
	case 's':
		put_string(o, &s, va_arg(*args, const char *));
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
