/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libopentelemetry_c_api.so as the adapter uses it (adapter_otelc_sdk.h). Which copy, and then what it
 * is asked about spans and contexts; its last error, which these questions would change, is preserved.
 * APP context.
 *
 * Plugins that are opened with RTLD_LOCAL may each bring a copy of the SDK, with code and handles of its
 * own. We are in the global scope, so the calls of all of them come to us, and a handle of one copy in the
 * code of another would break the program. So one copy is labelled, and what the loader bound to us in
 * objects that use another one is bound to that one's functions, as it would be without us; its calls do
 * not come here any more. Where an object cannot be changed now, its calls are handed on by their caller.
 * All objects are looked through again whenever one was loaded since.
 *
 * A copy that the program needs comes first for every object, whatever is loaded later.
 */
#define _GNU_SOURCE
#include "preload/sdk/otelc/adapter_otelc_sdk.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/sdk/otelc/otelc_abi.h"
#include "sampler/base/log.h"
#include "sampler/base/try_lock.h"

#define COPIES_MAX 8U
#define ERROR_MAX 256U

/* The functions without which we cannot label, and those that the SDK has had from the first. */
static const char *const known[] = {"otel_api_register_global_provider",
				    "otel_tracer_provider_get_tracer",
				    "otel_version_string",
				    "otel_span_get_context",
				    "otel_span_context_trace_id",
				    "otel_span_context_span_id",
				    "otel_span_context_trace_flags",
				    "otel_span_context_destroy",
				    "otel_span_set_string_attribute",
				    NULL};
static const char *const old[] = {"otel_api_register_global_provider",
				  "otel_tracer_provider_get_tracer", "otel_version_string", NULL};

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/*
 * The copy. Where no object is this SDK, it is the one that defines the function that was called. Written
 * under the lock, and only while no call belongs to it: it is unloaded, or it is not this SDK.
 */
static struct {
	_Atomic unsigned long long
		adds; /* objects ever loaded, when all were looked through; 0 = again */
	_Atomic bool for_good;
	_Atomic bool is_known;
	struct sp_elf_range object;
	void *_Atomic fn[SP_NEXT_SDK_N];
} copy;
static struct sp_try_lock busy;

/* Of a look through all objects. */
static struct sp_elf_range own;
static struct sp_elf_range global;
static bool has_others;

/*
 * The definition in the global scope after ours. Only the loader can tell. The failure of a look-up
 * would replace an error that waits for the host's dlerror(), so a waiting error is put back, as a
 * part of one of the same kind. Not in a walk over the objects: the loader's locks have an order.
 */
static void *in_global_scope(const char *name)
{
	__typeof__(&dlsym) look = SP_NEXT(dlsym);
	__typeof__(&dlerror) error = SP_NEXT(dlerror);
	char text[ERROR_MAX] = "";
	const char *waiting;
	void *found;

	if (look == NULL || error == NULL)
		return NULL;
	waiting = error();
	if (waiting != NULL)
		(void)strncpy(text, waiting, sizeof(text) - 1);
	found = look(RTLD_NEXT, name);
	(void)error();
	if (waiting != NULL)
		(void)look(RTLD_NEXT, text);
	return found;
}

/* The order of the loader: first the global scope, then what the caller's object needs. */
static void *reached(const char *name, const void *caller)
{
	void *found[COPIES_MAX];
	unsigned n = sp_elf_find_all(name, found, COPIES_MAX);
	void *p = global.size != 0 ? sp_elf_find_in(&global, name) : NULL;

	if (n <= 1)
		return n == 1 ? found[0] : NULL;
	for (unsigned i = 0; p == NULL && i < n && i < COPIES_MAX; i++) {
		struct sp_elf_range object = sp_elf_object_at(found[i]);

		if (sp_elf_needs(caller, &object))
			p = found[i];
	}
	return p;
}

static const void *choose(const struct sp_elf_range *importer, const char *name, const void *now,
			  bool lazy)
{
	const void *ours = strncmp(name, "otel_", 5) == 0 ? sp_elf_find_in(&own, name) : NULL;
	const void *p;

	if (ours == NULL || (!lazy && now != ours))
		return NULL;
	p = reached(name, (const void *)importer->start);
	if (p == NULL || sp_elf_within(&copy.object, p))
		return NULL;
	has_others = true;
	return p;
}

static void take(enum sp_next which)
{
	void *p = sp_elf_find(known[0], known);
	void *found[SP_NEXT_SDK_N] = {NULL};

	atomic_store_explicit(&copy.is_known, p != NULL, memory_order_relaxed);
	if (p == NULL)
		p = sp_resolve(sp_next_name(which));
	copy.object = sp_elf_object_at(p);
	/*
	 * All at once: a child that is forked while another thread has the loader's lock could never look for
	 * one. A copy may be spread over several objects.
	 */
	sp_next_sdk(&copy.object, found);
	for (unsigned i = 0; i < SP_NEXT_SDK_N; i++)
		atomic_store_explicit(&copy.fn[i], found[i], memory_order_relaxed);
}

