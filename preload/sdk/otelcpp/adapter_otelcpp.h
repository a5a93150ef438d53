/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instances of opentelemetry-cpp in this process: their classes and functions, and reading their
 * objects without a line of C++. APP context, inside the reentrancy guard.
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
 * Functions that return a C++ object in memory, with the address of the result as their first
 * argument. On x86-64 that is what they have. On aarch64 the address comes in a register of its
 * own, x8, which C cannot name: a few register moves stand between, one way for calls, the other
 * way for functions of ours that C++ code calls. They touch no memory and need no frame.
 */

/*
 * SP_OTELCPP_CALL(fn, result, ...) calls; SP_OTELCPP_RETURN_CALL(fn, result, result, ...) also
 * returns result, by a jump where that is possible. SP_OTELCPP_ENTRY and SP_OTELCPP_LOCAL_ENTRY
 * declare a function that C++ code calls by that symbol, and SP_OTELCPP_ENTRY_OF is where the symbol
 * leads.
 */
#if defined(__x86_64__)

#define SP_OTELCPP_CALL(fn, ...) ((void)(fn)(__VA_ARGS__))
/* It returns where the result is. */
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

/* The virtual functions that we put ours in place of. */
enum sp_otelcpp_real {
	SP_OTELCPP_REAL_START,
	SP_OTELCPP_REAL_END,
	SP_OTELCPP_REAL_D1,
	SP_OTELCPP_REAL_D0,
	SP_OTELCPP_REAL_RENAME,
	SP_OTELCPP_REAL_SET_ATTRIBUTE,
	/* libstdc++'s: of control blocks with a span or a pointer to one */
	SP_OTELCPP_REAL_DISPOSE_INSIDE,
	SP_OTELCPP_REAL_DISPOSE_POINTER,
	SP_OTELCPP_REAL_N
};

/* The classes that they are of; the last two are libstdc++'s, around a span. */
enum sp_otelcpp_type {
	SP_OTELCPP_TYPE_TRACER,
	SP_OTELCPP_TYPE_SPAN,
	SP_OTELCPP_TYPE_CONTROL_INSIDE,
	SP_OTELCPP_TYPE_CONTROL_POINTER,
	SP_OTELCPP_TYPE_N
};

/* Classes of context storages in one object. */
#define SP_OTELCPP_STORAGES_MAX 4U

/* The function names under which a start may come to us (DEFINE_START of adapter_otelcpp.c). */
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

/* Our functions, for any instance; NULL where there is none. */
extern const void *const sp_otelcpp_hooks[SP_OTELCPP_REAL_N];

enum sp_otelcpp_state { SP_OTELCPP_UNTRIED, SP_OTELCPP_KNOWN, SP_OTELCPP_REJECTED };

/* Where the SDK's spans keep their context. */
enum sp_otelcpp_place {
	SP_OTELCPP_PLACE_UNTRIED,
	SP_OTELCPP_PLACE_POINTER, /* a pointer to it at SP_OTELCPP_SPAN_CONTEXT */
	SP_OTELCPP_PLACE_INLINE,  /* itself there */
	SP_OTELCPP_PLACE_UNKNOWN
};

/* Why a start has to look closer for the parent. Bits, which are only added. */
enum sp_otelcpp_doubt {
	SP_OTELCPP_UNSEEN = 1 << 0, /* what is attached may be on no stack of ours */
	SP_OTELCPP_FOREIGN =
		1 << 1, /* scopes are not understood: spans are active from start to end */
	SP_OTELCPP_OPTIONS = 1 << 2, /* the options of a start are not understood */
};

/*
 * An instance of the SDK. Whoever finds one of its types finds what is behind it: types are stored
 * last.
 */
