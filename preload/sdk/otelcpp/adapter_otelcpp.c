/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapter for opentelemetry-cpp: replaces start, attributes, rename, end and destruction of
 * sdk::trace::Span in the slots of its vtables (adapter_otelcpp.h). APP context.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/sdk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp.h"
#include "preload/sdk/otelcpp/otelcpp_abi.h"
#include "preload/sdk/span_attr.h"
#include "sampler/base/compiler.h"
#include "sampler/base/try_lock.h"
#include "sampler/span/slow_roots.h"
#include "sampler/span/span.h"
#include "sampler/span/span_values.h"

#define PARAMETERS                                                                                 \
	void *result, void *tracer, size_t len, const char *name, const void *attributes,          \
		const void *links, const void *options
#define ARGUMENTS result, tracer, len, name, attributes, links, options

typedef void *start_fn(PARAMETERS);
typedef void end_fn(void *span, const void *options);
typedef void destroy_fn(void *span);
typedef void rename_fn(void *span, size_t len, const char *name);
typedef void status_fn(void *span, int code, size_t len, const char *description);

static SP_TLS struct {
	/*
	 * The span whose real destructor runs. The destructors call each other and End; we have
	 * handled the end by then.
	 */
	const void *being_destroyed;
	/*
	 * The span that this thread closed last, NULL after a later start: usually the next call
	 * destroys that span.
	 */
	const void *closed;
	uint64_t closed_id;
} own;

/*
 * The record of a span, found by the span's id, so that starts and ends need not maintain an index
 * of objects.
 */
static inline bool record_of(struct sp_otelcpp *sdk, void *span, struct sp_span_record *r)
{
	uint64_t id;

	return sp_otelcpp_span_id(sdk, span, &id) && sp_span_of_id(id, span, r);
}

/*
 * Attributes that a program sets on its own spans: a value that it sets under a key of ours must
 * stay. The attributes of a start are read at the start. SetAttribute is replaced in the vtable of
 * the SDK's spans, because its mangled name depends on how the SDK was built.
 */
#define SET_PARAMETERS void *span, size_t len, const char *key, const void *value
typedef void set_fn(SET_PARAMETERS);

static struct sp_try_lock patching;

static inline int attributes_of(const struct sp_otelcpp *sdk)
{
	return atomic_load_explicit(&sdk->attributes, memory_order_relaxed);
}

static void program_sets(struct sp_otelcpp *sdk, void *span, uint8_t keys)
{
	int saved = errno;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	struct sp_span_record r;

	if (sp_lifecycle_active() && record_of(sdk, span, &r))
		sp_span_keys_add(&r, keys);
	sp_reentrancy_guard_exit(g);
	errno = saved;
}

static inline set_fn *real_of(const struct sp_otelcpp *sdk)
{
	return (set_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_SET_ATTRIBUTE);
}

/* noinline and a tail call, so that other keys need no frame in the caller. */
__attribute__((noinline)) static void set_like_ours(SET_PARAMETERS)
{
	struct sp_otelcpp *sdk = sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span);
	uint8_t keys = sp_span_attr_key(key, len);

	if (keys != 0)
		program_sets(sdk, span, keys);
	real_of(sdk)(span, len, key, value);
}

static void hook_set_attribute(SET_PARAMETERS)
{
	if (sp_span_attr_like_ours(key, len))
		set_like_ours(span, len, key, value);
	else
		real_of(sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span))(span, len, key, value);
}

