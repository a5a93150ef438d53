/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapter for otap-labs/opentelemetry-c (libopentelemetry_c_api.so). Here starting a span does not
 * make it current; attaching a context does. Unrelated libraries export some of the same names, so
 * no argument is interpreted before the object that defines the hooked function has proved to be
 * this SDK. APP context.
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
#include "preload/sdk/otelc/adapter_otelc_sdk.h"
#include "preload/sdk/otelc/otelc_abi.h"
#include "preload/sdk/sdk_instances.h"
#include "preload/sdk/span_attr.h"
#include "sampler/base/compiler.h"
#include "sampler/base/log.h"
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

enum verdict {
	UNDECIDED,
	FOREIGN, /* another library's function */
	OLD,     /* this SDK, from before spans could be asked for their ids */
	KNOWN,
};

/* A hooked function whose arguments we read. */
struct hook {
	enum sp_next next;
	const char *name;
};

#define HOOK(sym)                                                                                  \
	{                                                                                          \
		.next = SP_NEXT_##sym, .name = #sym                                                \
	}

static struct sp_sdk_instances instances;
/* The instance that the current call belongs to. */
static SP_TLS struct sp_sdk_instance *instance;

#define REAL(sym) ((__typeof__(&(sym)))sp_sdk_instance_fn(instance, SP_NEXT_##sym))

/* Whose call this is, by its return address and the SDK's object that it was given. */
#define INSTANCE_OF(sym, object)                                                                   \
	sp_sdk_instance_of(&instances, SP_NEXT_##sym, __builtin_return_address(0),                 \
			   (const void *)(object))

/* The body of a hook: how it is handed on, what we do about it, and the SDK's object that it was given. */
#define HAND_ON(how, sym, ours, object)                                                            \
	static struct hook h = HOOK(sym);                                                          \
	const uintptr_t word[] = {a, b, c, d, e, f};                                               \
                                                                                                   \
	return how(&h, ours, word, INSTANCE_OF(sym, object))

static enum verdict decide(const struct hook *h)
{
	static const char *const old[] = {"otel_api_register_global_provider",
					  "otel_tracer_provider_get_tracer", "otel_version_string",
					  NULL};
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
	static atomic_flag told = ATOMIC_FLAG_INIT;
	const void *real = sp_sdk_instance_fn(instance, h->next);

	if (sp_elf_belongs(h->name, real, known))
		return KNOWN;
	if (!sp_elf_belongs(h->name, real, old))
		return FOREIGN;
	if (!atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))
		sp_log(SP_LOG_WARN, "this libopentelemetry_c_api.so cannot tell the ids of a span: "
				    "not labelling its spans; use a release since August 2026");
	return OLD;
}

/* To be called only if the real function exists. */
static bool is_known(struct hook *h)
{
	int verdict;

	if (instance == NULL)
		return false;
	verdict = atomic_load_explicit(&instance->verdict[h->next], memory_order_relaxed);
	if (verdict == UNDECIDED) {
		verdict = (int)decide(h);
		atomic_store_explicit(&instance->verdict[h->next], verdict, memory_order_relaxed);
	}
	return verdict == KNOWN;
}

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
		sp_otelc_ambient_span(instance, id);
}

/* Set when scopes pile up, and so do not tell what a thread works for. */
static _Atomic bool scopes_pile_up;

