/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapter for otap-labs/opentelemetry-c (libopentelemetry_c_api.so). Here starting a span does not
 * make it current; attaching a context does. Unrelated libraries export some of the same names, so
 * no argument is interpreted before the object that the call is for has proved to be this SDK
 * (adapter_otelc_sdk.h). APP context.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/sdk.h"
#include "preload/sdk/otelc/adapter_otelc_sdk.h"
#include "preload/sdk/otelc/otelc_abi.h"
#include "preload/sdk/span_attr.h"
#include "sampler/base/compiler.h"
#include "sampler/span/active_span.h"
#include "sampler/span/span.h"

/*
 * Hooks take and hand on every argument register and return the whole result register, so that a
 * function of that name with other parameters gets exactly what its caller gave it.
 */
#define WORDS uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f
typedef uintptr_t hooked(WORDS);

hooked otel_tracer_start_span;
hooked otel_tracer_start_span_with_context;
hooked otel_tracer_start_span_ex;
hooked otel_span_update_name;
hooked otel_span_set_string_attribute; /* span, key, its length, value, its length */
hooked otel_span_end;
hooked otel_span_destroy;
hooked otel_context_attach;
hooked otel_context_scope_detach;

#define REAL(sym) ((__typeof__(&(sym)))sp_otelc_fn(SP_NEXT_##sym))

/* What a call of a hook goes on to, and whether it is one of the copy whose spans are labelled. */
struct call {
	hooked *next;
	bool labelled;
};

/* The body of a hook: how it is handed on, and what we do about it. */
#define HAND_ON(how, sym, ours)                                                                    \
	const uintptr_t word[] = {a, b, c, d, e, f};                                               \
	struct call call;                                                                          \
                                                                                                   \
	call.next = (hooked *)sp_otelc_next(SP_NEXT_##sym, __builtin_return_address(0),            \
					    &call.labelled);                                       \
	return how(&call, ours, word)

/* An unknown parent may be a span of another SDK instance; the new span is then a root. */
static void handle_id(const void *parent, uint8_t id[8])
{
	struct sp_span_record r;

	if (parent != NULL && sp_span_of(parent, &r))
		memcpy(id, &r.span_id, sizeof(r.span_id));
}

/* The parents of the three starts; an id of zeros stays where there is none. */
typedef void parent_fn(const uintptr_t *word, uint8_t id[8]);

static void parent_in_options(const uintptr_t *word, uint8_t id[8])
{
	const struct sp_otelc_options *o = (const struct sp_otelc_options *)word[3];

	if (o != NULL)
		handle_id(o->parent, id);
}

static void parent_in_context(const uintptr_t *word, uint8_t id[8])
{
	(void)REAL(otel_span_context_span_id)((const void *)word[4], id);
}

static void parent_in_options_ex(const uintptr_t *word, uint8_t id[8])
{
	/* the SDK has accepted them, so they are not NULL and at least as long as the first release */
	const struct sp_otelc_options_ex *o = (const struct sp_otelc_options_ex *)word[3];

	if (o->parent != NULL)
		handle_id(o->parent, id);
	else if (o->parent_context != NULL)
		(void)REAL(otel_span_context_span_id)(o->parent_context, id);
	else if (o->struct_size >= sizeof(*o) && o->parent_mode == SP_OTELC_PARENT_AMBIENT)
		sp_otelc_ambient_span(id);
}

/* Set when scopes pile up, and so do not tell what a thread works for. */
static _Atomic bool scopes_pile_up;

