/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row per SDK and version of its ABI. A row's names are those its adapter asks for before it
 * touches anything: the folders of preload/sdk/. Runs
 * in spanprof-run only. Caller: check.c.
 */
#include "scripts/run/sdk.h"

#include <string.h>

#include "preload/sdk/otelcpp/otelcpp_abi.h"

#define NAMES_MAX 12U
#define ROWS (sizeof(rows) / sizeof(rows[0]))

struct row {
	const char *name;
	const char *start[3];        /* one of these starts a span */
	const char *with[NAMES_MAX]; /* and all of these are there */
	const char *vtable;          /* of its span class; NULL = a C interface */
	const char *method;          /* what is hooked */
	/* C++: names of its classes of spans and tracers, which even stripped files keep */
	const char *type[2];
	const char *obstacle; /* NULL = there is an adapter */
};

#define CPP_ROW(V)                                                                                 \
	{                                                                                          \
		.name = "opentelemetry-cpp 1.x, ABI v" V,                                          \
		.start = {SP_OTELCPP_START_NOSTD(V), SP_OTELCPP_START_STL(V)},                     \
		.with = {SP_OTELCPP_SPAN_VTABLE(V), SP_OTELCPP_TRACER_VTABLE(V)},                  \
		.vtable = SP_OTELCPP_SPAN_VTABLE(V), .method = "its virtual methods, by name",     \
		.type = {"N13opentelemetry2v" V "3sdk5trace4SpanE",                                \
			 "N13opentelemetry2v" V "3sdk5trace6TracerE"},                             \
	}

static const struct row rows[] = {
	CPP_ROW("1"),
	CPP_ROW("2"),
	{
		.name = "otap-labs/opentelemetry-c",
		.start = {"otel_tracer_start_span", "otel_tracer_start_span_ex",
			  "otel_tracer_start_span_with_context"},
		.with = {"otel_api_register_global_provider", "otel_tracer_provider_get_tracer",
			 "otel_version_string", "otel_span_get_context",
			 "otel_span_context_trace_id", "otel_span_context_span_id",
			 "otel_span_context_trace_flags", "otel_span_context_destroy",
			 "otel_span_set_string_attribute"},
		.method = "its functions, by name",
	},
	{
		.name = "otap-labs/opentelemetry-c from before August 2026",
		.start = {"otel_tracer_start_span"},
		.with = {"otel_api_register_global_provider", "otel_tracer_provider_get_tracer",
			 "otel_version_string"},
		.obstacle = "it cannot tell the ids of a span; newer releases can",
	},
};

/* What of a row one symbol table has; bit NAMES_MAX stands for any of the starts. */
struct seen {
	uint32_t exported[ROWS];
	uint32_t local[ROWS];
	bool imports_getenv;
	bool exports_getenv;
};

#define STARTS (1U << NAMES_MAX)

static uint32_t wanted(const struct row *r)
{
	uint32_t bits = STARTS;

	for (unsigned i = 0; i < NAMES_MAX && r->with[i] != NULL; i++)
		bits |= 1U << i;
	return bits;
}

static uint32_t bits_of(const struct row *r, const char *name)
{
	for (unsigned i = 0; i < sizeof(r->start) / sizeof(r->start[0]); i++)
		if (r->start[i] != NULL && strcmp(r->start[i], name) == 0)
			return STARTS;
	for (unsigned i = 0; i < NAMES_MAX && r->with[i] != NULL; i++)
		if (strcmp(r->with[i], name) == 0)
			return 1U << i;
	return 0;
}

