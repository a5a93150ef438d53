/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapter for the C wrapper dorsal-lab/opentelemetry-c (SONAME libopentelemetry-c.so.1). Starting a
 * span makes it current on the calling thread; ending it also frees it. ABI: its header
 * include/opentelemetry_c/opentelemetry_c.h at a09fa39. It has no version query, so the object that
 * defines the functions must also define two more of its names before any argument is interpreted.
 * APP context.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/reentrancy_guard.h"
#include "preload/lifecycle/sdk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_attr.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_inner.h"
#include "preload/sdk/sdk_instances.h"
#include "preload/sdk/span_attr.h"
#include "preload/sdk/traceparent.h"
#include "sampler/base/compiler.h"
#include "sampler/span/span.h"

void *otelc_start_span(void *tracer, const char *name, int kind, const char *remote_context);
void otelc_end_span(void *span);
char *otelc_extract_context_from_current_span(void *span);
void *otelc_create_attr_map(void);
void otelc_set_str_attr(void *map, const char *key, const char *value);
void otelc_set_int64_t_attr(void *map, const char *key, int64_t value);
void otelc_set_span_attrs(void *span, void *map);
void otelc_destroy_attr_map(void *map);

static struct sp_sdk_instances instances;
/* The instance that the current call belongs to. */
static SP_TLS struct sp_sdk_instance *instance;

#define REAL(sym) ((__typeof__(&(sym)))sp_sdk_instance_fn(instance, SP_NEXT_##sym))

/*
 * Whether the SDK really is this one; decided once for each instance, and tried again as long as it
 * is not.
 */
static bool known_sdk(void)
{
	static const char *const together[] = {"otelc_init_tracer_provider",
					       "otelc_extract_context_from_current_span", NULL};
	_Atomic int *known;

	if (instance == NULL)
		return false;
	known = &instance->verdict[SP_NEXT_otelc_start_span];
	if (atomic_load_explicit(known, memory_order_relaxed) != 0)
		return true;
	if (!sp_elf_belongs("otelc_start_span",
			    sp_sdk_instance_fn(instance, SP_NEXT_otelc_start_span), together))
		return false;
	atomic_store_explicit(known, 1, memory_order_relaxed);
	return true;
}

/* "N <klen> <key> <vlen> <value> ..." with W3C's traceparent among the pairs. */
static bool context_ids(const char *context, struct sp_traceparent *out)
{
	const char *at = context != NULL ? strstr(context, "00-") : NULL;

	for (; at != NULL; at = strstr(at + 1, "00-")) {
		if (sp_traceparent_parse(at, out))
			return true;
	}
	return false;
}

/* Asks the SDK's propagator. */
static bool asked_ids(void *span, struct sp_traceparent *out)
{
	__typeof__(&otelc_extract_context_from_current_span) extract =
		REAL(otelc_extract_context_from_current_span);
	char *context = extract != NULL ? extract(span) : NULL;
	bool ok = context_ids(context, out);

	/* made with new char[]; the SDK's own examples give it to free() */
	free(context);
	return ok;
}

/*
 * Its handles are struct SpanAndContext {shared_ptr<Span> span; ...}. If opentelemetry-cpp is a
 * library of its own and the span is of a class that we know, the ids are read there instead of
 * asking the propagator.
 */
static struct sp_otelcpp_handles handles;

static void inner_ids(struct sp_traceparent *out)
{
	struct sp_otelcpp_ids ids;

	sp_otelcpp_own_ids(sp_otelcpp_inner.sdk, sp_otelcpp_inner.span, &ids);
	memcpy(out->trace_id, ids.trace_id, sizeof(out->trace_id));
	memcpy(out->span_id, ids.span_id, sizeof(out->span_id));
	out->sampled = (ids.flags & SP_OTELCPP_FLAG_SAMPLED) != 0;
}

static bool span_ids(void *span, struct sp_traceparent *out)
{
	if (sp_otelcpp_inner.sdk != NULL) {
		if (sp_otelcpp_inner.span == NULL)
			return false;
		if (sp_otelcpp_inner_proven(&handles, span)) {
			inner_ids(out);
			return true;
		}
	}
	return asked_ids(span, out);
}

