/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instances of opentelemetry-cpp in this process: their classes and functions, and functions
 * that read their objects without a line of C++. APP context, inside the reentrancy guard.
 */
#ifndef SP_ADAPTER_OTELCPP_H
#define SP_ADAPTER_OTELCPP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/lifecycle/sdk.h"
#include "preload/sdk/otelcpp/otelcpp_abi.h"
#include "sampler/base/compiler.h"
#include "sampler/span/span.h"

/*
 * Functions that return a C++ object in memory get the address of the result as their first
 * argument. On x86-64 that is the C++ calling convention. On aarch64 the address comes in the
 * register x8, which C cannot name. So a call of ours moves the arguments to the C++ registers
 * first, and a function of ours that C++ code calls begins by moving them back. These moves touch
 * no memory and need no frame.
 */

/*
 * SP_OTELCPP_CALL(fn, result, ...) calls fn. SP_OTELCPP_RETURN_CALL(fn, result, result, ...) also
 * returns result, by a jump if possible. SP_OTELCPP_ENTRY and SP_OTELCPP_LOCAL_ENTRY declare a
 * function that C++ code calls by that symbol, and SP_OTELCPP_ENTRY_OF is the address of the
 * symbol.
 */
#if defined(__x86_64__)

#define SP_OTELCPP_CALL(fn, ...) ((void)(fn)(__VA_ARGS__))
/* fn returns the address of the result. */
#define SP_OTELCPP_RETURN_CALL(fn, result, ...) return (fn)(__VA_ARGS__)

#define SP_OTELCPP_ENTRY(fn, type, symbol) SP_EXPORT type(fn) __asm__(symbol)
#define SP_OTELCPP_LOCAL_ENTRY(fn, type, symbol) type(fn)
#define SP_OTELCPP_ENTRY_OF(fn) ((const void *)(fn))

#elif defined(__aarch64__)

/* Calls fn with result in x8 and the rest, at most six words, in x0 to x5. */
void sp_otelcpp_call(const void *fn, void *result, ...);

#define SP_OTELCPP_CALL(fn, ...) sp_otelcpp_call((const void *)(fn), __VA_ARGS__)
#define SP_OTELCPP_RETURN_CALL(fn, result, ...)                                                    \
	do {                                                                                       \
		SP_OTELCPP_CALL(fn, __VA_ARGS__);                                                  \
		return (result);                                                                   \
	} while (0)

// clang-format off
#define SP_OTELCPP_ENTRY_(fn, type, symbol, visibility) \
	type(fn); \
	extern const char fn##_entry[] __asm__(symbol); \
	__asm__(".text\n.balign 4\n.globl " symbol "\n" visibility ".type " symbol ", %function\n" \
		symbol ":\n.cfi_startproc\n" \
		"mov x6, x5\nmov x5, x4\nmov x4, x3\nmov x3, x2\nmov x2, x1\nmov x1, x0\n" \
		"mov x0, x8\nb " #fn "\n" \
		".cfi_endproc\n.size " symbol ", .-" symbol "\n")
// clang-format on
#define SP_OTELCPP_ENTRY(fn, type, symbol) SP_OTELCPP_ENTRY_(fn, type, symbol, "")
#define SP_OTELCPP_LOCAL_ENTRY(fn, type, symbol)                                                   \
	SP_OTELCPP_ENTRY_(fn, type, symbol, ".hidden " symbol "\n")
#define SP_OTELCPP_ENTRY_OF(fn) ((const void *)fn##_entry)

#endif

/* The virtual functions that we replace. */
enum sp_otelcpp_real {
	SP_OTELCPP_REAL_START,
	SP_OTELCPP_REAL_END,
	SP_OTELCPP_REAL_D1,
	SP_OTELCPP_REAL_D0,
	SP_OTELCPP_REAL_RENAME,
	SP_OTELCPP_REAL_SET_ATTRIBUTE,
	SP_OTELCPP_REAL_SET_STATUS,
	/* libstdc++'s: functions of control blocks that hold a span, or a pointer to one */
	SP_OTELCPP_REAL_DISPOSE_INSIDE,
	SP_OTELCPP_REAL_DISPOSE_POINTER,
	SP_OTELCPP_REAL_N
};

/* The classes of these functions; the last two are libstdc++'s, around a span. */
enum sp_otelcpp_type {
	SP_OTELCPP_TYPE_TRACER,
	SP_OTELCPP_TYPE_SPAN,
	SP_OTELCPP_TYPE_CONTROL_INSIDE,
	SP_OTELCPP_TYPE_CONTROL_POINTER,
	SP_OTELCPP_TYPE_N
};