/* Stores the value of an attribute that becomes a label. */
static void keep_value(const struct sp_span_record *r, unsigned key,
		       const struct sp_otelcpp_attribute *a)
{
	enum sp_span_value_type type = SP_SPAN_VALUE_INT64;
	const void *value = &a->value;
	size_t bytes = sizeof(uint64_t);
	uint64_t word;

	switch ((uint8_t)a->index) {
	case SP_OTELCPP_ATTRIBUTE_IS_BOOL:
		type = SP_SPAN_VALUE_BOOL;
		word = a->value.is;
		value = &word;
		break;
	case SP_OTELCPP_ATTRIBUTE_IS_INT32:
		word = (uint64_t)a->value.integer_32;
		value = &word;
		break;
	case SP_OTELCPP_ATTRIBUTE_IS_INT64:
		break;
	case SP_OTELCPP_ATTRIBUTE_IS_UINT32:
		word = a->value.natural_32;
		value = &word;
		break;
	case SP_OTELCPP_ATTRIBUTE_IS_DOUBLE:
		type = SP_SPAN_VALUE_DOUBLE;
		break;
	case SP_OTELCPP_ATTRIBUTE_IS_UINT64:
		type = SP_SPAN_VALUE_UINT64;
		break;
	case SP_OTELCPP_ATTRIBUTE_IS_STRING:
		type = SP_SPAN_VALUE_TEXT;
		value = a->value.string;
		bytes = value != NULL ? strlen(value) : 0;
		break;
	case SP_OTELCPP_ATTRIBUTE_IS_VIEW:
		type = SP_SPAN_VALUE_TEXT;
		value = a->view;
		bytes = value != NULL ? a->value.length : 0;
		break;
	default:
		type = SP_SPAN_VALUE_NONE;
		sp_span_values_refuse(key);
		break;
	}
	sp_span_values_set(r, key, type, value, bytes);
}

/* noinline: most attributes do not become labels. */
__attribute__((noinline)) static void set_labelled(void *span, unsigned key, const void *value)
{
	struct sp_otelcpp *sdk = sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span);
	int saved = errno;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	struct sp_otelcpp_attribute a;
	struct sp_span_record r;

	memcpy(&a, value, sizeof(a));
	if (sp_lifecycle_active() && record_of(sdk, span, &r))
		keep_value(&r, key, &a);
	sp_reentrancy_guard_exit(g);
	errno = saved;
}

/* Replaces hook_set_attribute() if some attributes become labels. */
static void hook_set_labels(SET_PARAMETERS)
{
	unsigned labelled = sp_span_values_key(key, len);

	if (labelled != SP_SPAN_KEY_NONE)
		set_labelled(span, labelled, value);
	hook_set_attribute(span, len, key, value);
}

static void hook_set_status(void *span, int code, size_t len, const char *description)
{
	struct sp_otelcpp *sdk = sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span);
	int saved = errno;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	struct sp_span_record r;

	if (sp_lifecycle_active() && record_of(sdk, span, &r))
		sp_slow_roots_set_failed(&r, code == SP_OTELCPP_STATUS_ERROR);
	sp_reentrancy_guard_exit(g);
	errno = saved;
	((status_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_SET_STATUS))(span, code, len,
									description);
}

static void set_attribute(void *span, const char *key, const struct sp_otelcpp_attribute *value)
{
	/* The call bypasses the slot: our replacement would take it for a call of the program. */
	real_of(sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span))(span, strlen(key), key, value);
}

static void set_string(void *span, const char *key, const char *value)
{
	set_attribute(span, key,
		      &(struct sp_otelcpp_attribute){.value.string = value,
						     .index = SP_OTELCPP_ATTRIBUTE_IS_STRING});
}

static void set_integer(void *span, const char *key, int64_t value)
{
	set_attribute(span, key,
		      &(struct sp_otelcpp_attribute){.value.integer = value,
						     .index = SP_OTELCPP_ATTRIBUTE_IS_INT64});
}

static const struct sp_span_attr_set ours = {.string = set_string, .integer = set_integer};

/*
 * At the first recorded span the configuration is known, and with it which spans may get
 * attributes. If any may, SetAttribute is replaced now; if slow roots become records, so is
 * SetStatus.
 */
