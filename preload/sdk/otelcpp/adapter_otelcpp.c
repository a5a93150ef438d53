/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapter for opentelemetry-cpp: start, rename, end and destruction of sdk::trace::Span, interposed
 * by their mangled names. The SDK's vtables refer to these functions by name, so virtual calls
 * reach our hooks too; where they do not, the hooks are put into the vtables
 * (adapter_otelcpp_types.h). APP context.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/reentrancy_guard.h"
#include "preload/lifecycle/sdk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_attr.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_call.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_inner.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_scope.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_types.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_vtable.h"
#include "preload/sdk/otelcpp/otelcpp_abi.h"
#include "preload/sdk/span_attr.h"
#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_keys.h"
#include "sampler/span/span.h"

#define PARAMETERS                                                                                 \
	void *result, void *tracer, size_t len, const char *name, const void *attributes,          \
		const void *links, const void *options
#define ARGUMENTS result, tracer, len, name, attributes, links, options

typedef void *start_fn(PARAMETERS);
typedef void end_fn(void *span, const void *options);
typedef void destroy_fn(void *span);
typedef void rename_fn(void *span, size_t len, const char *name);

/* Data of the SDK: NULL where no SDK is loaded at program start. */
#define LINKED(id, symbol)                                                                         \
	extern const char(id)[] __asm__(symbol) __attribute__((weak, visibility("default")))