static void tell(enum sp_next which)
{
	static bool told_other;
	static bool told_old;
	bool is_known = atomic_load_explicit(&copy.is_known, memory_order_relaxed);

	if (!sp_lifecycle_wanted())
		return;
	if (is_known && has_others && !told_other) {
		told_other = true;
		sp_log(SP_LOG_WARN, "another copy of libopentelemetry_c_api.so is in this process: "
				    "not labelling its spans");
	}
	if (!is_known && !told_old &&
	    sp_elf_belongs(sp_next_name(which), sp_elf_find_in(&copy.object, sp_next_name(which)),
			   old)) {
		told_old = true;
		sp_log(SP_LOG_WARN, "this libopentelemetry_c_api.so cannot tell the ids of a span: "
				    "not labelling its spans; use a release since August 2026");
	}
}

/* Under the lock. */
static void look_through(enum sp_next which)
{
	unsigned long long adds = sp_elf_adds();
	const char *name = sp_next_name(which);
	void *found[COPIES_MAX];
	bool is_known = atomic_load_explicit(&copy.is_known, memory_order_relaxed);

	if (!is_known || !sp_elf_alive(&copy.object)) {
		take(which);
		is_known = atomic_load_explicit(&copy.is_known, memory_order_relaxed);
	}
	if (is_known && copy.object.permanent &&
	    sp_elf_needs((const void *)getauxval(AT_PHDR), &copy.object)) {
		atomic_store_explicit(&copy.for_good, true, memory_order_release);
		return;
	}
	own = sp_elf_object_at(__ehdr_start);
	global.size = 0;
	if (sp_elf_find_all(name, found, COPIES_MAX) > 1)
		global = sp_elf_object_at(in_global_scope(name));
	/* pairs with sp_otelc_next() */
	atomic_store_explicit(&copy.adds, sp_relocations_visit(choose) ? adds : 0,
			      memory_order_release);
	tell(which);
}

void *sp_otelc_fn(enum sp_next which)
{
	return atomic_load_explicit(&copy.fn[which], memory_order_relaxed);
}

void *sp_otelc_next(enum sp_next which, const void *caller, bool *labelled)
{
	unsigned long long adds = atomic_load_explicit(&copy.adds, memory_order_acquire);
	void *p = NULL;

	if (!atomic_load_explicit(&copy.for_good, memory_order_acquire) &&
	    (adds == 0 || adds != sp_elf_adds())) {
		if (sp_try_lock(&busy)) {
			look_through(which);
			sp_unlock(&busy);
		}
		p = reached(sp_next_name(which), caller);
	}
	if (p == NULL)
		p = sp_otelc_fn(which);
	/* Only an object that was loaded later has it. */
	if (p == NULL)
		p = sp_next(which);
	/* other libraries have functions of these names, too */
	*labelled = atomic_load_explicit(&copy.is_known, memory_order_relaxed) &&
		    sp_elf_within(&copy.object, p);
	return p;
}

bool sp_otelc_is_labelled(enum sp_next which, const void *function)
{
	bool labelled;

	return sp_otelc_next(which, function, &labelled) == function && labelled;
}

#define REAL(sym) ((__typeof__(&(sym)))sp_otelc_fn(SP_NEXT_##sym))

/*
 * A successful start or attach leaves no last error, so neither may the calls that we make after
 * it.
 */
static void clear_error(void)
{
	__typeof__(&otel_api_clear_last_error) clear = REAL(otel_api_clear_last_error);

	if (clear != NULL)
		clear();
}

static bool context_ids(const void *context, struct sp_otelc_ids *out)
{
	return REAL(otel_span_context_trace_id)(context, out->trace_id) == SP_OTELC_OK &&
	       REAL(otel_span_context_span_id)(context, out->span_id) == SP_OTELC_OK &&
	       REAL(otel_span_context_trace_flags)(context, &out->flags) == SP_OTELC_OK;
}

bool sp_otelc_span_ids(const void *span, struct sp_otelc_ids *out)
{
	void *context = NULL;
	bool ok = REAL(otel_span_get_context)(span, &context) == SP_OTELC_OK && context != NULL &&
		  context_ids(context, out);

	if (context != NULL)
		REAL(otel_span_context_destroy)(context);
	if (!ok)
		clear_error();
	return ok;
}

bool sp_otelc_context_span(const void *context, uint8_t id[8])
{
	__typeof__(&otel_context_span_context) get = REAL(otel_context_span_context);
	void *span = get != NULL ? get(context) : NULL;
	bool ok = span != NULL && REAL(otel_span_context_span_id)(span, id) == SP_OTELC_OK;

	if (span != NULL)
		REAL(otel_span_context_destroy)(span);
	return ok;
}

void sp_otelc_ambient_span(uint8_t id[8])
{
	__typeof__(&otel_context_current) current = REAL(otel_context_current);
	__typeof__(&otel_context_destroy) destroy = REAL(otel_context_destroy);
	void *context = current != NULL && destroy != NULL ? current() : NULL;

	if (context == NULL)
		return;
	(void)sp_otelc_context_span(context, id);
	destroy(context);
}

void sp_otelc_error_save(struct sp_otelc_error *error)
{
	__typeof__(&otel_last_error_message) get = REAL(otel_last_error_message);
	struct sp_otelc_view view = {NULL, 0};

	if (get != NULL && REAL(otel_api_set_last_error) != NULL)
		view = get();
	error->is_set = view.ptr != NULL;
	error->len = view.len < sizeof(error->text) ? view.len : sizeof(error->text);
	if (error->is_set)
		memcpy(error->text, view.ptr, error->len);
}

void sp_otelc_error_restore(const struct sp_otelc_error *error)
{
	if (error->is_set)
		REAL(otel_api_set_last_error)(error->text, error->len);
	else
		clear_error();
}