static __attribute__((noinline, cold)) int decide_attributes(struct sp_otelcpp *sdk)
{
	enum sp_span_attr_when when = sp_span_attr_when();

	/* Only one thread replaces it; the others continue without waiting. */
	if (!sp_try_lock_once(&patching))
		return (int)when;
	if (when != SP_SPAN_ATTR_NONE && attributes_of(sdk) == SP_SPAN_ATTR_UNTRIED)
		(void)sp_otelcpp_vtable_replace(
			(const void *const *)sdk->span_vptr + SP_OTELCPP_SLOT_SET_ATTRIBUTE,
			sp_span_values_on() ? (const void *)hook_set_labels
					    : (const void *)hook_set_attribute);
	if (sp_slow_roots_on() && attributes_of(sdk) == SP_SPAN_ATTR_UNTRIED)
		(void)sp_otelcpp_vtable_replace((const void *const *)sdk->span_vptr +
							sdk->names->slot_end -
							SP_OTELCPP_SLOT_SET_STATUS_BEFORE_END,
						(const void *)hook_set_status);
	atomic_store_explicit(&sdk->attributes, (int)when, memory_order_relaxed);
	sp_unlock(&patching);
	return (int)when;
}

/*
 * The attributes of a start, and the record of its span, which is looked up only if one of them is
 * a key of ours or becomes a label.
 */
struct given {
	struct sp_otelcpp *sdk;
	void *span;
	struct sp_span_record r;
	bool has_record;
	uint8_t keys; /* bits of our keys */
};
typedef bool given_fn(void *callable, size_t len, const char *key,
		      struct sp_otelcpp_attribute value);

static bool find_record(struct given *g)
{
	g->has_record = g->has_record || record_of(g->sdk, g->span, &g->r);
	return g->has_record;
}

/* Called as a function_ref<bool(string_view, AttributeValue)>. */
static bool look_at(void *callable, size_t len, const char *key, struct sp_otelcpp_attribute value)
{
	struct given *g = callable;
	unsigned labelled = sp_span_values_key(key, len);

	g->keys |= sp_span_attr_key(key, len);
	if (labelled != SP_SPAN_KEY_NONE && find_record(g))
		keep_value(&g->r, labelled, &value);
	return true;
}

/* Stores the keys of ours and the labels among the attributes of a start, a KeyValueIterable. */
static __attribute__((noinline)) void keep_given(struct sp_otelcpp *sdk, const void *attributes,
						 void *span)
{
	bool (*for_each)(const void *, void *, given_fn *) = sp_otelcpp_member(
		sp_otelcpp_member(attributes, 0), SP_OTELCPP_SLOT_FOR_EACH * sizeof(void *));
	struct given given;

	given.sdk = sdk;
	given.span = span;
	given.has_record = false;
	given.keys = 0;

	(void)for_each(attributes, &given, look_at);
	if (given.keys != 0 && find_record(&given))
		sp_span_keys_add(&given.r, given.keys);
}

/*
 * If the program sets an attribute with a key of ours, at the start of the span or later, the
 * program's value stays.
 */
static inline void watch_attributes(struct sp_otelcpp *sdk, const void *attributes, void *span)
{
	size_t (*size)(const void *) = sp_otelcpp_member(sp_otelcpp_member(attributes, 0),
							 SP_OTELCPP_SLOT_SIZE * sizeof(void *));
	int when = attributes_of(sdk);

	if (when == SP_SPAN_ATTR_UNTRIED)
		when = decide_attributes(sdk);
	if (when != SP_SPAN_ATTR_NONE && size(attributes) != 0)
		keep_given(sdk, attributes, span);
}

/*
 * Called as a function_ref<bool(SpanContext, const KeyValueIterable &)>. The context has a
 * destructor, so C++ passes its address.
 */
static bool look_at_link(void *callable, const struct sp_otelcpp_ids *context)
{
	uint64_t *root = callable;

	*root = sp_active_span_linked_root(sp_otelcpp_word(context->span_id));
	return *root == 0;
}

/*
 * The start links to an open span of this thread: returns the root of that span. MySQL's statements
 * link to their session and have no parent, or the client's span as parent. Links are a
 * SpanContextKeyValueIterable, with the slots of a KeyValueIterable.
 */
static __attribute__((noinline)) uint64_t linked_root(const void *links)
{
	bool (*for_each)(const void *, void *, bool (*)(void *, const struct sp_otelcpp_ids *)) =
		sp_otelcpp_member(sp_otelcpp_member(links, 0),
				  SP_OTELCPP_SLOT_FOR_EACH * sizeof(void *));
	uint64_t root = 0;

	(void)for_each(links, &root, look_at_link);
	return root;
}

