/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for SDKs that do not exist, as feature probes do, and calls the functions that it finds: before the shared
 * objects' constructors, from main(), and after the preloaded objects' destructors.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "test/hosts/host.h"

typedef uintptr_t any_fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

/* Functions without a result are only called. */
static const struct {
	const char *name;
	int has_result;
} probes[] = {
	{"otel_tracer_start_span", 1},    {"otel_tracer_start_span_with_context", 1},
	{"otel_tracer_start_span_ex", 1}, {"otel_span_end", 1},
	{"otel_span_destroy", 0},         {"otel_context_attach", 1},
	{"otel_context_scope_detach", 1},
};

static char space[256];

static void probe(const char *when, uintptr_t argument)
{
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		any_fn *fn = (any_fn *)dlsym(RTLD_DEFAULT, probes[i].name);
		uintptr_t result;

		if (fn == NULL) {
			(void)dlerror();
			continue;
		}
		errno = 4711;
		result = fn(argument, argument, 0, 0, 0, 0);
		fprintf(stderr, "%s %s: %d, errno %d\n", when, probes[i].name,
			probes[i].has_result ? (int)(uint32_t)result : 0, errno);
	}
}

#if defined(ABSENT_LIBRARY)
/* The loader runs the destructors of the program and of preloaded objects before those of others. */
__attribute__((destructor)) static void last(void)
{
	probe("last", 0);
	probe("last", (uintptr_t)space);
}
#else
/* The program's own initializers run before all initializers of shared objects. */
static void first(void)
{
	probe("first", 0);
	probe("first", (uintptr_t)space);
}

__attribute__((section(".preinit_array"), used)) static void (*run_first)(void) = first;

int main(void)
{
	probe("main", 0);
	probe("main", (uintptr_t)space);
	return 24;
}
#endif