static void started(struct hook *h, parent_fn *parent, const void *span, const uintptr_t *word)
{
	struct sp_otelc_ids own;
	struct sp_span_start s;

	if (!sp_lifecycle_wanted() || !is_known(h) || !sp_otelc_span_ids(instance, span, &own) ||
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
	sp_otelc_error_save(instance, &error);
	ending(span);
	sp_otelc_error_restore(instance, &error);
}

static uintptr_t hook_start(struct hook *h, parent_fn *parent, const uintptr_t *w,
			    struct sp_sdk_instance *own)
{
	hooked *next = (hooked *)sp_sdk_instance_fn(own, h->next);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	uintptr_t span = next != NULL ? next(w[0], w[1], w[2], w[3], w[4], w[5]) : 0;

	if (g.outermost && span != 0) {
		int saved = errno;

		instance = own;
		sp_sdk_instance_made(&instances, instance, (const void *)span);
		started(h, parent, (const void *)span, w);
		errno = saved;
	}
	sp_reentrancy_guard_leave(g);
	return span;
}

SP_EXPORT uintptr_t otel_tracer_start_span(WORDS)
{
	HAND_ON(hook_start, otel_tracer_start_span, parent_in_options, a);
}

SP_EXPORT uintptr_t otel_tracer_start_span_with_context(WORDS)
{
	HAND_ON(hook_start, otel_tracer_start_span_with_context, parent_in_context, a);
}

SP_EXPORT uintptr_t otel_tracer_start_span_ex(WORDS)
{
	HAND_ON(hook_start, otel_tracer_start_span_ex, parent_in_options_ex, a);
}

/* The real one comes last: from then on another thread may get the object. */
static uintptr_t hook_end(const struct hook *h, void (*ours)(void *span), const uintptr_t *w,
			  struct sp_sdk_instance *own)
{
	hooked *next = (hooked *)sp_sdk_instance_fn(own, h->next);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	uintptr_t status = SP_OTELC_INTERNAL_ERROR;

	if (g.outermost && w[0] != 0) {
		int saved = errno;

		instance = own;
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
	HAND_ON(hook_end, otel_span_end, ending, a);
}

SP_EXPORT uintptr_t otel_span_destroy(WORDS)
{
	HAND_ON(hook_end, otel_span_destroy, ending_quietly, a);
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
static uintptr_t hook_done(struct hook *h, void (*ours)(const uintptr_t *word), const uintptr_t *w,
			   struct sp_sdk_instance *own)
{
	hooked *next = (hooked *)sp_sdk_instance_fn(own, h->next);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	uintptr_t status =
		next != NULL ? next(w[0], w[1], w[2], w[3], w[4], w[5]) : SP_OTELC_INTERNAL_ERROR;

	instance = own;
	if (g.outermost && succeeded(status) && sp_lifecycle_active() && is_known(h)) {
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
	HAND_ON(hook_done, otel_span_update_name, renamed, a);
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
	HAND_ON(hook_done, otel_span_set_string_attribute, attribute_set, a);
}

static void attached(const uintptr_t *word)
{
	const struct sp_otelc_scope *scope = (const struct sp_otelc_scope *)word[1];
	uint8_t id[8];
	bool has_span = sp_otelc_context_span(instance, (const void *)word[0], id);

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
	HAND_ON(hook_done, otel_context_attach, attached, NULL);
}

/* The scope's token, which a successful detach wipes; 0 when there is nothing to detach. */
static uint64_t scope_token(struct hook *h, const struct sp_otelc_scope *scope)
{
	if (scope == NULL || !sp_lifecycle_active() || !is_known(h) ||
	    scope->struct_size < sizeof(*scope))
		return 0;
	return scope->generation;
}

SP_EXPORT uintptr_t otel_context_scope_detach(WORDS)
{
	static struct hook h = HOOK(otel_context_scope_detach);
	struct sp_sdk_instance *own = INSTANCE_OF(otel_context_scope_detach, NULL);
	hooked *next = (hooked *)sp_sdk_instance_fn(own, h.next);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	uintptr_t status = SP_OTELC_INTERNAL_ERROR;
	uint64_t token = 0;

	if (g.outermost && next != NULL) {
		int saved = errno;

		instance = own;
		token = scope_token(&h, (const struct sp_otelc_scope *)a);
		errno = saved;
	}
	if (next != NULL)
		status = next(a, b, c, d, e, f);
	/* it refuses other threads, copies and all but the innermost scope, and changes nothing then */
	if (token != 0 && succeeded(status))
		sp_active_span_detached(sp_span_token_of(0, token), false);
	sp_reentrancy_guard_leave(g);
	return status;
}