/* NOLINTNEXTLINE(readability-function-size): the SDK has as many parameters, and more */
static inline __attribute__((always_inline)) void started(struct sp_otelcpp *sdk,
							  const void *result, const char *name,
							  size_t len, const void *attributes,
							  const void *links, const void *options)
{
	const struct sp_otelcpp_ids *ids;
	struct sp_otelcpp_parent parent;
	struct sp_otelcpp_ids asked;
	struct sp_span_start s;
	uint32_t name_id;
	void *span;

	if (!sp_otelcpp_known(sdk))
		return;
	/* Dropped and no-op spans have other classes; a span of this class records. */
	span = sp_otelcpp_returned(sdk, sp_otelcpp_flavour_of(sdk), result);
	if (span == NULL)
		return;
	ids = sp_otelcpp_own_ids(sdk, span, &asked);
	if ((ids->flags & SP_OTELCPP_FLAG_SAMPLED) == 0 || !sp_lifecycle_start())
		return;
	own.closed = NULL;
	name_id = sp_span_name(name != NULL ? name : "", name != NULL ? len : 0);
	parent = sp_otelcpp_scope_parent(sdk, options, ids);
	s.handle = span;
	s.by_id = true;
	s.name = NULL;
	s.name_len = 0;
	memcpy(s.span_id, ids->span_id, sizeof(s.span_id));
	memcpy(s.trace_id, ids->trace_id, 8);
	memcpy(s.trace_id + 8, ids->trace_id + 8, 8);
	memcpy(s.parent_id, &parent.id, sizeof(s.parent_id));
	s.has_parent = parent.is_told;
	s.linked_root = sp_active_span_wants_links(parent.id) ? linked_root(links) : 0;
	s.how = sp_otelcpp_scopes_readable(sdk) ? SP_ACTIVATION_SCOPE : SP_ACTIVATION_NONE;
	s.sdk = (uint8_t)sdk->names->sdk;
	if (sp_span_started_by_id(&s, name_id))
		watch_attributes(sdk, attributes, span);
}

/*
 * noinline: hardly any span gets attributes or has one that becomes a label. Until its release the
 * record belongs to the thread that ends the span.
 */
static __attribute__((noinline)) void give_attributes(struct sp_otelcpp *sdk, void *span,
						      uint32_t ref)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	int saved = errno;
	struct sp_span_record r;
	unsigned wanted;

	sp_span_load(ref, &r);
	wanted = sp_span_attr_wanted(&r);
	if (wanted != 0 && sp_otelcpp_is_recording(sdk, span))
		sp_span_attr_give(&r, wanted, &ours, span);
	sp_span_report_end(&r);
	errno = saved;
	sp_reentrancy_guard_exit(g);
}

/*
 * The end of a span; also of a span that is destroyed without an end, because the destructor ends
 * it. May be called inside another hooked call, for example if a processor ends a span while
 * another span starts. Only attributes call the SDK, so only they need the reentrancy guard.
 */
static inline __attribute__((always_inline)) void ending(struct sp_otelcpp *sdk, void *span)
{
	uint32_t ref;
	uint64_t id;
	bool is_slow;
	int when;

	/* before the real end: afterwards another thread may get a new span at the same address */
	if (!sp_otelcpp_span_id(sdk, span, &id))
		return;
	ref = sp_span_close_by_id(id, span);
	if (ref == 0)
		return;
	own.closed_id = id;
	own.closed = span;
	is_slow = sp_slow_roots_end(ref);
	when = attributes_of(sdk);
	if (when != SP_SPAN_ATTR_NONE &&
	    (when != SP_SPAN_ATTR_NOTED || is_slow || sp_span_table_is_marked(ref, id)))
		give_attributes(sdk, span, ref);
	sp_span_table_free(ref);
}