struct sp_otelcpp {
	const struct sp_otelcpp_names *names;
	struct sp_elf_range object; /* which has its classes */
	_Atomic bool found;         /* object is valid */
	bool by_type;               /* its classes have no names that are seen */
	unsigned control_object;    /* where its control blocks have their object, or point to it */
	const void *const *_Atomic type[SP_OTELCPP_TYPE_N]; /* vptrs; NULL = it has none */
	const void *const *storage_type[SP_OTELCPP_STORAGES_MAX];
	_Atomic bool held;                     /* a vtable or an adapter refers to it for good */
	void *_Atomic real[SP_OTELCPP_REAL_N]; /* what the slots held; NULL = not known */
	_Atomic int state;                     /* enum sp_otelcpp_state */
	const void *span_vptr;                 /* of the SDK's own spans; valid once known */
	/* smart pointer to the RuntimeContextStorage; NULL = out of reach, or not seen yet */
	const char *_Atomic storage;
	const struct sp_otelcpp_flavour *_Atomic flavour; /* NULL until a span was seen */
	_Atomic bool expects;                             /* its storage's first attach */
	_Atomic bool doubted;                             /* its scopes may be detached past us */
	_Atomic bool attached;   /* a context may be current on some thread */
	_Atomic unsigned doubts; /* enum sp_otelcpp_doubt */
	_Atomic int attributes;  /* enum sp_span_attr_when, once a span was recorded */
	const void
		*_Atomic storage_vptr; /* of its storages of the SDK's own class, once it is ours */
	_Atomic int own_context;       /* enum sp_otelcpp_place */
	/* enum sp_otelcpp_state of our knowledge of contexts and of options, and what led to it */
	_Atomic int contexts;
	_Atomic int options;
	_Atomic unsigned looks;
};

/* As a SpanContext has them. */
struct sp_otelcpp_ids {
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t flags;
};
_Static_assert(offsetof(struct sp_otelcpp_ids, span_id) == SP_OTELCPP_CONTEXT_SPAN_ID &&
		       offsetof(struct sp_otelcpp_ids, flags) == SP_OTELCPP_CONTEXT_FLAGS,
	       "as a SpanContext");

/* Where a member lies; and what it is, if it is of a pointer's size, or a byte. */
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

/* The first word of an id, which for a span's is all of it. */
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

/* How the SDK was built; NULL before a span was seen. */
static inline const struct sp_otelcpp_flavour *sp_otelcpp_flavour_of(const struct sp_otelcpp *sdk)
{
	return atomic_load_explicit(&sdk->flavour, memory_order_relaxed);
}

/* How many are alive at once, and those that are unloaded and still referred to. sdk_texts.c names the number. */
#define SP_OTELCPP_INSTANCES_MAX 32U
SP_HIDDEN struct sp_otelcpp sp_otelcpp_instances[SP_OTELCPP_INSTANCES_MAX];

/* The instance with that class; NULL if there is none. */
struct sp_otelcpp *sp_otelcpp_with(enum sp_otelcpp_type type, const void *vptr);

/* The same, in a glance, if it is the first one. */
static inline bool sp_otelcpp_is_first(enum sp_otelcpp_type type, const void *vptr)
{
	/* pairs with sp_otelcpp_instance_add(): what is known of it before its types */
	return atomic_load_explicit(&sp_otelcpp_instances[0].type[type], memory_order_acquire) ==
	       vptr;
}

/*
 * The instance that an object belongs to whose virtual function is ours. Its vtable was changed by
 * us and is still there, so nothing has to be asked.
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

/* What a slot of its vtable held. */
static inline void *sp_otelcpp_real(const struct sp_otelcpp *sdk, enum sp_otelcpp_real which)
{
	return atomic_load_explicit(&sdk->real[which], memory_order_relaxed);
}

/* Its classes and functions as they were found in that object, for sp_otelcpp_instance_add(). */
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
 * Adds an instance, of which nothing is hooked yet. The same one again if its tracers are known,
 * and NULL if more are alive than we can hold, which is told once, or another thread is adding one. If
 * only the start was found of one whose spans are known, nothing but its state changes.
 */
struct sp_otelcpp *sp_otelcpp_instance_add(const struct sp_otelcpp_found *found);

