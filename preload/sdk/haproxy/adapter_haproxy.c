/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapter for haproxytech/opentelemetry-c-wrapper (libopentelemetry-c-wrapper.so). The library
 * exports only functions that create objects; all others are called through tables of functions
 * that the objects point to. So a tracer, as soon as it was created, and each recorded span get a
 * pointer to our copy of their table; nothing else in them changes. Nothing is interpreted before
 * the library has proved to be a release whose binary interface is known.
 *
 * The SDK cannot tell which span a thread works for. One case is missed: spans that are still open
 * when the last tracer is destroyed, which ends them. APP context.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/reentrancy_guard.h"
#include "preload/lifecycle/sdk.h"
#include "preload/sdk/haproxy/haproxy_abi.h"
#include "preload/sdk/haproxy/haproxy_table.h"
#include "preload/sdk/haproxy/haproxy_versions.h"
#include "preload/sdk/span_attr.h"
#include "sampler/base/compiler.h"
#include "sampler/base/log.h"
#include "sampler/span/span.h"

/*
 * All argument registers and the whole result register, in case a function of that name has other
 * parameters.
 */
#define WORDS uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f

uintptr_t otelc_tracer_create(WORDS);
const char *otelc_version(void);

static struct sp_haproxy_table tracers;
static struct sp_haproxy_table spans;
/* The table of span contexts, of which we call one function. */
static const void *_Atomic known_contexts;

static const struct sp_haproxy_tracer_ops *tracer_ops(void)
{
	return sp_haproxy_table_own(&tracers);
}

static const struct sp_haproxy_span_ops *span_ops(void)
{
	return sp_haproxy_table_own(&spans);
}

static const void *library(void)
{
	return sp_next(SP_NEXT_otelc_tracer_create);
}

/* Before the real end: after it another thread may get the same object. */
static void set_string(void *span, const char *key, const char *value)
{
	struct sp_haproxy_kv kv;

	memset(&kv, 0, sizeof(kv));
	kv.key = key;
	kv.value.type = SP_HAPROXY_VALUE_STRING;
	kv.value.u.string = value;
	(void)span_ops()->set_attribute_kv_n(span, &kv, 1);
}

static void set_integer(void *span, const char *key, int64_t value)
{
	struct sp_haproxy_kv kv;

	memset(&kv, 0, sizeof(kv));
	kv.key = key;
	kv.value.type = SP_HAPROXY_VALUE_INT64;
	kv.value.u.integer = value;
	(void)span_ops()->set_attribute_kv_n(span, &kv, 1);
}

static const struct sp_span_attr_set attributes = {.string = set_string, .integer = set_integer};

/*
 * The real end runs outside of the reentrancy guard, because it may drop the last reference to a
 * span of another SDK, whose end counts.
 */
static void ending(struct sp_haproxy_span *const *span)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	struct sp_span_record r;
	int saved = errno;

	if (g.outermost && span != NULL && *span != NULL && sp_lifecycle_active() &&
	    sp_span_of(*span, &r)) {
		sp_span_attr_apply(&r, &attributes, *span);
		(void)sp_span_ended(*span);
	}
	errno = saved;
	sp_reentrancy_guard_leave(g);
}

static void hook_end(struct sp_haproxy_span **span)
{
	ending(span);
	span_ops()->end(span);
}

static void hook_end_with_options(struct sp_haproxy_span **span, const struct timespec *steady,
				  int status, const char *description)
{
	ending(span);
	span_ops()->end_with_options(span, steady, status, description);
}

/* A destroy without an end before it ends the span, too. */
static void hook_destroy(struct sp_haproxy_span **span)
{
	ending(span);
	span_ops()->destroy(span);
}

static void hook_set_operation_name(const struct sp_haproxy_span *span, const char *name)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	span_ops()->set_operation_name(span, name);
	/* without a name the SDK leaves the span as it is */
	if (g.outermost && span != NULL && name != NULL && *name != '\0' && sp_lifecycle_active()) {
		int saved = errno;

		(void)sp_span_renamed(span, name, strlen(name));
		errno = saved;
	}
	sp_reentrancy_guard_leave(g);
}

static const struct sp_haproxy_swap span_swaps[] = {
	{2, (const void *)hook_end},
	{3, (const void *)hook_end_with_options},
	{4, (const void *)hook_set_operation_name},
	{22, (const void *)hook_destroy},
	{0, NULL},
};

/*
 * Asked first whether the span is recorded: asking a span that does nothing for its ids would leave
 * an error message in the tracer, which the host may read.
 */
static bool span_ids(const struct sp_haproxy_span *span, struct sp_span_start *s)
{
	const struct sp_haproxy_span_ops *ops = span_ops();
	uint8_t flags = 0;

	return ops->is_recording(span) > 0 &&
	       ops->get_id(span, s->span_id, sizeof(s->span_id), s->trace_id, sizeof(s->trace_id),
			   &flags) == SP_HAPROXY_OK &&
	       (flags & SP_HAPROXY_FLAG_SAMPLED) != 0;
}