static void started(parent_fn *parent, const void *span, const uintptr_t *word)
{
	struct sp_otelc_ids own;
	struct sp_span_start s;

	if (!sp_lifecycle_wanted() || !sp_otelc_span_ids(span, &own) ||
	    (own.flags & SP_OTELC_FLAG_SAMPLED) == 0 || !sp_lifecycle_start())
		return;
	memset(&s, 0, sizeof(s));
	s.handle = span;
	s.how = atomic_load_explicit(&scopes_pile_up, memory_order_relaxed) ? SP_ACTIVATION_NONE
									    : SP_ACTIVATION_SCOPE;
	s.sdk = SP_SDK_OTELC;
	s.name = word[1] != 0 ? (const char *)word[1] : "";
	s.name_len = word[1] != 0 ? word[2] : 0;
	memcpy(s.span_id, own.span_id, sizeof(s.span_id));
	memcpy(s.trace_id, own.trace_id, sizeof(s.trace_id));
	/*
	 * Whatever is active on the thread: without a parent among its arguments the span is a
	 * root.
	 */
	s.has_parent = true;
	parent(word, s.parent_id);
	(void)sp_span_started(&s);
}

static void set_string(void *span, const char *key, const char *value)
{
	(void)REAL(otel_span_set_string_attribute)((uintptr_t)span, (uintptr_t)key, strlen(key),
						   (uintptr_t)value, strlen(value), 0);
}

static void set_integer(void *span, const char *key, int64_t value)
{
	__typeof__(&otel_span_set_int64_attribute) set = REAL(otel_span_set_int64_attribute);
	struct sp_otelc_view k = {.ptr = key, .len = strlen(key)};

	if (set != NULL)
		(void)set(span, k, value);
}

static const struct sp_span_attr_set attributes = {.string = set_string, .integer = set_integer};

/*
 * Ended by an end, by a destroy without an end, or by both; the span is ours only until the first.
 */
static void ending(void *span)
{
	struct sp_span_record r;

	/* before the real one: after it another thread may get the same object */
	if (!sp_lifecycle_active() || !sp_span_of(span, &r) || !sp_span_close(&r))
		return;
	sp_span_attr_apply(&r, &attributes, span);
	sp_span_table_release(&r);
}

/* A destroy leaves the SDK's last error alone, but the attributes that we set before it do not. */
static void ending_quietly(void *span)
{
	struct sp_otelc_error error;
	struct sp_span_record r;

	if (!sp_lifecycle_active() || !sp_span_of(span, &r))
		return;
	sp_otelc_error_save(&error);
	ending(span);
	sp_otelc_error_restore(&error);
}

static uintptr_t hook_start(const struct call *call, parent_fn *parent, const uintptr_t *w)
{
	hooked *next = call->next;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	uintptr_t span = next != NULL ? next(w[0], w[1], w[2], w[3], w[4], w[5]) : 0;

	if (g.outermost && call->labelled && span != 0) {
		int saved = errno;

		started(parent, (const void *)span, w);
		errno = saved;
	}
	sp_reentrancy_guard_leave(g);
	return span;
}

SP_EXPORT uintptr_t otel_tracer_start_span(WORDS)
{
	HAND_ON(hook_start, otel_tracer_start_span, parent_in_options);
}

SP_EXPORT uintptr_t otel_tracer_start_span_with_context(WORDS)
{
	HAND_ON(hook_start, otel_tracer_start_span_with_context, parent_in_context);
}

SP_EXPORT uintptr_t otel_tracer_start_span_ex(WORDS)
{
	HAND_ON(hook_start, otel_tracer_start_span_ex, parent_in_options_ex);
}

/* The real one comes last: from then on another thread may get the object. */
static uintptr_t hook_end(const struct call *call, void (*ours)(void *span), const uintptr_t *w)
{
	hooked *next = call->next;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	uintptr_t status = SP_OTELC_INTERNAL_ERROR;

	if (g.outermost && call->labelled && w[0] != 0) {
		int saved = errno;

		ours((void *)w[0]);
		errno = saved;
	}
	if (next != NULL)
		status = next(w[0], w[1], w[2], w[3], w[4], w[5]);
	sp_reentrancy_guard_leave(g);
	return status;
}

SP_EXPORT uintptr_t otel_span_end(WORDS)
{
	HAND_ON(hook_end, otel_span_end, ending);
}