/* The instance is hooked, and its objects can be read as far as is known. */
static inline bool sp_otelcpp_known(const struct sp_otelcpp *sdk)
{
	return atomic_load_explicit(&sdk->state, memory_order_relaxed) == SP_OTELCPP_KNOWN;
}

/* For sp_otelcpp_returned(), before a span was seen. */
void *sp_otelcpp_first_returned(struct sp_otelcpp *sdk, const void *pointer);

/* The SDK's own span in the smart pointer that StartSpan returned; NULL if it is another class. */
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
 * Checks at first use: they ask the kernel whether memory is readable before they read it, and are too slow
 * for every call. An aligned word can be read there.
 */
bool sp_otelcpp_readable(const void *p);

/* By the name in the typeinfo before the vtable; there is none with -fno-rtti. */
bool sp_otelcpp_is_type(const void *vptr, const char *type);

/*
 * A smart pointer of that kind of build lies there, which may be null: with a class of its own
 * (nostd), or with a control block of libstdc++ in use.
 */
bool sp_otelcpp_is_pointer(const struct sp_otelcpp_flavour *f, const void *pointer);

/* The context is a list as we know it, or empty. */
bool sp_otelcpp_context_fits(struct sp_otelcpp *sdk, const void *context);

/* Where a smart pointer of the SDK leads; a span must have been seen. */
static inline void *sp_otelcpp_pointee(const struct sp_otelcpp *sdk, const void *pointer)
{
	return sp_otelcpp_member(pointer, sp_otelcpp_flavour_of(sdk)->pointee);
}

/* Destroys a smart pointer that the SDK gave us. */
void sp_otelcpp_release(const struct sp_otelcpp_flavour *f, void *pointer);

/* Calls of span methods, through the vtable. */
bool sp_otelcpp_is_recording(const struct sp_otelcpp *sdk, void *span);
void sp_otelcpp_ids(struct sp_otelcpp *sdk, void *span, struct sp_otelcpp_ids *out);

/* For the two below, where the span has to be asked: hardly any build needs that after its first span. */
void sp_otelcpp_ask_ids(struct sp_otelcpp *sdk, void *span, struct sp_otelcpp_ids *out);
bool sp_otelcpp_ask_span_id(struct sp_otelcpp *sdk, void *span, uint64_t *id);

/* Where one of the SDK's own spans has its ids; NULL if it has to be asked. */
static inline const struct sp_otelcpp_ids *sp_otelcpp_ids_in(const struct sp_otelcpp *sdk,
							     const void *span)
{
	/* pairs with sp_otelcpp_ask_ids(): whoever sees the place sees the flavour */
	int place = atomic_load_explicit(&sdk->own_context, memory_order_acquire);
	const void *context = sp_otelcpp_at(span, SP_OTELCPP_SPAN_CONTEXT);

	if (place == SP_OTELCPP_PLACE_POINTER)
		return sp_otelcpp_member(context, 0);
	return place == SP_OTELCPP_PLACE_INLINE ? context : NULL;
}

/* The ids of one of the SDK's own spans, in the span or in what the caller has for the answer. */
static inline const struct sp_otelcpp_ids *sp_otelcpp_own_ids(struct sp_otelcpp *sdk, void *span,
							      struct sp_otelcpp_ids *asked)
{
	const struct sp_otelcpp_ids *ids = sp_otelcpp_ids_in(sdk, span);

	if (ids != NULL)
		return ids;
	sp_otelcpp_ask_ids(sdk, span, asked);
	return asked;
}

/* The span id alone of one of the SDK's own spans. False before any was seen. */
static inline bool sp_otelcpp_span_id(struct sp_otelcpp *sdk, void *span, uint64_t *id)
{
	const struct sp_otelcpp_ids *ids = sp_otelcpp_ids_in(sdk, span);

	if (ids == NULL)
		return sp_otelcpp_ask_span_id(sdk, span, id);
	*id = sp_otelcpp_word(ids->span_id);
	return true;
}