static bool context_known(const struct sp_haproxy_context *context)
{
	const void *known = atomic_load_explicit(&known_contexts, memory_order_relaxed);

	if (known == context->ops)
		return true;
	if (known != NULL ||
	    !sp_haproxy_table_ok(library(), context->ops, SP_HAPROXY_CONTEXT_SLOTS))
		return false;
	atomic_store_explicit(&known_contexts, context->ops, memory_order_relaxed);
	return true;
}

/*
 * An id that is not that of a span recorded here belongs to a remote parent; zeros mean no parent.
 */
static void parent_id(const struct sp_haproxy_span *parent,
		      const struct sp_haproxy_context *context, uint8_t id[8])
{
	struct sp_span_record r;

	if (parent != NULL && sp_span_of(parent, &r))
		memcpy(id, &r.span_id, sizeof(r.span_id));
	else if (context != NULL && context_known(context))
		(void)context->ops->get_id(context, id, 8, NULL, 0, NULL);
}

static void started(struct sp_haproxy_span *span, const char *name,
		    const struct sp_haproxy_span *parent, const struct sp_haproxy_context *context)
{
	const void *copy;
	struct sp_span_start s;

	if (!sp_lifecycle_wanted())
		return;
	copy = sp_haproxy_table_copy(&spans, library(), span->ops, SP_HAPROXY_SPAN_SLOTS,
				     span_swaps);
	memset(&s, 0, sizeof(s));
	if (copy == NULL || !span_ids(span, &s) || !sp_lifecycle_start())
		return;
	s.handle = span;
	s.how = SP_ACTIVATION_NONE;
	s.sdk = SP_SDK_HAPROXY;
	s.name = name != NULL ? name : "";
	s.name_len = strlen(s.name);
	/*
	 * Whatever is active on the thread: without a parent among its arguments the span is a
	 * root.
	 */
	s.has_parent = true;
	parent_id(parent, context, s.parent_id);
	if (sp_span_started(&s))
		span->ops = copy;
}

static struct sp_haproxy_span *hook_start(void *tracer, const char *name)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	struct sp_haproxy_span *span = tracer_ops()->start_span(tracer, name);

	if (g.outermost && span != NULL) {
		int saved = errno;

		started(span, name, NULL, NULL);
		errno = saved;
	}
	sp_reentrancy_guard_leave(g);
	return span;
}

/* NOLINTNEXTLINE(readability-function-size): the SDK's own nine parameters */
static struct sp_haproxy_span *hook_start_with_options(void *tracer, const char *name,
						       const struct sp_haproxy_span *parent,
						       const struct sp_haproxy_context *context,
						       const struct timespec *steady,
						       const struct timespec *realtime, int kind,
						       const void *links, size_t links_len)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	struct sp_haproxy_span *span = tracer_ops()->start_span_with_options(
		tracer, name, parent, context, steady, realtime, kind, links, links_len);

	if (g.outermost && span != NULL) {
		int saved = errno;

		started(span, name, parent, context);
		errno = saved;
	}
	sp_reentrancy_guard_leave(g);
	return span;
}

static const struct sp_haproxy_swap tracer_swaps[] = {
	{0, (const void *)hook_start},
	{1, (const void *)hook_start_with_options},
	{0, NULL},
};

/* The library's version text; NULL if it lacks one of the names that go with it. */
static const char *release(void)
{
	static const char *const together[] = {"otelc_version", "otelc_init", "otelc_deinit",
					       "otelc_span_context_create", NULL};
	const void *create = sp_elf_find("otelc_tracer_create", together);
	/* of the first object with all of them, as create is */
	__typeof__(&otelc_version) ask =
		(__typeof__(&otelc_version))sp_elf_find("otelc_version", together);

	return create != NULL && create == library() && ask != NULL ? ask() : NULL;
}

static void created(uintptr_t tracer)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	struct sp_haproxy_layout layout;
	const char *version = release();
	const void *copy = NULL;

	if (sp_haproxy_layout_of(version, &layout)) {
		const void **ops = (const void **)(tracer + layout.ops_offset);

		copy = sp_haproxy_table_copy(&tracers, library(), *ops, layout.tracer_slots,
					     tracer_swaps);
		if (copy != NULL)
			*ops = copy;
	}
	if (copy == NULL && !atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))
		sp_log(SP_LOG_WARN,
		       "this opentelemetry-c-wrapper (version %.32s) is none of the supported "
		       "releases, 1.0.0 to 3.3.0: not labelling its spans",
		       version != NULL ? version : "none");
}

SP_EXPORT uintptr_t otelc_tracer_create(WORDS)
{
	__typeof__(&otelc_tracer_create) next = SP_NEXT(otelc_tracer_create);
	uintptr_t tracer = next != NULL ? next(a, b, c, d, e, f) : 0;

	if (tracer != 0 && sp_lifecycle_wanted()) {
		int saved = errno;

		created(tracer);
		errno = saved;
	}
	return tracer;
}