/* Classes of context storages in one object. */
#define SP_OTELCPP_STORAGES_MAX 4U

/*
 * The names under which a tracer's slot may be bound to our functions (DEFINE_START of
 * adapter_otelcpp.c).
 */
#define SP_OTELCPP_STARTS 2U

/* One ABI version. */
struct sp_otelcpp_names {
	const char *start[SP_OTELCPP_STARTS];
	const void *hook[SP_OTELCPP_STARTS]; /* our functions of these names */
	const char *vtable[SP_OTELCPP_TYPE_N];
	const char *storage;
	const char *storage_class;
	const char *tracer_context_type;
	const void *linked_tracer; /* the tracer's vtable; NULL if no SDK is linked */
	unsigned slots[SP_OTELCPP_TYPE_N];
	unsigned slot_end;
	enum sp_sdk sdk;
};

#define SP_OTELCPP_VERSIONS 2U
extern const struct sp_otelcpp_names sp_otelcpp_names[SP_OTELCPP_VERSIONS];

/* Our functions, the same for all instances; NULL = not replaced here. */
extern const void *const sp_otelcpp_hooks[SP_OTELCPP_REAL_N];

enum sp_otelcpp_state { SP_OTELCPP_UNTRIED, SP_OTELCPP_KNOWN, SP_OTELCPP_REJECTED };

/* Whether the SDK's spans hold their context or a pointer to it. */
enum sp_otelcpp_place {
	SP_OTELCPP_PLACE_UNTRIED,
	SP_OTELCPP_PLACE_POINTER, /* a pointer at SP_OTELCPP_SPAN_CONTEXT */
	SP_OTELCPP_PLACE_INLINE,  /* the context itself at SP_OTELCPP_SPAN_CONTEXT */
	SP_OTELCPP_PLACE_UNKNOWN
};

/* Why a start has to search longer for the parent. Bits; a set bit is never cleared. */
enum sp_otelcpp_doubt {
	SP_OTELCPP_UNSEEN = 1 << 0, /* a current span may be on no stack of ours */
	SP_OTELCPP_FOREIGN =
		1 << 1, /* scopes are not understood: spans are active from start to end */
	SP_OTELCPP_OPTIONS = 1 << 2, /* the options of a start are not understood */
};

/*
 * An instance of the SDK. Its types are stored last, so a thread that finds a type sees the other
 * members, too.
 */
struct sp_otelcpp {
	const struct sp_otelcpp_names *names;
	struct sp_elf_range object; /* the object that defines its classes */
	_Atomic bool found;         /* object is valid */
	bool by_type;            /* found by type information: its classes have no visible names */
	unsigned control_object; /* in its control blocks: offset of the object, or its pointer */
	const void *const *_Atomic type[SP_OTELCPP_TYPE_N]; /* vptrs; NULL = no such class */
	const void *const *storage_type[SP_OTELCPP_STORAGES_MAX];
	_Atomic bool held; /* a vtable or an adapter refers to it: never reused */
	void *_Atomic real[SP_OTELCPP_REAL_N]; /* the slots' original functions; NULL = unknown */
	_Atomic int state;                     /* enum sp_otelcpp_state */
	const void *span_vptr;                 /* of the SDK's own spans; valid once known */
	/* smart pointer to the RuntimeContextStorage; NULL = unreachable, or not found yet */
	const char *_Atomic storage;
	const struct sp_otelcpp_flavour *_Atomic flavour; /* NULL until a span was seen */
	_Atomic bool expects;    /* watches the first attach of its storage */
	_Atomic bool bypassed;   /* calls of Detach may bypass our slot */
	_Atomic bool attached;   /* a context may be current on some thread */
	_Atomic unsigned doubts; /* enum sp_otelcpp_doubt */
	_Atomic int attributes;  /* enum sp_span_attr_when, once a span was recorded */
	const void *_Atomic
		storage_vptr;    /* vptr of its storages of the SDK's own class, once hooked */
	_Atomic int own_context; /* enum sp_otelcpp_place */
	/* enum sp_otelcpp_state: whether we can read contexts and options; looks counts checks */
	_Atomic int contexts;
	_Atomic int options;
	_Atomic unsigned looks;
};

/* The ids in the layout of a SpanContext. */
struct sp_otelcpp_ids {
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t flags;
};
_Static_assert(offsetof(struct sp_otelcpp_ids, span_id) == SP_OTELCPP_CONTEXT_SPAN_ID &&
		       offsetof(struct sp_otelcpp_ids, flags) == SP_OTELCPP_CONTEXT_FLAGS,
	       "as a SpanContext");