static void started(void *span, const char *name, const char *remote_context)
{
	struct sp_traceparent own;
	struct sp_traceparent parent;
	struct sp_span_start s;

	if (!sp_lifecycle_wanted() || !known_sdk() || !span_ids(span, &own) || !own.sampled ||
	    !sp_lifecycle_start())
		return;
	memset(&s, 0, sizeof(s));
	s.handle = span;
	s.how = SP_ACTIVATION_START;
	s.sdk = SP_SDK_DORSAL;
	s.name = name != NULL ? name : "";
	s.name_len = strlen(s.name);
	memcpy(s.span_id, own.span_id, sizeof(s.span_id));
	memcpy(s.trace_id, own.trace_id, sizeof(s.trace_id));
	if (remote_context != NULL && context_ids(remote_context, &parent)) {
		s.has_parent = true;
		memcpy(s.parent_id, parent.span_id, sizeof(s.parent_id));
	}
	if (sp_span_started(&s) && sp_otelcpp_inner.sdk != NULL)
		sp_otelcpp_attr_watch(sp_otelcpp_inner.sdk);
}

/* NULL if the library lacks one of the functions that are needed. */
static void *new_map(void)
{
	__typeof__(&otelc_create_attr_map) create = REAL(otelc_create_attr_map);

	return create != NULL && REAL(otelc_set_span_attrs) != NULL &&
			       REAL(otelc_destroy_attr_map) != NULL
		       ? create()
		       : NULL;
}

static void apply_map(void *span, void *map)
{
	REAL(otelc_set_span_attrs)(span, map);
	REAL(otelc_destroy_attr_map)(map);
}

static void set_string(void *span, const char *key, const char *value)
{
	__typeof__(&otelc_set_str_attr) set = REAL(otelc_set_str_attr);
	void *map = set != NULL ? new_map() : NULL;

	if (map == NULL)
		return;
	/* the map keeps the pointer to the value until it is applied, which copies it */
	set(map, key, value);
	apply_map(span, map);
}

static void set_integer(void *span, const char *key, int64_t value)
{
	__typeof__(&otelc_set_int64_t_attr) set = REAL(otelc_set_int64_t_attr);
	void *map = set != NULL ? new_map() : NULL;

	if (map == NULL)
		return;
	set(map, key, value);
	apply_map(span, map);
}

static const struct sp_span_attr_set attributes = {.string = set_string, .integer = set_integer};

static void ending(void *span)
{
	struct sp_span_record r;
	void *inner;

	if (!sp_lifecycle_active() || !sp_span_of(span, &r))
		return;
	inner = sp_otelcpp_inner_of(&handles, span);
	if (inner != NULL)
		sp_span_attr_apply(&r, &sp_otelcpp_set, inner);
	else
		sp_span_attr_apply(&r, &attributes, span);
	/*
	 * before the real end, which frees the handle; another thread may get the same address at
	 * once
	 */
	(void)sp_span_close(&r);
}

SP_EXPORT void *otelc_start_span(void *tracer, const char *name, int kind,
				 const char *remote_context)
{
	struct sp_sdk_instance *own = sp_sdk_instance_of(&instances, SP_NEXT_otelc_start_span,
							 __builtin_return_address(0), tracer);
	__typeof__(&otelc_start_span) next =
		(__typeof__(&otelc_start_span))sp_sdk_instance_fn(own, SP_NEXT_otelc_start_span);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	sp_otelcpp_inner.sdk = NULL;
	void *span = next != NULL ? next(tracer, name, kind, remote_context) : NULL;

	if (g.outermost && span != NULL) {
		int saved = errno;

		instance = own;
		sp_sdk_instance_made(&instances, instance, span);
		started(span, name, remote_context);
		errno = saved;
	}
	sp_reentrancy_guard_leave(g);
	return span;
}

SP_EXPORT void otelc_end_span(void *span)
{
	struct sp_sdk_instance *own = sp_sdk_instance_of(&instances, SP_NEXT_otelc_end_span,
							 __builtin_return_address(0), span);
	__typeof__(&otelc_end_span) next =
		(__typeof__(&otelc_end_span))sp_sdk_instance_fn(own, SP_NEXT_otelc_end_span);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	if (g.outermost && span != NULL) {
		int saved = errno;

		instance = own;
		ending(span);
		errno = saved;
	}
	if (next != NULL)
		next(span);
	sp_reentrancy_guard_leave(g);
}
