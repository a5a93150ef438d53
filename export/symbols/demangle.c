/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangles by libiberty, linked statically. __cxa_demangle would need libstdc++, and libiberty
 * demangles Rust as well. Only cp-demangle.o and rust-demangle.o of the archive are used; they
 * never call exit(), and their licence permits linking without restriction. Context: the exporter.
 */
#include "export/symbols/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include "sampler/base/text.h"

/* The demangler keeps several times the symbol's length on the stack. */
#define SP_SYMBOL_DEMANGLED_MAX 1024U

/* More than a real name of that length needs. */
#define SP_DEMANGLED_MAX ((size_t)64 << 10)

/*
 * The output so far. A few bytes of a mangled name can stand for gigabytes of readable text, so the
 * demangler is left by longjmp() when there is far more than can be kept. It holds no memory then,
 * except for a Rust identifier in punycode: up to 4 KiB are lost for a name that was made for this.
 */
struct text {
	jmp_buf enough;
	size_t total;
	size_t len;
	char bytes[SP_FUNCTION_NAME_MAX + 64];
};

static void take(const char *part, size_t len, void *arg)
{
	struct text *t = arg;
	size_t room = sizeof(t->bytes) - t->len;

	/* The Rust demangler passes a null pointer for an empty name. */
	if (len != 0)
		memcpy(t->bytes + t->len, part, len < room ? len : room);
	t->len += len < room ? len : room;
	t->total += len;
	if (t->total > SP_DEMANGLED_MAX)
		longjmp(t->enough, 1); // NOLINT(cert-err52-cpp)
}

/* "_R", or the older "_ZN ... 17h and 16 hex digits and E". */
static bool looks_rust(const char *symbol, size_t len)
{
	return strncmp(symbol, "_R", 2) == 0 ||
	       (len > 24 && symbol[len - 1] == 'E' && strncmp(symbol + len - 20, "17h", 3) == 0 &&
		strspn(symbol + len - 17, "0123456789abcdef") == 16);
}

/*
 * Template arguments stay. Function parameters are left out: they lengthen a flame graph, and the
 * raw symbol distinguishes overloads.
 */
static void demangle(const char *symbol, size_t len, struct text *t)
{
	if (setjmp(t->enough) != 0) // NOLINT(cert-err52-cpp)
		return;
	if (looks_rust(symbol, len) && rust_demangle_callback(symbol, 0, take, t) != 0)
		return;
	t->len = 0;
	if (strncmp(symbol, "_Z", 2) != 0 ||
	    cplus_demangle_v3_callback(symbol, DMGL_ANSI, take, t) == 0)
		t->len = 0;
}

size_t sp_demangle(const char *symbol, char out[SP_FUNCTION_NAME_MAX + 1])
{
	size_t len = strlen(symbol);
	struct text t;
	size_t n;

	t.len = 0;
	t.total = 0;
	if (symbol[0] == '_' && (symbol[1] == 'Z' || symbol[1] == 'R') &&
	    len <= SP_SYMBOL_DEMANGLED_MAX)
		demangle(symbol, len, &t);
	n = t.len != 0 ? sp_text_clean(out, SP_FUNCTION_NAME_MAX, t.bytes, t.len)
		       : sp_text_clean(out, SP_FUNCTION_NAME_MAX, symbol, len);
	out[n] = '\0';
	return n;
}