/* The address of a member; a member of pointer size; a member of one byte. */
static inline const void *sp_otelcpp_at(const void *object, unsigned long offset)
{
	return (const char *)object + offset;
}

static inline void *sp_otelcpp_member(const void *object, unsigned long offset)
{
	void *p;

	memcpy(&p, sp_otelcpp_at(object, offset), sizeof(p));
	return p;
}

/* The first 8 bytes of an id; a span id has no more. */
static inline uint64_t sp_otelcpp_word(const void *id)
{
	uint64_t w;

	memcpy(&w, id, sizeof(w));
	return w;
}

static inline uint8_t sp_otelcpp_byte(const void *object, unsigned long offset)
{
	return *(const uint8_t *)sp_otelcpp_at(object, offset);
}

/* The build of the SDK; NULL until a span was seen. */
static inline const struct sp_otelcpp_flavour *sp_otelcpp_flavour_of(const struct sp_otelcpp *sdk)
{
	return atomic_load_explicit(&sdk->flavour, memory_order_relaxed);
}

/*
 * Room for the living instances, and for unloaded ones that a vtable or an adapter still refers to.
 * sdk_texts.c names the number.
 */
#define SP_OTELCPP_INSTANCES_MAX 32U
SP_HIDDEN struct sp_otelcpp sp_otelcpp_instances[SP_OTELCPP_INSTANCES_MAX];

/* The instance with that class; NULL = none. */
struct sp_otelcpp *sp_otelcpp_with(enum sp_otelcpp_type type, const void *vptr);

/* Whether the first instance has that class; cheaper than sp_otelcpp_with(). */
static inline bool sp_otelcpp_is_first(enum sp_otelcpp_type type, const void *vptr)
{
	/* pairs with sp_otelcpp_instance_add(): the other members are stored before the types */
	return atomic_load_explicit(&sp_otelcpp_instances[0].type[type], memory_order_acquire) ==
	       vptr;
}

/*
 * The instance of an object whose virtual function is ours. We changed its vtable, which is still
 * there, so the vptr needs no check.
 */
static inline struct sp_otelcpp *sp_otelcpp_of(enum sp_otelcpp_type type, const void *object)
{
	const void *vptr = sp_otelcpp_member(object, 0);
	struct sp_otelcpp *sdk;

	if (sp_otelcpp_is_first(type, vptr))
		return &sp_otelcpp_instances[0];
	sdk = sp_otelcpp_with(type, vptr);
	return sdk != NULL ? sdk : &sp_otelcpp_instances[0];
}

/* The original function of a slot. */
static inline void *sp_otelcpp_real(const struct sp_otelcpp *sdk, enum sp_otelcpp_real which)
{
	return atomic_load_explicit(&sdk->real[which], memory_order_relaxed);
}

/* The classes and functions of an instance in one object, for sp_otelcpp_instance_add(). */
struct sp_otelcpp_found {
	const struct sp_otelcpp_names *names;
	struct sp_elf_range object;
	bool by_type;
	unsigned control_object;
	const void *const *type[SP_OTELCPP_TYPE_N];
	const void *const *storage_type[SP_OTELCPP_STORAGES_MAX];
	const void *storage;
	void *real[SP_OTELCPP_REAL_N];
	enum sp_otelcpp_state state;
};

/*
 * Adds an instance; nothing of it is hooked yet. Returns the existing instance if its tracers are
 * known; then, if found has only the start and the spans are known already, only the state changes.
 * NULL if more instances are alive than we have room for, which is logged once, or if another
 * thread is adding one.
 */
struct sp_otelcpp *sp_otelcpp_instance_add(const struct sp_otelcpp_found *found);

/* Whether the instance is hooked and its objects can be read. */
static inline bool sp_otelcpp_known(const struct sp_otelcpp *sdk)
{
	return atomic_load_explicit(&sdk->state, memory_order_relaxed) == SP_OTELCPP_KNOWN;
}

/* The part of sp_otelcpp_returned() for the time before a span was seen. */
void *sp_otelcpp_first_returned(struct sp_otelcpp *sdk, const void *pointer);

/* The span in the smart pointer that StartSpan returned; NULL if its class is not the SDK's own. */
static inline void *sp_otelcpp_returned(struct sp_otelcpp *sdk, const struct sp_otelcpp_flavour *f,
					const void *pointer)
{
	void *span;

	if (f == NULL)
		return sp_otelcpp_first_returned(sdk, pointer);
	span = sp_otelcpp_member(pointer, f->pointee);
	return span != NULL && sp_otelcpp_member(span, 0) == sdk->span_vptr ? span : NULL;
}