static bool exported(const Elf64_Sym *s)
{
	unsigned char binding = ELF64_ST_BIND(s->st_info);
	unsigned char visibility = ELF64_ST_VISIBILITY(s->st_other);

	return (binding == STB_GLOBAL || binding == STB_WEAK) &&
	       (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

static void look_for_variable(void *arg, const char *name, const Elf64_Sym *s)
{
	if (ELF64_ST_TYPE(s->st_info) == STT_TLS && s->st_shndx != SHN_UNDEF && exported(s) &&
	    strcmp(name, "otel_thread_ctx_v1") == 0)
		*(bool *)arg = true;
}

bool sp_sdk_publishes(const struct sp_elf *f)
{
	bool found = false;

	(void)sp_elf_symbols(f, SHT_DYNSYM, look_for_variable, &found);
	return found;
}

static void look_at_getenv(struct seen *seen, const char *name, const Elf64_Sym *s)
{
	if (strcmp(name, "getenv") != 0)
		return;
	if (s->st_shndx == SHN_UNDEF)
		seen->imports_getenv = true;
	else
		seen->exports_getenv = exported(s);
}

static void look_at(struct seen *seen, const char *name, const Elf64_Sym *s, bool in_dynsym)
{
	/* All our names begin so; a table may have a million others. */
	if (s->st_shndx == SHN_UNDEF || (strncmp(name, "otel", 4) != 0 && name[0] != '_'))
		return;
	for (size_t i = 0; i < ROWS; i++) {
		uint32_t bits = bits_of(&rows[i], name);

		if (in_dynsym && exported(s))
			seen->exported[i] |= bits;
		else
			seen->local[i] |= bits;
	}
}

static void in_dynsym(void *arg, const char *name, const Elf64_Sym *s)
{
	look_at_getenv(arg, name, s);
	look_at(arg, name, s, true);
}

static void in_symtab(void *arg, const char *name, const Elf64_Sym *s)
{
	look_at(arg, name, s, false);
}

static bool complete(uint32_t bits, const struct row *r)
{
	return (bits & wanted(r)) == wanted(r);
}

static bool has_types(const struct sp_elf *f, const struct row *r)
{
	return r->type[0] != NULL && sp_elf_has_string(f, r->type[0]) &&
	       sp_elf_has_string(f, r->type[1]);
}

/*
 * It is built for the standard library's types (an "STL build"), and by libc++: shared pointers of libc++ are not
 * read. An SDK with its own shared pointers (nostd) also has the name of a class inside of them, in each file that
 * starts spans.
 */
static bool has_shared_pointers_of_libcxx(const struct sp_elf *f)
{
	return sp_elf_has_text(f, "NSt3__1") && !sp_elf_has_text(f, "nostd10shared_ptrI");
}

static const char of_libcxx[] =
	"it is built with libc++ and for the standard library's shared pointers (WITH_STL), "
	"and those of libc++ are not read";

/*
 * For an SDK whose vtables have no symbols: adapter_otelcpp_types.h. False when it is not hooked. Relative vtables (an
 * experiment of clang's), which the adapter refuses, cannot be seen here.
 */
static bool method_by_type(const struct sp_elf *f, const struct sp_sdk_place *place,
			   const struct seen *seen, const struct row *r, const char **how)
{
	*how = "its virtual methods, found by run-time type information";
	if (r->type[0] == NULL)
		*how = "it is linked in with hidden symbols: there is nothing to hook";
	else if (!has_types(f, r))
		*how = "it is linked in with hidden symbols, and without the run-time type "
		       "information (-fno-rtti) by which it could be found";
	else if (has_shared_pointers_of_libcxx(f))
		*how = of_libcxx;
	else if (place->own_getenv)
		*how = "the program has a getenv of its own, so its SDK is not noticed";
	else if (!seen->imports_getenv)
		*how = "it never calls getenv, so its SDK is not noticed";
	else if (sp_elf_constants_in_code(f))
		*how = "its vtables are in one segment with the code and cannot be changed "
		       "(link it position-independent, or with -z separate-code)";
	else
		return true;
	return false;
}

/* How the calls of an exported SDK come by our hooks. False when they do not. */
static bool method(const struct sp_elf *f, const struct sp_sdk_place *place,
		   const struct seen *seen, size_t i, const char **how)
{
	const struct row *r = &rows[i];

	*how = r->method;
	if (r->obstacle != NULL) {
		*how = r->obstacle;
		return false;
	}
	if (place->is_program && r->vtable != NULL)
		return method_by_type(f, place, seen, r, how);
	if (r->vtable != NULL && has_shared_pointers_of_libcxx(f)) {
		*how = of_libcxx;
		return false;
	}
	if (place->is_program) {
		*how = "it is linked into the program, whose calls are bound inside it";
		return false;
	}
	return true;
}

bool sp_sdk_is_opentelemetry(const struct sp_elf *f)
{
	return sp_elf_has_text(f, "OTEL_RESOURCE_ATTRIBUTES");
}

size_t sp_sdk_look(const struct sp_elf *f, struct sp_sdk_place *place, struct sp_sdk_found *found,
		   size_t max)
{
	struct seen seen;
	size_t n = 0;

	memset(&seen, 0, sizeof(seen));
	(void)sp_elf_symbols(f, SHT_DYNSYM, in_dynsym, &seen);
	(void)sp_elf_symbols(f, SHT_SYMTAB, in_symtab, &seen);
	if (place->is_program)
		place->own_getenv = seen.exports_getenv;
	for (size_t i = 0; i < ROWS && n < max; i++) {
		const struct row *r = &rows[i];
		struct sp_sdk_found *out = &found[n];

		out->name = r->name;
		out->state = SP_SDK_KNOWN;
		if (complete(seen.exported[i], r)) {
			if (method(f, place, &seen, i, &out->how))
				out->state = SP_SDK_HOOKED;
			/* An older release is a part of a newer one. */
			if (r->obstacle == NULL || n == 0)
				n++;
		} else if (complete(seen.exported[i] | seen.local[i], r) || has_types(f, r)) {
			if (method_by_type(f, place, &seen, r, &out->how))
				out->state = SP_SDK_HOOKED;
			n += r->obstacle == NULL || n == 0;
		}
	}
	return n;
}