/* NOLINTNEXTLINE(readability-function-size): the SDK's own seven parameters, and the instance */
static inline __attribute__((always_inline)) void *hook_start(struct sp_otelcpp *sdk,
							      start_fn *next, PARAMETERS)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	SP_OTELCPP_CALL(next, ARGUMENTS);
	if (g.outermost && (sp_lifecycle_active() || sp_lifecycle_wanted())) {
		int saved = errno;

		started(sdk, result, name, len, attributes, links, options);
		errno = saved;
	}
	sp_reentrancy_guard_exit(g);
	return result;
}

/* noinline: few spans are destroyed without an end. */
static __attribute__((noinline)) void end_unended(struct sp_otelcpp *sdk, void *span)
{
	ending(sdk, span);
}

/*
 * Whether this end is the first of the span. A span is ended and destroyed by four calls, and its
 * destructors make two of them. False while we are switched off.
 */
static inline bool concerns_us(const void *span)
{
	return sp_lifecycle_active() && span != own.being_destroyed;
}

/*
 * The real end and the real destructor run outside of the reentrancy guard, because they may drop
 * the last reference to another span, and we must see that span's end.
 */
static __attribute__((noinline)) void end_of_other(void *span, const void *options)
{
	struct sp_otelcpp *sdk = sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span);

	if (concerns_us(span))
		end_unended(sdk, span);
	((end_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_END))(span, options);
}

static void hook_end(void *span, const void *options)
{
	struct sp_otelcpp *sdk = &sp_otelcpp_instances[0];

	if (!sp_otelcpp_is_first(SP_OTELCPP_TYPE_SPAN, sp_otelcpp_member(span, 0))) {
		end_of_other(span, options);
		return;
	}
	if (concerns_us(span))
		ending(sdk, span);
	((end_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_END))(span, options);
}

/*
 * Whether this thread has already closed the span, so that its destruction has nothing to do. The
 * id is compared as well; a program's own generator may repeat ids.
 */
static inline bool is_closed(const struct sp_otelcpp *sdk, const void *span)
{
	const struct sp_otelcpp_ids *ids = own.closed == span ? sp_otelcpp_ids_in(sdk, span) : NULL;

	return ids != NULL && sp_otelcpp_word(ids->span_id) == own.closed_id;
}

static __attribute__((noinline)) void destroy(void *span, enum sp_otelcpp_real which)
{
	struct sp_otelcpp *sdk = sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span);
	destroy_fn *next = (destroy_fn *)sp_otelcpp_real(sdk, which);
	const void *outer = own.being_destroyed;

	if (is_closed(sdk, span) || !concerns_us(span)) {
		next(span);
		return;
	}
	end_unended(sdk, span);
	own.being_destroyed = span;
	next(span);
	own.being_destroyed = outer;
}

static inline void hook_destroy(void *span, enum sp_otelcpp_real which)
{
	const struct sp_otelcpp *sdk = &sp_otelcpp_instances[0];

	if (sp_otelcpp_is_first(SP_OTELCPP_TYPE_SPAN, sp_otelcpp_member(span, 0)) &&
	    is_closed(sdk, span))
		((destroy_fn *)sp_otelcpp_real(sdk, which))(span);
	else
		destroy(span, which);
}

static void hook_d1(void *span)
{
	hook_destroy(span, SP_OTELCPP_REAL_D1);
}

static void hook_d0(void *span)
{
	hook_destroy(span, SP_OTELCPP_REAL_D0);
}

/*
 * A thread that drops the last reference to a span calls a function of the control block, which
 * destroys the span without a virtual call.
 */
static void hook_dispose(void *control, void *span, destroy_fn *next)
{
	const void *outer = own.being_destroyed;
	struct sp_otelcpp *sdk = NULL;

	if (span != NULL && concerns_us(span))
		sdk = sp_otelcpp_with(SP_OTELCPP_TYPE_SPAN, sp_otelcpp_member(span, 0));
	if (sdk != NULL && !is_closed(sdk, span)) {
		end_unended(sdk, span);
		own.being_destroyed = span;
	}
	next(control);
	own.being_destroyed = outer;
}