/*
 * Checks at first use. They ask the kernel whether memory can be read before they read it, and are
 * too slow for every call. This one: whether the aligned word there can be read.
 */
bool sp_otelcpp_readable(const void *p);

/*
 * Whether the typeinfo before the vtable has that name; false with -fno-rtti, which has no
 * typeinfo.
 */
bool sp_otelcpp_is_type(const void *vptr, const char *type);

/*
 * Whether a smart pointer of that kind of build lies there, which may be null: one with a class of
 * its own (nostd), or one with a control block of libstdc++ that is in use.
 */
bool sp_otelcpp_is_pointer(const struct sp_otelcpp_flavour *f, const void *pointer);

/* Whether the context is a list in the layout that we know, or empty. */
bool sp_otelcpp_context_fits(struct sp_otelcpp *sdk, const void *context);

/* The object that a smart pointer of the SDK points to. To be called only after a span was seen. */
static inline void *sp_otelcpp_pointee(const struct sp_otelcpp *sdk, const void *pointer)
{
	return sp_otelcpp_member(pointer, sp_otelcpp_flavour_of(sdk)->pointee);
}

/* Destroys a smart pointer that the SDK returned to us. */
void sp_otelcpp_release(const struct sp_otelcpp_flavour *f, void *pointer);

/* Calls of span methods, through the vtable. */
bool sp_otelcpp_is_recording(const struct sp_otelcpp *sdk, void *span);
void sp_otelcpp_ids(struct sp_otelcpp *sdk, void *span, struct sp_otelcpp_ids *out);

/*
 * The parts of the two functions below that ask the span: hardly any build needs them after its
 * first span.
 */
void sp_otelcpp_ask_ids(struct sp_otelcpp *sdk, void *span, struct sp_otelcpp_ids *out);
bool sp_otelcpp_ask_span_id(struct sp_otelcpp *sdk, void *span, uint64_t *id);

/* The ids inside one of the SDK's own spans; NULL if only the span's own function tells them. */
static inline const struct sp_otelcpp_ids *sp_otelcpp_ids_in(const struct sp_otelcpp *sdk,
							     const void *span)
{
	/* pairs with sp_otelcpp_ask_ids(): a thread that sees the place also sees the flavour */
	int place = atomic_load_explicit(&sdk->own_context, memory_order_acquire);
	const void *context = sp_otelcpp_at(span, SP_OTELCPP_SPAN_CONTEXT);

	if (place == SP_OTELCPP_PLACE_POINTER)
		return sp_otelcpp_member(context, 0);
	return place == SP_OTELCPP_PLACE_INLINE ? context : NULL;
}

/* The ids of one of the SDK's own spans: inside the span, or in *asked after asking it. */
static inline const struct sp_otelcpp_ids *sp_otelcpp_own_ids(struct sp_otelcpp *sdk, void *span,
							      struct sp_otelcpp_ids *asked)
{
	const struct sp_otelcpp_ids *ids = sp_otelcpp_ids_in(sdk, span);

	if (ids != NULL)
		return ids;
	sp_otelcpp_ask_ids(sdk, span, asked);
	return asked;
}

/* The span id of one of the SDK's own spans. False before the first span was seen. */
static inline bool sp_otelcpp_span_id(struct sp_otelcpp *sdk, void *span, uint64_t *id)
{
	const struct sp_otelcpp_ids *ids = sp_otelcpp_ids_in(sdk, span);

	if (ids == NULL)
		return sp_otelcpp_ask_span_id(sdk, span, id);
	*id = sp_otelcpp_word(ids->span_id);
	return true;
}

/* The address of the smart pointer to the storage; NULL = unknown. */
static inline const char *sp_otelcpp_get_storage(const struct sp_otelcpp *sdk)
{
	return atomic_load_explicit(&sdk->storage, memory_order_relaxed);
}

static inline void sp_otelcpp_set_storage(struct sp_otelcpp *sdk, const void *storage)
{
	atomic_store_explicit(&sdk->storage, (const char *)storage, memory_order_relaxed);
}

/* The object that stores the threads' current contexts; NULL = unreachable. */
static inline void *sp_otelcpp_storage(const struct sp_otelcpp *sdk)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const char *storage = sp_otelcpp_get_storage(sdk);

	return storage != NULL ? sp_otelcpp_member(storage, f->pointee) : NULL;
}

/*
 * Scopes of opentelemetry-cpp. Attach and Detach are inline functions and each object has a copy of
 * them, so they cannot be hooked by name; but all copies call one storage object. APP context.
 */

