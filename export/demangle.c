/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling by libiberty's cp-demangle, linked statically: __cxa_demangle would make libstdc++ a
 * dependency of every host, and is not found in the global scope of a C host whose C++ plugin was
 * loaded with RTLD_LOCAL. Of the archive only cp-demangle.o is taken; it needs malloc and string
 * functions and never exits, and its licence permits linking without restriction. Context: BG.
 * Caller: symbolize.c.
 */
#include "export/demangle.h"

#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

#include "export/utf8.h"

/* The demangler keeps several times the symbol's length on the stack. */
#define SP_SYMBOL_DEMANGLED_MAX 1024U

/* Legacy Rust symbols end in "::h" and 16 hex digits, which change with every build. */
static size_t without_rust_hash(const char *name, size_t len)
{
	const size_t tail = 19;

	if (len <= tail || strncmp(name + len - tail, "::h", 3) != 0)
		return len;
	return strspn(name + len - 16, "0123456789abcdef") == 16 ? len - tail : len;
}

size_t sp_demangle(const char *symbol, char out[SP_FUNCTION_NAME_MAX + 1])
{
	size_t len = strlen(symbol);
	char *readable = NULL;
	size_t n;

	/* Template arguments stay, function parameters go: they only lengthen a flame graph, and
	 * the raw symbol tells overloads apart. */
	if (symbol[0] == '_' && symbol[1] == 'Z' && len <= SP_SYMBOL_DEMANGLED_MAX)
		readable = cplus_demangle_v3(symbol, DMGL_ANSI);
	if (readable != NULL) {
		symbol = readable;
		len = without_rust_hash(readable, strlen(readable));
	}
	n = sp_utf8_clean(out, SP_FUNCTION_NAME_MAX, symbol, len);
	out[n] = '\0';
	free(readable);
	return n;
}