SP_EXPORT uintptr_t otel_span_destroy(WORDS)
{
	HAND_ON(hook_end, otel_span_destroy, ending_quietly);
}

static bool succeeded(uintptr_t status)
{
	/* the upper half of the register is anything */
	return (uint32_t)status == SP_OTELC_OK;
}

/*
 * For calls that the SDK may refuse. Its function is called first, and ours only after a success:
 * otherwise we would keep a name, an attribute or a scope that the span does not have.
 */
static uintptr_t hook_done(const struct call *call, void (*ours)(const uintptr_t *word),
			   const uintptr_t *w)
{
	hooked *next = call->next;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	uintptr_t status =
		next != NULL ? next(w[0], w[1], w[2], w[3], w[4], w[5]) : SP_OTELC_INTERNAL_ERROR;

	if (g.outermost && call->labelled && succeeded(status) && sp_lifecycle_active()) {
		int saved = errno;

		ours(w);
		errno = saved;
	}
	sp_reentrancy_guard_leave(g);
	return status;
}

static void renamed(const uintptr_t *word)
{
	(void)sp_span_renamed((const void *)word[0], (const char *)word[1], word[2]);
}

SP_EXPORT uintptr_t otel_span_update_name(WORDS)
{
	HAND_ON(hook_done, otel_span_update_name, renamed);
}

/* What the program says under a key of ours stays. */
static void attribute_set(const uintptr_t *word)
{
	uint8_t key = sp_span_attr_key((const char *)word[1], word[2]);
	struct sp_span_record r;

	if (key != 0 && sp_span_of((const void *)word[0], &r))
		sp_span_keys_add(&r, key);
}

SP_EXPORT uintptr_t otel_span_set_string_attribute(WORDS)
{
	HAND_ON(hook_done, otel_span_set_string_attribute, attribute_set);
}

static void attached(const uintptr_t *word)
{
	const struct sp_otelc_scope *scope = (const struct sp_otelc_scope *)word[1];
	uint8_t id[8];
	bool has_span = sp_otelc_context_span((const void *)word[0], id);

	if (atomic_load_explicit(&scopes_pile_up, memory_order_relaxed)) {
		sp_active_span_forget_scopes();
	} else if (!sp_active_span_attached(sp_span_token_of(0, scope->generation),
					    has_span ? id : NULL)) {
		atomic_store_explicit(&scopes_pile_up, true, memory_order_relaxed);
		sp_sdk_disproved(SP_SDK_OTELC, SP_SDK_FACT_NESTING);
	}
}

SP_EXPORT uintptr_t otel_context_attach(WORDS)
{
	HAND_ON(hook_done, otel_context_attach, attached);
}

/* The scope's token, which a successful detach wipes; 0 when there is nothing to detach. */
static uint64_t scope_token(const struct sp_otelc_scope *scope)
{
	if (scope == NULL || !sp_lifecycle_active() || scope->struct_size < sizeof(*scope))
		return 0;
	return scope->generation;
}

static uintptr_t hook_detach(const struct call *call,
			     uint64_t (*token_of)(const struct sp_otelc_scope *),
			     const uintptr_t *w)
{
	hooked *next = call->next;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	uintptr_t status = SP_OTELC_INTERNAL_ERROR;
	uint64_t token = 0;

	if (g.outermost && call->labelled)
		token = token_of((const struct sp_otelc_scope *)w[0]);
	if (next != NULL)
		status = next(w[0], w[1], w[2], w[3], w[4], w[5]);
	/* it refuses other threads, copies and all but the innermost scope, and changes nothing then */
	if (token != 0 && succeeded(status))
		sp_active_span_detached(sp_span_token_of(0, token), false);
	sp_reentrancy_guard_leave(g);
	return status;
}

SP_EXPORT uintptr_t otel_context_scope_detach(WORDS)
{
	HAND_ON(hook_detach, otel_context_scope_detach, scope_token);
}