/* One set of functions per ABI version, under the SDK's names. */
#define DECLARE(n, V)                                                                              \
	SP_OTELCPP_ENTRY(sp_otelcpp_v##n##_start_nostd, start_fn, SP_OTELCPP_START_NOSTD(V));      \
	SP_OTELCPP_ENTRY(sp_otelcpp_v##n##_start_stl, start_fn, SP_OTELCPP_START_STL(V));          \
	SP_EXPORT end_fn sp_otelcpp_v##n##_end __asm__(SP_OTELCPP_END(V));                         \
	SP_EXPORT destroy_fn sp_otelcpp_v##n##_d1 __asm__(SP_OTELCPP_D1(V));                       \
	SP_EXPORT destroy_fn sp_otelcpp_v##n##_d0 __asm__(SP_OTELCPP_D0(V));                       \
	SP_EXPORT rename_fn sp_otelcpp_v##n##_rename_nostd __asm__(SP_OTELCPP_RENAME_NOSTD(V));    \
	SP_EXPORT rename_fn sp_otelcpp_v##n##_rename_stl __asm__(SP_OTELCPP_RENAME_STL(V));        \
	static destroy_fn dispose_inside_v##n;                                                     \
	static destroy_fn dispose_pointer_v##n;                                                    \
	LINKED(storage_v##n, SP_OTELCPP_STORAGE(V));                                               \
	LINKED(storage_vtable_v##n, SP_OTELCPP_STORAGE_CLASS(V));                                  \
	LINKED(span_vtable_v##n, SP_OTELCPP_SPAN_VTABLE(V));                                       \
	LINKED(tracer_vtable_v##n, SP_OTELCPP_TRACER_VTABLE(V));                                   \
	static const struct sp_otelcpp_names names_v##n = {                                        \
		.real = {SP_OTELCPP_START_NOSTD(V), SP_OTELCPP_START_STL(V), SP_OTELCPP_END(V),    \
			 SP_OTELCPP_D1(V), SP_OTELCPP_D0(V), SP_OTELCPP_RENAME_NOSTD(V),           \
			 SP_OTELCPP_RENAME_STL(V)},                                                \
		.span_vtable = SP_OTELCPP_SPAN_VTABLE(V),                                          \
		.storage = SP_OTELCPP_STORAGE(V),                                                  \
		.storage_class = SP_OTELCPP_STORAGE_CLASS(V),                                      \
		.get_context = SP_OTELCPP_GET_CONTEXT(V),                                          \
		.is_recording = SP_OTELCPP_IS_RECORDING(V),                                        \
		.tracer_context_type = SP_OTELCPP_CONTEXT_TYPE(V),                                 \
		.slot_end = SP_OTELCPP_SLOT_END_V##n,                                              \
		.sdk = SP_SDK_OTELCPP_V##n,                                                        \
	};                                                                                         \
	static struct sp_otelcpp sdk_v##n = {                                                      \
		.names = &names_v##n,                                                              \
		.hook = {SP_OTELCPP_ENTRY_OF(sp_otelcpp_v##n##_start_nostd),                       \
			 SP_OTELCPP_ENTRY_OF(sp_otelcpp_v##n##_start_stl),                         \
			 (const void *)sp_otelcpp_v##n##_end, (const void *)sp_otelcpp_v##n##_d1,  \
			 (const void *)sp_otelcpp_v##n##_d0,                                       \
			 (const void *)sp_otelcpp_v##n##_rename_nostd,                             \
			 (const void *)sp_otelcpp_v##n##_rename_stl,                               \
			 (const void *)dispose_inside_v##n, (const void *)dispose_pointer_v##n},   \
		.linked_storage = storage_v##n,                                                    \
		.linked_storage_vtable = storage_vtable_v##n,                                      \
		.linked_span_vtable = span_vtable_v##n,                                            \
		.linked_tracer_vtable = tracer_vtable_v##n,                                        \
	}

DECLARE(1, "1");
DECLARE(2, "2");

struct sp_otelcpp *const sp_otelcpp_first[SP_OTELCPP_VERSIONS] = {&sdk_v1, &sdk_v2};

/*
 * If the program sets an attribute with a key of ours at the start of that span or later, its value
 * stays.
 */
static void watch_attributes(struct sp_otelcpp *sdk, const void *attributes, const void *span)
{
	struct sp_span_record r;
	uint8_t keys;

	if (!sp_span_attr_any())
		return;
	sp_otelcpp_attr_watch(sdk);
	keys = sp_otelcpp_attr_given(attributes);
	if (keys != 0 && sp_span_of(span, &r))
		sp_span_keys_add(&r, keys);
}

/* NOLINTNEXTLINE(readability-function-size): of the SDK's own parameters those that say something */
static void started(struct sp_otelcpp *sdk, const void *result, const char *name, size_t len,
		    const void *attributes, const void *options)
{
	struct sp_otelcpp_ids ids;
	struct sp_span_start s;
	bool nothing_current;
	void *span;

	if (!sp_otelcpp_known(sdk))
		return;
	/* Dropped and no-op spans are of other classes: a span of this class records. */
	span = sp_otelcpp_returned(sdk, result);
	if (span == NULL)
		return;
	sp_otelcpp_own_ids(sdk, span, &ids);
	if ((ids.flags & SP_OTELCPP_FLAG_SAMPLED) == 0 || !sp_lifecycle_start())
		return;
	nothing_current = sp_otelcpp_scope_watch(sdk);
	s.handle = span;
	s.name = name != NULL ? name : "";
	s.name_len = name != NULL ? len : 0;
	memcpy(s.span_id, ids.span_id, sizeof(s.span_id));
	memcpy(s.trace_id, ids.trace_id, sizeof(s.trace_id));
	s.has_parent = sp_otelcpp_parent(sdk, options, &ids, nothing_current, s.parent_id);
	s.how = sp_otelcpp_scopes_tell(sdk) ? SP_ACTIVATION_SCOPE : SP_ACTIVATION_NONE;
	s.sdk = (uint8_t)sdk->names->sdk;
	if (sp_span_started(&s))
		watch_attributes(sdk, attributes, span);
}

/* The real destructors call each other and end their span, which we have handled by then. */
static SP_TLS const void *being_destroyed;

/* Also for a span that is destroyed without an end: the destructor ends it. */
static void ending(const struct sp_otelcpp *sdk, void *span)
{
	struct sp_span_record r;

	if (!sp_span_of(span, &r))
		return;
	int saved = errno;

	if (sp_span_attr_wanted(&r) && sp_otelcpp_is_recording(sdk, span))
		sp_span_attr_give(&r, &sp_otelcpp_set, span);
	/* before the real end: after it another thread may get the same object */
	(void)sp_span_close(&r);
	errno = saved;
}

static inline __attribute__((always_inline)) void *
/* NOLINTNEXTLINE(readability-function-size): the SDK's own seven parameters, and whose they are */
hook_start(struct sp_otelcpp *first, enum sp_otelcpp_real which, PARAMETERS)
{
	struct sp_otelcpp *sdk = sp_otelcpp_instance(first, SP_OTELCPP_TRACER, tracer);
	start_fn *next = (start_fn *)sp_otelcpp_real(sdk, which);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	if (next != NULL)
		SP_OTELCPP_CALL(next, ARGUMENTS);
	if (g.outermost && next != NULL && sp_lifecycle_wanted()) {
		int saved = errno;

		started(sdk, result, name, len, attributes, options);
		errno = saved;
	} else if (!g.outermost && next != NULL) {
		sp_otelcpp_inner_started(sdk, result);
	}
	sp_reentrancy_guard_leave(g);
	return result;
}

static inline void hook_ending(const struct sp_otelcpp *sdk, void *span)
{
	if (!sp_lifecycle_active() || span == being_destroyed)
		return;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	if (g.outermost)
		ending(sdk, span);
	sp_reentrancy_guard_leave(g);
}

/*
 * The real end and the real destructor run outside of the reentrancy guard, because they may drop
 * the last reference to another span, whose end counts.
 */
__attribute__((noinline)) static void end(struct sp_otelcpp *first, void *span, const void *options)
{
	struct sp_otelcpp *sdk = sp_otelcpp_instance(first, SP_OTELCPP_SPAN, span);
	end_fn *next = (end_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_END);

	hook_ending(sdk, span);
	if (next != NULL)
		next(span, options);
}

__attribute__((noinline)) static void destroy(struct sp_otelcpp *first, enum sp_otelcpp_real which,
					      void *span)
{
	struct sp_otelcpp *sdk = sp_otelcpp_instance(first, SP_OTELCPP_SPAN, span);
	destroy_fn *next = (destroy_fn *)sp_otelcpp_real(sdk, which);
	const void *outer = being_destroyed;

	hook_ending(sdk, span);
	being_destroyed = span;
	if (next != NULL)
		next(span);
	being_destroyed = outer;
}

/*
 * The real function, if that is known by a glance at the object and the call does not concern us:
 * while we are switched off, and for two of the four calls that end and destroy a span, which its
 * destructors make themselves. These calls go on by a jump, without a frame of ours. Otherwise NULL.
 */
static inline void *straight(struct sp_otelcpp *first, enum sp_otelcpp_real which, const void *span)
{
	return sp_otelcpp_is_first(first, SP_OTELCPP_SPAN, span) &&
			       (!sp_lifecycle_active() || span == being_destroyed)
		       ? atomic_load_explicit(&first->real[which], memory_order_relaxed)
		       : NULL;
}

static inline void hook_end(struct sp_otelcpp *first, void *span, const void *options)
{
	end_fn *next = (end_fn *)straight(first, SP_OTELCPP_REAL_END, span);

	if (next != NULL)
		next(span, options);
	else
		end(first, span, options);
}

static inline void hook_destroy(struct sp_otelcpp *first, enum sp_otelcpp_real which, void *span)
{
	destroy_fn *next = (destroy_fn *)straight(first, which, span);

	if (next != NULL)
		next(span);
	else
		destroy(first, which, span);
}

/*
 * Who drops the last reference to a span calls a function of the control block, which destroys the
 * span without a virtual call. So we hook that function where the destructor has no name.
 */
static void hook_dispose(struct sp_otelcpp *first, enum sp_otelcpp_real which, void *control)
{
	struct sp_otelcpp *sdk = sp_otelcpp_instance(first, SP_OTELCPP_SPAN, control);
	destroy_fn *next = (destroy_fn *)sp_otelcpp_real(sdk, which);
	void *span = (char *)control + SP_OTELCPP_CONTROL_OBJECT;
	const void *outer = being_destroyed;

	if (which == SP_OTELCPP_REAL_DISPOSE_POINTER)
		span = sp_otelcpp_member(span, 0);
	if (span != NULL && sp_otelcpp_member(span, 0) == sdk->span_vptr) {
		hook_ending(sdk, span);
		being_destroyed = span;
	}
	if (next != NULL)
		next(control);
	being_destroyed = outer;
}

static void hook_rename(struct sp_otelcpp *sdk, enum sp_otelcpp_real which, void *span, size_t len,
			const char *name)
{
	rename_fn *next = (rename_fn *)sp_otelcpp_real(sdk, which);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	if (next != NULL)
		next(span, len, name);
	if (g.outermost && next != NULL && sp_lifecycle_active()) {
		int saved = errno;

		(void)sp_span_renamed(span, name, len);
		errno = saved;
	}
	sp_reentrancy_guard_leave(g);
}

/* As straight(), for a start. Two functions of the same type, so that the second is a jump, too. */
#define DEFINE_START(name, first, which)                                                           \
	static __attribute__((noinline)) void *name##_seen(PARAMETERS)                             \
	{                                                                                          \
		return hook_start(first, which, ARGUMENTS);                                        \
	}                                                                                          \
	void *name(PARAMETERS)                                                                     \
	{                                                                                          \
		start_fn *next =                                                                   \
			atomic_load_explicit(&(first)->real[which], memory_order_relaxed);         \
                                                                                                   \
		if (sp_lifecycle_wanted() || next == NULL ||                                       \
		    !sp_otelcpp_is_first(first, SP_OTELCPP_TRACER, tracer))                        \
			return name##_seen(ARGUMENTS);                                             \
		SP_OTELCPP_RETURN_CALL(next, result, ARGUMENTS);                                   \
	}

#define DEFINE(n)                                                                                  \
	DEFINE_START(sp_otelcpp_v##n##_start_nostd, &sdk_v##n, SP_OTELCPP_REAL_START_NOSTD)        \
	DEFINE_START(sp_otelcpp_v##n##_start_stl, &sdk_v##n, SP_OTELCPP_REAL_START_STL)            \
	void sp_otelcpp_v##n##_end(void *span, const void *options)                                \
	{                                                                                          \
		hook_end(&sdk_v##n, span, options);                                                \
	}                                                                                          \
	void sp_otelcpp_v##n##_d1(void *span)                                                      \
	{                                                                                          \
		hook_destroy(&sdk_v##n, SP_OTELCPP_REAL_D1, span);                                 \
	}                                                                                          \
	void sp_otelcpp_v##n##_d0(void *span)                                                      \
	{                                                                                          \
		hook_destroy(&sdk_v##n, SP_OTELCPP_REAL_D0, span);                                 \
	}                                                                                          \
	static void dispose_inside_v##n(void *control)                                             \
	{                                                                                          \
		hook_dispose(&sdk_v##n, SP_OTELCPP_REAL_DISPOSE_INSIDE, control);                  \
	}                                                                                          \
	static void dispose_pointer_v##n(void *control)                                            \
	{                                                                                          \
		hook_dispose(&sdk_v##n, SP_OTELCPP_REAL_DISPOSE_POINTER, control);                 \
	}                                                                                          \
	void sp_otelcpp_v##n##_rename_nostd(void *span, size_t len, const char *name)              \
	{                                                                                          \
		hook_rename(sp_otelcpp_instance(&sdk_v##n, SP_OTELCPP_SPAN, span),                 \
			    SP_OTELCPP_REAL_RENAME_NOSTD, span, len, name);                        \
	}                                                                                          \
	void sp_otelcpp_v##n##_rename_stl(void *span, size_t len, const char *name)                \
	{                                                                                          \
		hook_rename(sp_otelcpp_instance(&sdk_v##n, SP_OTELCPP_SPAN, span),                 \
			    SP_OTELCPP_REAL_RENAME_STL, span, len, name);                          \
	}

DEFINE(1) /* NOLINT(readability-function-size): the SDK's own seven parameters */
DEFINE(2) /* NOLINT(readability-function-size) */

/* INIT. The loader has relocated all vtables by now. Without an SDK this costs two comparisons. */
__attribute__((constructor)) static void patch_vtables(void)
{
	sp_otelcpp_vtable_patch(&sdk_v1);
	sp_otelcpp_vtable_patch(&sdk_v2);
}