/* Where the smart pointer to the storage is; NULL if it is not known. */
static inline const char *sp_otelcpp_get_storage(const struct sp_otelcpp *sdk)
{
	return atomic_load_explicit(&sdk->storage, memory_order_relaxed);
}

static inline void sp_otelcpp_set_storage(struct sp_otelcpp *sdk, const void *storage)
{
	atomic_store_explicit(&sdk->storage, (const char *)storage, memory_order_relaxed);
}

/* The object that keeps the threads' current contexts; NULL if it is out of reach. */
static inline void *sp_otelcpp_storage(const struct sp_otelcpp *sdk)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const char *storage = sp_otelcpp_get_storage(sdk);

	return storage != NULL ? sp_otelcpp_member(storage, f->pointee) : NULL;
}

/*
 * Scopes of opentelemetry-cpp. Attach and Detach are inline functions of which every user has a
 * copy, so they cannot be hooked by name; but all go through one storage object. APP context.
 */

/*
 * Attach and Detach of the classes of storages that the instance was found with come to us from now on. False
 * if there is no such class, or if one could not be replaced.
 */
bool sp_otelcpp_scope_expect(struct sp_otelcpp *sdk);

/* The parent of a start, as far as the SDK says: 0 = none, or none that is recorded here. */
struct sp_otelcpp_parent {
	uint64_t id;
	bool is_told;
};

/*
 * At each start, inside the reentrancy guard: the parent that StartSpan gave the span of those ids on the
 * calling thread. is_told is false if it is the span that is active on the thread by our own stack, if they
 * are of one trace, or cannot be told. Before, it hooks the class of the present storage, as the host may
 * bring one of its own; that one is asked what is current (span.h).
 */
struct sp_otelcpp_parent sp_otelcpp_scope_find_parent(struct sp_otelcpp *sdk, const void *options,
						      const struct sp_otelcpp_ids *ids);

/* Of the span that was last started on this thread: the half of the trace that every generator varies. */
extern SP_TLS uint64_t sp_otelcpp_last_trace;

/*
 * The same, in a glance, for the common start: the options name no parent and begin no known trace, and
 * the storage of the SDK is ours and nothing is in doubt.
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

		if (!attached || sp_active_span_tells_parent(NULL)) {
			sp_otelcpp_last_trace = trace;
			return (struct sp_otelcpp_parent){.is_told = !attached};
		}
	}
	return sp_otelcpp_scope_find_parent(sdk, options, ids);
}

/*
 * Scopes of this instance are not understood, for that reason: logs it, and from now on its spans
 * are active from start to end.
 */
void sp_otelcpp_scope_give_up(struct sp_otelcpp *sdk, enum sp_sdk_fact why);

/* Attach and detach are understood, so they tell which span a thread works for. */
static inline bool sp_otelcpp_scopes_tell(const struct sp_otelcpp *sdk)
{
	return (atomic_load_explicit(&sdk->doubts, memory_order_relaxed) & SP_OTELCPP_FOREIGN) == 0;
}

/*
 * INIT and APP. Puts a function into a slot of a vtable; the page's protection is the same afterwards. Does nothing and
 * returns false if that is refused, if other threads hold the lock for too long, or if there is code
 * in a page that is not writable.
 */
bool sp_otelcpp_vtable_replace(const void *const *slot, const void *function);

/*
 * APP. Code at that address has asked for a variable that begins with OTEL_, as an SDK does that is about to
 * be used: looks for its classes, in each object once.
 */
void sp_otelcpp_asked(const void *caller);

/* INIT, just before main(): looks at the objects that asked before our constructor. */
void sp_otelcpp_main(void);

/*
 * APP. A start by one of its names, of a tracer of that class: its instance, NULL if there is none,
 * and the SDK's own function, NULL if nothing has that name.
 */
struct sp_otelcpp *sp_otelcpp_started(const struct sp_otelcpp_names *names, unsigned which,
				      const void *const *vptr, void **next);

#endif