static void hook_dispose_inside(void *control)
{
	const struct sp_otelcpp *sdk = sp_otelcpp_of(SP_OTELCPP_TYPE_CONTROL_INSIDE, control);

	hook_dispose(control, (char *)control + sdk->control_object,
		     (destroy_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_DISPOSE_INSIDE));
}

static void hook_dispose_pointer(void *control)
{
	const struct sp_otelcpp *sdk = sp_otelcpp_of(SP_OTELCPP_TYPE_CONTROL_POINTER, control);

	hook_dispose(control, sp_otelcpp_member(control, sdk->control_object),
		     (destroy_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_DISPOSE_POINTER));
}

static void hook_rename(void *span, size_t len, const char *name)
{
	struct sp_otelcpp *sdk = sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span);
	rename_fn *next = (rename_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_RENAME);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	next(span, len, name);
	if (g.outermost && sp_lifecycle_active()) {
		int saved = errno;
		struct sp_span_record r;

		if (record_of(sdk, span, &r))
			sp_span_rename(&r, name, len);
		errno = saved;
	}
	sp_reentrancy_guard_exit(g);
}

/* noinline: most programs have one instance, whose address is known here. */
/* NOLINTNEXTLINE(readability-function-size): the SDK's own seven parameters, and the instance */
static __attribute__((noinline)) void *start_of(struct sp_otelcpp *sdk, start_fn *next, PARAMETERS)
{
	return hook_start(sdk, next, ARGUMENTS);
}

SP_OTELCPP_LOCAL_ENTRY(sp_otelcpp_start, start_fn, "sp_otelcpp_start_entry");

/* NOLINTNEXTLINE(readability-function-size): the SDK's own seven parameters */
void *sp_otelcpp_start(PARAMETERS)
{
	struct sp_otelcpp *sdk = &sp_otelcpp_instances[0];

	if (sp_otelcpp_is_first(SP_OTELCPP_TYPE_TRACER, sp_otelcpp_member(tracer, 0)))
		return hook_start(sdk, (start_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_START),
				  ARGUMENTS);
	sdk = sp_otelcpp_of(SP_OTELCPP_TYPE_TRACER, tracer);
	return start_of(sdk, (start_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_START), ARGUMENTS);
}

const void *const sp_otelcpp_hooks[SP_OTELCPP_REAL_N] = {
	[SP_OTELCPP_REAL_START] = SP_OTELCPP_ENTRY_OF(sp_otelcpp_start),
	[SP_OTELCPP_REAL_END] = (const void *)hook_end,
	[SP_OTELCPP_REAL_D1] = (const void *)hook_d1,
	[SP_OTELCPP_REAL_D0] = (const void *)hook_d0,
	[SP_OTELCPP_REAL_RENAME] = (const void *)hook_rename,
	[SP_OTELCPP_REAL_SET_ATTRIBUTE] = (const void *)hook_set_attribute,
	[SP_OTELCPP_REAL_SET_STATUS] = (const void *)hook_set_status,
	[SP_OTELCPP_REAL_DISPOSE_INSIDE] = (const void *)hook_dispose_inside,
	[SP_OTELCPP_REAL_DISPOSE_POINTER] = (const void *)hook_dispose_pointer,
};

/*
 * The loader binds a tracer's slot to our function that has the name of the SDK's own start. The
 * first call of our function looks for the SDK's classes (adapter_otelcpp.h) and hooks them; from
 * then on the slot leads to sp_otelcpp_start(), and our function is not called any more. While we
 * are switched off nothing is hooked, so every start of the process calls our function, which has
 * to cost next to nothing. straight() returns the SDK's own function, to which the caller jumps, if
 * it is known without asking the loader: the tracer is of the first instance, which is never
 * unloaded. NULL in all other cases; then the caller asks the loader.
 */
static inline start_fn *straight(const void *tracer)
{
	return !sp_lifecycle_wanted() && sp_otelcpp_instances[0].object.permanent &&
			       sp_otelcpp_is_first(SP_OTELCPP_TYPE_TRACER,
						   sp_otelcpp_member(tracer, 0))
		       ? (start_fn *)sp_otelcpp_real(&sp_otelcpp_instances[0],
						     SP_OTELCPP_REAL_START)
		       : NULL;
}