/*
 * Hooks Attach and Detach of the instance's known storage classes. False if there is no such class,
 * or if one could not be hooked.
 */
bool sp_otelcpp_scope_expect(struct sp_otelcpp *sdk);

/* The parent of a start, if the SDK shows it: id 0 = none, or none that we recorded. */
struct sp_otelcpp_parent {
	uint64_t id;
	bool is_told;
};

/*
 * At each start, inside the reentrancy guard: the parent that StartSpan gave to the span with those
 * ids. is_told is false if our own stack of the calling thread knows the parent (the active span, if
 * both are of one trace), or if the options cannot be read. First the function hooks the class of the
 * present storage, because the host may install one of its own; the host's storage is asked for the
 * current span (span.h).
 */
struct sp_otelcpp_parent sp_otelcpp_scope_find_parent(struct sp_otelcpp *sdk, const void *options,
						      const struct sp_otelcpp_ids *ids);

/*
 * The trace id of the span that this thread started last: the 8 bytes that every generator varies.
 */
extern SP_TLS uint64_t sp_otelcpp_last_trace;

/*
 * sp_otelcpp_scope_find_parent() for the common start, inlined: the options name no parent, the
 * span begins a new trace, the SDK's storage is hooked, and no doubt is set.
 */
static inline __attribute__((always_inline)) struct sp_otelcpp_parent
sp_otelcpp_scope_parent(struct sp_otelcpp *sdk, const void *options,
			const struct sp_otelcpp_ids *ids)
{
	const void *given = sp_otelcpp_at(options, SP_OTELCPP_OPTIONS_PARENT);
	uint64_t trace = sp_otelcpp_word(ids->trace_id + sizeof(trace));
	const void *storage = sp_otelcpp_storage(sdk);

	if (storage != NULL &&
	    sp_otelcpp_member(storage, 0) ==
		    atomic_load_explicit(&sdk->storage_vptr, memory_order_relaxed) &&
	    atomic_load_explicit(&sdk->doubts, memory_order_relaxed) == 0 &&
	    sp_otelcpp_byte(options, sp_otelcpp_flavour_of(sdk)->parent_index) ==
		    SP_OTELCPP_PARENT_IS_SPAN_CONTEXT &&
	    sp_otelcpp_word(sp_otelcpp_at(given, SP_OTELCPP_CONTEXT_SPAN_ID)) == 0 &&
	    trace != sp_otelcpp_last_trace) {
		bool attached = atomic_load_explicit(&sdk->attached, memory_order_relaxed);

		if (!attached || sp_active_span_shows_parent(NULL)) {
			sp_otelcpp_last_trace = trace;
			return (struct sp_otelcpp_parent){.is_told = !attached};
		}
	}
	return sp_otelcpp_scope_find_parent(sdk, options, ids);
}

/*
 * The scopes of this instance cannot be read, for that reason: logs the reason, and from now on its
 * spans are active from start to end.
 */
void sp_otelcpp_scope_give_up(struct sp_otelcpp *sdk, enum sp_sdk_fact why);

/* Whether attach and detach can be read, so that they show which span a thread works for. */
static inline bool sp_otelcpp_scopes_readable(const struct sp_otelcpp *sdk)
{
	return (atomic_load_explicit(&sdk->doubts, memory_order_relaxed) & SP_OTELCPP_FOREIGN) == 0;
}

/*
 * INIT and APP. Writes a function into a slot of a vtable and restores the page's protection.
 * Returns false, and writes nothing, if the kernel refuses, if other threads hold the lock for too
 * long, or if the page has code and is not writable.
 */
bool sp_otelcpp_vtable_replace(const void *const *slot, const void *function);

/*
 * APP. Code at that address has asked for a variable that begins with OTEL_. An SDK does so before
 * its first span, so this function examines the object once for the SDK's classes.
 */
void sp_otelcpp_asked(const void *caller);

/*
 * APP. An object has registered the function at that address for forked children, and no function
 * for parents. An SDK does so before it draws the id of its first span, so this function examines
 * the object once for the SDK's classes. An object that does not import std::random_device costs
 * nothing.
 */
void sp_otelcpp_forks(const void *child);

/* INIT, just before main(): examines the objects that asked before our constructor ran. */
void sp_otelcpp_main(void);

/*
 * APP. A tracer of that class starts a span through one of our named functions. Returns the
 * tracer's instance, NULL = none; and in *next the SDK's own function, NULL = no object defines
 * one.
 */
struct sp_otelcpp *sp_otelcpp_started(const struct sp_otelcpp_names *names, unsigned which,
				      const void *const *vptr, void **next);

#endif
