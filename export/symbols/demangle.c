/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names are demangled by libiberty, linked statically. __cxa_demangle would need libstdc++, and libiberty
 * demangles Rust as well. Only cp-demangle.o and rust-demangle.o of the archive are used; they
 * never call exit(), and their licence permits linking without restriction.
 *
 * The demangler keeps several times the symbol's length on the stack, and calls itself for each character of some
 * symbols. So symbols of more than SP_SHORT bytes are demangled on a separate stack, which is mapped for that time.
 * Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/symbols/demangle.h"

#include <inttypes.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "export/util/containers.h"
#include "sampler/base/text.h"

#define SP_SHORT ((size_t)1024)
/* Enough for SP_MANGLED_MAX bytes; unused parts cost only addresses. */
#define SP_STACK_BYTES ((size_t)32 << 20)
#define SP_GUARD_BYTES ((size_t)64 << 10)
/* More than a real name of SP_SHORT bytes needs. */
#define SP_DEMANGLED_MAX ((size_t)64 << 10)

/*
 * The output so far. A few bytes of a mangled name can mean gigabytes of readable text, so longjmp() leaves the
 * demangler when there is too much. The demangler holds no memory then, except for a Rust identifier in punycode: a
 * name that was made for this leaks up to 4 KiB.
 */
struct text {
	jmp_buf enough;
	char symbol[SP_MANGLED_MAX + 1];
	ucontext_t back;
	bool is_cut;
	size_t len; /* length of the demangled text; 0 = not demangled */
	char bytes[SP_DEMANGLED_MAX];
};

static void take(const char *part, size_t len, void *arg)
{
	struct text *t = arg;

	if (len > sizeof(t->bytes) - t->len) {
		t->is_cut = true;
		longjmp(t->enough, 1); // NOLINT(cert-err52-cpp)
	}
	/* The Rust demangler passes a null pointer for an empty name. */
	if (len != 0)
		memcpy(t->bytes + t->len, part, len);
	t->len += len;
}

/*
 * Whether a symbol may be a Rust name: "_R", or the older "_ZN" with "17h", 16 hex digits and "E"
 * at its end, perhaps followed by "." and more.
 */
static bool looks_rust(const char *symbol)
{
	const char *hash = strstr(symbol, "17h");

	if (strncmp(symbol, "_R", 2) == 0)
		return true;
	for (; hash != NULL; hash = strstr(hash + 1, "17h"))
		if (strspn(hash + 3, "0123456789abcdef") == 16 && hash[19] == 'E' &&
		    (hash[20] == '\0' || hash[20] == '.'))
			return true;
	return false;
}

/*
 * A Rust name can say how many lifetimes the type of a function, or of a trait object, binds: "G", a number of base
 * 62 and "_". The demangler counts to that number, even if it prints nothing and so take() cannot stop it. No
 * compiler writes more than two digits.
 */
static bool binds_without_end(const char *symbol)
{
	static const char digit[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	for (const char *at = symbol + 2; (at = strchr(at, 'G')) != NULL; at++) {
		size_t digits = strspn(at + 1, digit);

		if ((at[-1] == 'F' || at[-1] == 'D') && digits > 2 && at[1 + digits] == '_')
			return true;
	}
	return false;
}

/*
 * Template arguments stay. Function parameters are left out: they lengthen a flame graph, and the
 * raw symbol distinguishes overloads.
 */
static void demangle(struct text *t)
{
	const int flags = DMGL_ANSI | DMGL_NO_RECURSE_LIMIT;

	if (t->symbol[1] == 'R' && binds_without_end(t->symbol))
		return;
	if (setjmp(t->enough) != 0) // NOLINT(cert-err52-cpp)
		return;
	if (looks_rust(t->symbol) && rust_demangle_callback(t->symbol, 0, take, t) != 0)
		return;
	t->len = 0;
	if (strncmp(t->symbol, "_Z", 2) != 0 ||
	    cplus_demangle_v3_callback(t->symbol, flags, take, t) == 0)
		t->len = 0;
}

/* The two halves of a pointer, because makecontext() passes arguments of type int. */
static void demangle_there(unsigned high, unsigned low)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	struct text *t = (struct text *)(uintptr_t)((uint64_t)high << 32 | low);

	demangle(t);
	(void)setcontext(&t->back);
}

static void demangle_on_own_stack(struct text *t)
{
	char *stack = mmap(NULL, SP_STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	ucontext_t there;

	if (stack == MAP_FAILED)
		return;
	if (mprotect(stack, SP_GUARD_BYTES, PROT_NONE) == 0 && getcontext(&there) == 0) {
		there.uc_stack.ss_sp = stack + SP_GUARD_BYTES;
		there.uc_stack.ss_size = SP_STACK_BYTES - SP_GUARD_BYTES;
		there.uc_link = NULL;
		makecontext(&there, (void (*)(void))demangle_there, 2,
			    (unsigned)((uintptr_t)t >> 32), (unsigned)(uintptr_t)t);
		(void)swapcontext(&t->back, &there);
	}
	(void)munmap(stack, SP_STACK_BYTES);
}

static size_t shorten(const char *text, size_t len, uint64_t hash, char *out, size_t most)
{
	const size_t tail = most / 4;
	size_t from = len - tail;
	size_t n;

	/* The cut must not be in the middle of a character. */
	while (from < len && ((unsigned char)text[from] & 0xc0) == 0x80)
		from++;
	n = sp_text_clean(out, most - tail - strlen("[...01234567...]"), text, len);
	n += (size_t)sprintf(out + n, "[...%08" PRIx32 "...]", (uint32_t)hash);
	n += sp_text_clean(out + n, tail, text + from, len - from);
	out[n] = '\0';
	return n;
}

size_t sp_shorten(const char *text, size_t len, char *out, size_t most)
{
	size_t n;

	if (len > most)
		return shorten(text, len, sp_hash_add_bytes(0, text, len), out, most);
	n = sp_text_clean(out, most, text, len);
	out[n] = '\0';
	return n;
}

/*
 * Copies a symbol without the text from an "@" on, which is not part of the mangled name. NULL when
 * out of memory; free() it.
 */
static struct text *read_symbol(const char *symbol)
{
	const size_t len = strcspn(symbol, "@");
	const size_t behind = strlen(symbol + len);
	struct text *t = malloc(sizeof(*t));

	if (t == NULL)
		return NULL;
	t->len = 0;
	t->is_cut = false;
	memcpy(t->symbol, symbol, len);
	t->symbol[len] = '\0';
	if (len <= SP_SHORT)
		demangle(t);
	else
		demangle_on_own_stack(t);
	if (t->len != 0 && !t->is_cut && behind <= sizeof(t->bytes) - t->len) {
		memcpy(t->bytes + t->len, symbol + len, behind);
		t->len += behind;
	}
	return t;
}

size_t sp_demangle(const char *symbol, char out[SP_FUNCTION_NAME_MAX + 1])
{
	const size_t len = strlen(symbol);
	struct text *t = NULL;
	size_t n;

	if (symbol[0] == '_' && (symbol[1] == 'Z' || symbol[1] == 'R') && len <= SP_MANGLED_MAX)
		t = read_symbol(symbol);
	if (t == NULL || t->len == 0)
		n = sp_shorten(symbol, len, out, SP_FUNCTION_NAME_MAX);
	else if (t->is_cut)
		n = shorten(t->bytes, t->len, sp_hash_add_bytes(0, symbol, len), out,
			    SP_FUNCTION_NAME_MAX);
	else
		n = sp_shorten(t->bytes, t->len, out, SP_FUNCTION_NAME_MAX);
	free(t);
	return n;
}