/* NOLINTNEXTLINE(readability-function-size): the SDK's own seven parameters, and the name */
static __attribute__((noinline)) void *start_by_name(const struct sp_otelcpp_names *names,
						     unsigned which, PARAMETERS)
{
	void *next;
	struct sp_otelcpp *sdk =
		sp_otelcpp_started(names, which, sp_otelcpp_member(tracer, 0), &next);

	if (sdk != NULL && next != NULL)
		return start_of(sdk, (start_fn *)next, ARGUMENTS);
	if (next != NULL)
		SP_OTELCPP_CALL((start_fn *)next, ARGUMENTS);
	return result;
}

#define DEFINE_START(fn, symbol, version, which)                                                   \
	SP_OTELCPP_ENTRY(fn, start_fn, symbol);                                                    \
	void *fn(PARAMETERS)                                                                       \
	{                                                                                          \
		start_fn *next = straight(tracer);                                                 \
                                                                                                   \
		if (next == NULL)                                                                  \
			return start_by_name(&sp_otelcpp_names[version], which, ARGUMENTS);        \
		SP_OTELCPP_RETURN_CALL(next, result, ARGUMENTS);                                   \
	}

/* NOLINTBEGIN(readability-function-size): the SDK's own seven parameters */
DEFINE_START(sp_otelcpp_v1_start_nostd, SP_OTELCPP_START_NOSTD("1"), 0, 0)
DEFINE_START(sp_otelcpp_v1_start_stl, SP_OTELCPP_START_STL("1"), 0, 1)
DEFINE_START(sp_otelcpp_v2_start_nostd, SP_OTELCPP_START_NOSTD("2"), 1, 0)
DEFINE_START(sp_otelcpp_v2_start_stl, SP_OTELCPP_START_STL("2"), 1, 1)
/* NOLINTEND(readability-function-size) */

/* Vtables of an SDK that is linked to the program; NULL without one. */
#define LINKED(id, symbol)                                                                         \
	extern const void *const(id)[] __asm__(symbol) __attribute__((weak, visibility("defaul"    \
										       "t")))
LINKED(tracer_v1, SP_OTELCPP_TRACER_VTABLE("1"));
LINKED(tracer_v2, SP_OTELCPP_TRACER_VTABLE("2"));

#define NAMES(n, V)                                                                                \
	{                                                                                          \
		.start = {SP_OTELCPP_START_NOSTD(V), SP_OTELCPP_START_STL(V)},                     \
		.hook = {SP_OTELCPP_ENTRY_OF(sp_otelcpp_v##n##_start_nostd),                       \
			 SP_OTELCPP_ENTRY_OF(sp_otelcpp_v##n##_start_stl)},                        \
		.vtable = {SP_OTELCPP_TRACER_VTABLE(V), SP_OTELCPP_SPAN_VTABLE(V),                 \
			   SP_OTELCPP_CONTROL_INSIDE_VTABLE(V),                                    \
			   SP_OTELCPP_CONTROL_POINTER_VTABLE(V)},                                  \
		.storage = SP_OTELCPP_STORAGE(V), .storage_class = SP_OTELCPP_STORAGE_CLASS(V),    \
		.tracer_context_type = SP_OTELCPP_CONTEXT_TYPE(V), .linked_tracer = tracer_v##n,   \
		.slots = {SP_OTELCPP_TRACER_SLOTS_V##n, SP_OTELCPP_SPAN_SLOTS_V##n,                \
			  SP_OTELCPP_CONTROL_SLOTS, SP_OTELCPP_CONTROL_SLOTS},                     \
		.slot_end = SP_OTELCPP_SLOT_END_V##n, .sdk = SP_SDK_OTELCPP_V##n,                  \
	}

const struct sp_otelcpp_names sp_otelcpp_names[SP_OTELCPP_VERSIONS] = {NAMES(1, "1"),
								       NAMES(2, "2")};
