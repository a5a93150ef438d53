/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of opentelemetry-cpp: their content, where they are attached and detached, and the
 * parents of spans that follow from them. The memory layout of a context is no interface of the
 * SDK, so the first contexts are checked before the layout is trusted.
 *
 * Every attach and detach goes through one storage object, whose class is the SDK's or the
 * program's. Attach and Detach are replaced in the vtable of that class, as the functions of
 * tracers and spans are. APP context.
 */
#include "preload/sdk/otelcpp/adapter_otelcpp.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/compiler.h"
#include "sampler/base/try_lock.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/span/span.h"

/* After this many contexts with the expected layout the layout is trusted. */
#define LOOKS_MAX 64U

/* All empty contexts are equal; their list pointer is null, and no list begins at this address. */
#define KEY_EMPTY 1U

/*
 * The identity of a context, which the SDK compares, too: the address of the head of its list;
 * never 0.
 */
static inline uint64_t context_key(const struct sp_otelcpp *sdk, const void *context)
{
	uintptr_t list = (uintptr_t)sp_otelcpp_pointee(sdk, context);

	return list != 0 ? list : KEY_EMPTY;
}

/*
 * The node that GetValue(key) would find. Inlined, so that a key of constant length is compared
 * without a call.
 */
static inline __attribute__((always_inline)) const void *
find_node(struct sp_otelcpp *sdk, const void *context, const char *key)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const void *node = sp_otelcpp_pointee(sdk, context);
	const size_t len = strlen(key);

	for (unsigned n = 0; node != NULL && n < SP_OTELCPP_NODES_MAX; n++) {
		if ((size_t)(uintptr_t)sp_otelcpp_member(node, f->node_key_len) == len &&
		    memcmp(sp_otelcpp_member(node, SP_OTELCPP_NODE_KEY), key, len) == 0)
			return node;
		node = sp_otelcpp_member(node, (unsigned long)f->node_next + f->pointee);
	}
	return NULL;
}

/* Whether enough contexts and options were checked without a contradiction. */
static bool looked_enough(struct sp_otelcpp *sdk)
{
	return atomic_fetch_add_explicit(&sdk->looks, 1, memory_order_relaxed) >= LOOKS_MAX;
}

/* The part of is_understood() for the time before enough contexts were checked. */
static __attribute__((noinline)) bool looks_right(struct sp_otelcpp *sdk, const void *context)
{
	int state = atomic_load_explicit(&sdk->contexts, memory_order_relaxed);

	if (state != SP_OTELCPP_UNTRIED || sp_otelcpp_pointee(sdk, context) == NULL)
		return state != SP_OTELCPP_REJECTED;
	if (!sp_otelcpp_context_fits(sdk, context)) {
		atomic_store_explicit(&sdk->contexts, SP_OTELCPP_REJECTED, memory_order_relaxed);
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_CONTEXT);
		return false;
	}
	/* A context with a span proves most; some programs have only contexts without one. */
	if (find_node(sdk, context, SP_OTELCPP_KEY_SPAN) != NULL || looked_enough(sdk))
		atomic_store_explicit(&sdk->contexts, SP_OTELCPP_KNOWN, memory_order_relaxed);
	return true;
}

/* Whether the context has the layout that we know. Only the first contexts are examined. */
static inline bool is_understood(struct sp_otelcpp *sdk, const void *context)
{
	return atomic_load_explicit(&sdk->contexts, memory_order_relaxed) == SP_OTELCPP_KNOWN ||
	       looks_right(sdk, context);
}

/* Whether an id of 8 or 16 bytes is zero. */
static bool all_zero(const uint8_t *id, size_t n)
{
	uint64_t first;
	uint64_t last;

	memcpy(&first, id, sizeof(first));
	memcpy(&last, id + n - sizeof(last), sizeof(last));
	return (first | last) == 0;
}

/* The ids of the valid span in a context that can be read. False if the context has none. */
static bool context_span(struct sp_otelcpp *sdk, const void *context, struct sp_otelcpp_ids *out)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const void *node = find_node(sdk, context, SP_OTELCPP_KEY_SPAN);
	void *span;

	if (node == NULL || sp_otelcpp_byte(node, f->node_index) != SP_OTELCPP_VALUE_IS_SPAN)
		return false;
	span = sp_otelcpp_member(node, (unsigned long)f->node_value + f->pointee);
	if (span == NULL)
		return false;
	/* A remote parent is a span, too, of another class with the same interface. */
	if (sp_otelcpp_member(span, 0) == sdk->span_vptr)
		memcpy(out, sp_otelcpp_own_ids(sdk, span, out), sizeof(*out));
	else
		sp_otelcpp_ids(sdk, span, out);
	return !all_zero(out->span_id, sizeof(out->span_id)) &&
	       !all_zero(out->trace_id, sizeof(out->trace_id));
}

static bool context_says_root(struct sp_otelcpp *sdk, const void *context)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const void *node = find_node(sdk, context, SP_OTELCPP_KEY_IS_ROOT);

	return node != NULL && sp_otelcpp_byte(node, f->node_index) == SP_OTELCPP_VALUE_IS_BOOL &&
	       sp_otelcpp_byte(node, f->node_value) != 0;
}

static void *slot(const void *vptr, unsigned which)
{
	return sp_otelcpp_member(vptr, which * sizeof(void *));
}

static void get_current(void *storage, struct sp_otelcpp_object *context)
{
	void *(*get)(void *, void *) =
		slot(sp_otelcpp_member(storage, 0), SP_OTELCPP_SLOT_GET_CURRENT);

	SP_OTELCPP_CALL(get, context, storage);
}

/*
 * Asks the storage for the calling thread's current context, and returns the key of that; 0 = the
 * context cannot be read.
 */
static uint64_t current_key(const struct sp_otelcpp *sdk, void *storage)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	struct sp_otelcpp_object current;
	uint64_t key;

	memset(&current, 0, sizeof(current));
	get_current(storage, &current);
	if (!sp_otelcpp_is_pointer(f, &current))
		return 0; /* unknown layout: it cannot be destroyed */
	key = context_key(sdk, &current);
	sp_otelcpp_release(f, &current);
	return key;
}

/*
 * The id of the calling thread's current span, which the storage is asked for; zero = there is
 * none. False if the storage or its answer cannot be read.
 */
static bool current_span(struct sp_otelcpp *sdk, void *storage, uint8_t span_id[8])
{
	struct sp_otelcpp_object context;
	struct sp_otelcpp_ids ids;

	memset(span_id, 0, 8);
	if (storage == NULL || !sp_otelcpp_scopes_readable(sdk))
		return false;
	memset(&context, 0, sizeof(context));
	get_current(storage, &context);
	if (atomic_load_explicit(&sdk->contexts, memory_order_relaxed) != SP_OTELCPP_KNOWN &&
	    !sp_otelcpp_is_pointer(sp_otelcpp_flavour_of(sdk), &context)) {
		/* unknown layout: it cannot be destroyed */
		(void)looks_right(sdk, &context);
		return false;
	}
	if (is_understood(sdk, &context) && context_span(sdk, &context, &ids))
		memcpy(span_id, ids.span_id, 8);
	sp_otelcpp_release(sp_otelcpp_flavour_of(sdk), &context);
	return true;
}

typedef void *attach_fn(void *result, void *self, const void *context);
typedef bool detach_fn(void *self, void *token);

/* After this many contexts that look empty, and no other, the layout counts as unknown. */
#define EMPTY_MAX 64U

/* Values of struct storage_class.token besides offsets, which are multiples of a pointer's size. */
#define TOKEN_UNKNOWN (-1)
#define TOKEN_FOREIGN (-2)

/*
 * Classes of storages: the SDKs' and the host's own. Each object that includes
 * the SDK's headers has a copy of the SDK's class; the linking decides which one is used. A class's
 * number tells its storages apart in tokens; 0 is for SDKs whose scopes belong to threads.
 */
#define CLASSES_MAX (SP_SPAN_STORAGES - 1)

struct storage_class {
	const void *_Atomic vptr; /* NULL = free; written last */
	struct sp_otelcpp *_Atomic sdk;
	uint32_t number;
	bool is_own;           /* not the SDK's class, so it may store contexts by fibers */
	_Atomic bool bypassed; /* calls of Detach may bypass our slot */
	_Atomic bool silent;   /* its scopes do not show which span a thread works for */
	_Atomic int token;     /* offset of the context in the tokens that it makes */
	_Atomic unsigned empty;
	attach_fn *attach; /* the slots' original functions */
	detach_fn *detach;
};

static struct storage_class classes[CLASSES_MAX];
static struct sp_try_lock classes_busy;

/* The class with that vptr. vptr NULL: a free entry. */
static struct storage_class *class_with(const void *vptr)
{
	for (unsigned i = 0; i < CLASSES_MAX; i++) {
		/* pairs with hook_class() */
		if (atomic_load_explicit(&classes[i].vptr, memory_order_acquire) == vptr)
			return &classes[i];
	}
	return NULL;
}

/* The class of the last start's storage; usually there is one storage. */
static struct storage_class *_Atomic class_in_use = classes;

/* The class of a storage whose functions we have replaced. */
static inline struct storage_class *class_of(const void *self)
{
	const void *vptr = sp_otelcpp_member(self, 0);
	struct storage_class *c = atomic_load_explicit(&class_in_use, memory_order_relaxed);

	if (atomic_load_explicit(&c->vptr, memory_order_acquire) == vptr)
		return c;
	c = class_with(vptr);
	return c != NULL ? c : &classes[0];
}

static inline struct sp_otelcpp *sdk_of(const struct storage_class *c)
{
	return atomic_load_explicit(&c->sdk, memory_order_relaxed);
}

static inline uint64_t token_of(const struct storage_class *c, const struct sp_otelcpp *sdk,
				const void *context)
{
	return sp_span_token_of(c->number, context_key(sdk, context));
}

static void raise_flag(_Atomic bool *flag)
{
	if (!atomic_load_explicit(flag, memory_order_relaxed))
		atomic_store_explicit(flag, true, memory_order_relaxed);
}

static void raise_doubt(struct sp_otelcpp *sdk, unsigned doubt)
{
	if ((atomic_load_explicit(&sdk->doubts, memory_order_relaxed) & doubt) != doubt)
		atomic_fetch_or_explicit(&sdk->doubts, doubt, memory_order_relaxed);
}

/* A context may have been attached or detached without a change of our stack. */
static __attribute__((noinline)) void note_unseen(struct sp_otelcpp *sdk)
{
	raise_doubt(sdk, SP_OTELCPP_UNSEEN);
	raise_flag(&sdk->attached);
}

__attribute__((cold)) void sp_otelcpp_scope_give_up(struct sp_otelcpp *sdk, enum sp_sdk_fact why)
{
	raise_doubt(sdk, SP_OTELCPP_FOREIGN | SP_OTELCPP_UNSEEN);
	for (unsigned i = 0; i < CLASSES_MAX; i++) {
		if (sdk_of(&classes[i]) == sdk)
			atomic_store_explicit(&classes[i].token, TOKEN_FOREIGN,
					      memory_order_relaxed);
	}
	sp_sdk_disproved(sdk->names->sdk, why);
}

static __attribute__((noinline, cold)) void silence(struct storage_class *c)
{
	atomic_store_explicit(&c->silent, true, memory_order_relaxed);
	sp_active_span_silence(c->number);
	sp_sdk_disproved(sdk_of(c)->names->sdk, SP_SDK_FACT_OWN_STORAGE);
}

/*
 * Called before the class is hooked: whether another class next to it has the same Detach and
 * another Attach. A compiler that sees the whole program (clang's -fwhole-program-vtables) calls a
 * storage function directly if it has just one implementation: Attach through the slots that we
 * watch, and Detach directly, so a label would outlive its scope.
 */
static bool lends_detach(const void *vptr)
{
	const size_t word = sizeof(void *);
	const void *attach = slot(vptr, SP_OTELCPP_SLOT_ATTACH);
	const void *detach = slot(vptr, SP_OTELCPP_SLOT_DETACH);
	const struct sp_elf_segment *g;
	struct sp_elf_image image;

	g = sp_elf_image_at(vptr, &image) ? sp_elf_image_segment(&image, (uintptr_t)vptr, word)
					  : NULL;
	if (g == NULL || g->from_file > SP_ELF_IMAGE_SEARCH_MAX ||
	    !sp_elf_image_readable(g->start, g->from_file))
		return false;
	for (uintptr_t at = (g->start + word) & ~(word - 1);
	     at + 2 * word <= g->start + g->from_file; at += word) {
		const void *const *slots = (const void *const *)at;

		if (slots[1] == detach && slots[0] != attach &&
		    sp_elf_object_at(slots[0]).size != 0)
			return true;
	}
	return false;
}

/*
 * Asks a storage for the current context. The program's code answers. The SDK itself asks the
 * storage at each start without a given parent and before each scope, on this thread and outside of
 * the storage's own functions; so we ask at the same moments. If the program's code starts spans or
 * scopes meanwhile, they are inside the reentrancy guard.
 */
static void ask(struct storage_class *c, void *self)
{
	uint8_t says[8];
	uint64_t id;

	if (!c->is_own || sp_otelcpp_flavour_of(sdk_of(c)) == NULL ||
	    atomic_load_explicit(&c->silent, memory_order_relaxed) ||
	    atomic_load_explicit(&c->token, memory_order_relaxed) == TOKEN_FOREIGN ||
	    !current_span(sdk_of(c), self, says))
		return;
	memcpy(&id, says, sizeof(id));
	if (!sp_active_span_agrees(c->number, id))
		silence(c);
}

/*
 * Whether a pointer to that context lies there: both words of the pointer are compared, because
 * neither is null.
 */
static bool lies_at(struct sp_otelcpp *sdk, const char *there, const void *context)
{
	unsigned long pointee = sp_otelcpp_flavour_of(sdk)->pointee;
	unsigned long other = pointee + sizeof(void *);

	return sp_otelcpp_readable(there + pointee) && sp_otelcpp_readable(there + other) &&
	       sp_otelcpp_member(there, pointee) == sp_otelcpp_member(context, pointee) &&
	       sp_otelcpp_member(there, other) == sp_otelcpp_member(context, other);
}

/* Words that may hold a storage's address: the SDK's pointer, and copies that the program has. */
#define REFERENCES_MAX 16U

/*
 * An SDK without names has its pointer to the storage somewhere in its object. A program may have a
 * pointer to its own storage in a variable there. A plain pointer differs from a smart pointer by
 * its surroundings. Any smart pointer will do: all lead to the storage while it is in use.
 */
static void find_storage(struct sp_otelcpp *sdk, const void *self)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const void *const *word[REFERENCES_MAX];
	struct sp_elf_image image;
	unsigned n;

	if (!sp_elf_image_at(sdk->span_vptr, &image))
		return;
	n = sp_elf_image_references(&image, self, word, REFERENCES_MAX);
	for (unsigned i = 0; i < n; i++) {
		const char *pointer = (const char *)word[i] - f->pointee;

		if (sp_elf_image_segment(&image, (uintptr_t)pointer, 2 * sizeof(void *)) != NULL &&
		    sp_otelcpp_is_pointer(f, pointer)) {
			sp_otelcpp_set_storage(sdk, pointer);
			return;
		}
	}
}

/*
 * Finds the offset of the context in the tokens of this storage: the first token contains the
 * context that was just attached. An empty context looks like any zeros, so its token shows
 * nothing. TOKEN_UNKNOWN = the next token may show it. A class whose Detach a compiler may call
 * directly (lends_detach()) is silenced, but its storage can still be asked.
 */
static __attribute__((noinline, cold)) int learn(struct storage_class *c, void *self,
						 const void *token, const void *context)
{
	struct sp_otelcpp *sdk = sdk_of(c);
	int offset = 0;

	if (atomic_load_explicit(&c->bypassed, memory_order_relaxed) &&
	    !atomic_load_explicit(&c->silent, memory_order_relaxed)) {
		silence(c);
		note_unseen(sdk);
	}
	if (!sp_otelcpp_scopes_readable(sdk))
		return TOKEN_FOREIGN;
	if (sp_otelcpp_pointee(sdk, context) == NULL) {
		if (atomic_fetch_add_explicit(&c->empty, 1, memory_order_relaxed) < EMPTY_MAX)
			return TOKEN_UNKNOWN;
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_CONTEXT);
		return TOKEN_FOREIGN;
	}
	/*
	 * The address is searched again if the known one leads to another storage: the program has
	 * installed this storage, and the known address may be a variable of the program that still
	 * points to the former storage.
	 */
	if (sdk->by_type && sp_otelcpp_storage(sdk) != self)
		find_storage(sdk, self);
	if (sp_otelcpp_get_storage(sdk) == NULL ||
	    current_key(sdk, self) != context_key(sdk, context)) {
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_STORAGE);
		return TOKEN_FOREIGN;
	}
	while (!lies_at(sdk, (const char *)token + offset, context)) {
		offset += (int)sizeof(void *);
		if (offset > (int)SP_OTELCPP_TOKEN_CONTEXT_MAX) {
			sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_TOKEN);
			return TOKEN_FOREIGN;
		}
	}
	atomic_store_explicit(&c->token, offset, memory_order_relaxed);
	return offset;
}

/* The id of the span in a context that can be read; 0 = none. */
static inline __attribute__((always_inline)) uint64_t span_in(struct sp_otelcpp *sdk,
							      const void *context)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const void *node = find_node(sdk, context, SP_OTELCPP_KEY_SPAN);
	const struct sp_otelcpp_ids *ids = NULL;
	struct sp_otelcpp_ids asked;
	const void *span;

	if (node == NULL || sp_otelcpp_byte(node, f->node_index) != SP_OTELCPP_VALUE_IS_SPAN)
		return 0;
	span = sp_otelcpp_member(node, (unsigned long)f->node_value + f->pointee);
	if (span != NULL && sp_otelcpp_member(span, 0) == sdk->span_vptr)
		ids = sp_otelcpp_ids_in(sdk, span);
	if (ids != NULL)
		return sp_otelcpp_word(ids->span_id);
	return context_span(sdk, context, &asked) ? sp_otelcpp_word(asked.span_id) : 0;
}

/*
 * result: a unique pointer to the token. noinline: sp_otelcpp_attach() handles the common case
 * itself and rarely calls this function.
 */
static __attribute__((noinline)) void attached(struct storage_class *c, void *self,
					       const void *result, const void *context)
{
	struct sp_otelcpp *sdk = sdk_of(c);
	int token = atomic_load_explicit(&c->token, memory_order_relaxed);

	if (token == TOKEN_UNKNOWN)
		token = learn(c, self, sp_otelcpp_member(result, 0), context);
	if (token == TOKEN_FOREIGN || !is_understood(sdk, context)) {
		note_unseen(sdk);
		sp_active_span_forget_scopes();
		return;
	}
	if (!sp_active_span_attach(token_of(c, sdk, context), span_in(sdk, context))) {
		/*
		 * Fibers attach on one thread and detach on another, so the scopes pile up where
		 * they were attached.
		 */
		if (c->is_own)
			silence(c);
		else
			sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_NESTING);
	}
	if (sp_thread_own == NULL)
		note_unseen(sdk);
}

/*
 * The cases that are rare or may call the SDK. Before a span was seen, nothing of the instance is
 * read.
 */
static __attribute__((noinline)) void attached_anyhow(struct storage_class *c, void *self,
						      const void *result, const void *context)
{
	struct sp_otelcpp *sdk = sdk_of(c);
	struct sp_reentrancy_guard g;

	if (sp_otelcpp_flavour_of(sdk) == NULL)
		return;
	g = sp_reentrancy_guard_enter();
	if (g.outermost && sp_lifecycle_active()) {
		int saved = errno;

		attached(c, self, result, context);
		errno = saved;
	} else {
		note_unseen(sdk);
	}
	sp_reentrancy_guard_exit(g);
}

static __attribute__((noinline)) void ask_before(struct storage_class *c, void *self)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	if (g.outermost && sp_lifecycle_active()) {
		int saved = errno;

		ask(c, self);
		errno = saved;
	}
	sp_reentrancy_guard_exit(g);
}

SP_OTELCPP_LOCAL_ENTRY(sp_otelcpp_attach, attach_fn, "sp_otelcpp_attach_entry");

void *sp_otelcpp_attach(void *result, void *self, const void *context)
{
	struct storage_class *c = class_of(self);
	struct sp_otelcpp *sdk = sdk_of(c);

	/*
	 * The flag is set also inside the reentrancy guard: a context that a wrapper attaches
	 * becomes current, too.
	 */
	raise_flag(&sdk->attached);
	if (c->is_own)
		ask_before(c, self);
	SP_OTELCPP_CALL(c->attach, result, self, context);
	/*
	 * The common case: the thread has a block, and the layout of contexts and tokens is known.
	 * Only our own functions are called, so neither the reentrancy guard nor errno matters.
	 */
	if (!sp_reentrancy_guard_inside((uintptr_t)__builtin_frame_address(0)) &&
	    sp_lifecycle_active() && sp_thread_own != NULL && !c->is_own &&
	    atomic_load_explicit(&c->token, memory_order_relaxed) >= 0 &&
	    atomic_load_explicit(&sdk->contexts, memory_order_relaxed) == SP_OTELCPP_KNOWN) {
		if (!sp_active_span_attach(token_of(c, sdk, context), span_in(sdk, context)))
			sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_NESTING);
	} else {
		attached_anyhow(c, self, result, context);
	}
	return result;
}

/* The scope token that this SDK token's context got at its attach; 0 = unknown. */
static inline uint64_t token_of_scope(const struct storage_class *c, const void *token)
{
	int offset = atomic_load_explicit(&c->token, memory_order_relaxed);

	if (offset >= 0)
		return token_of(c, sdk_of(c), (const char *)token + offset);
	/* Before the first useful token there were only empty contexts. */
	return offset == TOKEN_FOREIGN ? 0 : sp_span_token_of(c->number, KEY_EMPTY);
}

/*
 * A token matches the topmost attached context that equals its own, whichever attach made it.
 * Contexts above are detached too, and that may drop the last reference to a span, which then ends.
 * The real function is called outside of the reentrancy guard, so that we see this end.
 */
static bool detach(void *self, void *token)
{
	const struct storage_class *c = class_of(self);
	uint64_t scope = token_of_scope(c, token);

	if (!c->detach(self, token))
		return false;
	if (scope != 0 && sp_lifecycle_active() &&
	    !sp_reentrancy_guard_inside((uintptr_t)__builtin_frame_address(0))) {
		sp_active_span_detached(scope, true);
	} else if (sp_otelcpp_flavour_of(sdk_of(c)) != NULL) {
		note_unseen(sdk_of(c));
	}
	return true;
}

/*
 * The class belongs to that instance. A vtable refers to the instance now, so its entry is never
 * given to another object.
 */
static void hold(struct storage_class *c, struct sp_otelcpp *sdk)
{
	atomic_store_explicit(&sdk->held, true, memory_order_release);
	atomic_store_explicit(&c->sdk, sdk, memory_order_relaxed);
}

static bool is_hooked(const void *vptr)
{
	return slot(vptr, SP_OTELCPP_SLOT_ATTACH) == SP_OTELCPP_ENTRY_OF(sp_otelcpp_attach);
}

/*
 * Several instances may use one class. It belongs to the first instance that has started a span; the
 * others ask the storage.
 */
static bool is_settled(const struct storage_class *c, const void *vptr)
{
	return is_hooked(vptr) && sp_otelcpp_flavour_of(sdk_of(c)) != NULL;
}

/*
 * Under the lock. If a class was unloaded, another class may have its address now, with the slots
 * of its file. False if there are too many classes, if this one is not relocated yet, or if its
 * slots cannot be changed.
 */
static bool hook_class(struct sp_otelcpp *sdk, const void *vptr)
{
	const void *const *slots = vptr;
	struct storage_class *c = class_with(vptr);
	const void *real = slots[SP_OTELCPP_SLOT_DETACH];

	if (c != NULL && is_hooked(vptr)) {
		if (!is_settled(c, vptr))
			hold(c, sdk);
		return true;
	}
	if (c == NULL)
		c = class_with(NULL);
	if (c == NULL || sp_elf_object_at(slots[SP_OTELCPP_SLOT_ATTACH]).size == 0)
		return false;
	hold(c, sdk);
	c->number = (uint32_t)(c - classes) + 1;
	/* The SDK's own class has a stack for each thread, so it need not be asked. */
	c->is_own = !sp_otelcpp_is_type(vptr, sdk->names->storage_class + strlen("_ZTV"));
	atomic_store_explicit(&c->silent, false, memory_order_relaxed);
	atomic_store_explicit(&c->bypassed,
			      atomic_load_explicit(&sdk->bypassed, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&c->token,
			      sp_otelcpp_scopes_readable(sdk) ? TOKEN_UNKNOWN : TOKEN_FOREIGN,
			      memory_order_relaxed);
	c->attach = slot(vptr, SP_OTELCPP_SLOT_ATTACH);
	/* Detach is ours already if an earlier try replaced it and then failed at Attach. */
	if (real != (const void *)detach)
		c->detach = (detach_fn *)(uintptr_t)real;
	atomic_store_explicit(&c->vptr, vptr, memory_order_release);
	return sp_otelcpp_vtable_replace(slots + SP_OTELCPP_SLOT_DETACH, (const void *)detach) &&
	       sp_otelcpp_vtable_replace(slots + SP_OTELCPP_SLOT_ATTACH,
					 SP_OTELCPP_ENTRY_OF(sp_otelcpp_attach));
}

static void hook_vtable(struct sp_otelcpp *sdk, const void *vtable)
{
	(void)hook_class(sdk, (const void *const *)vtable + SP_OTELCPP_VTABLE_HEAD);
}

/*
 * A span is recorded and there is no storage: opentelemetry-cpp creates the storage when the
 * current context is first asked for, and since 1.28 a span with an explicit root does not ask. If
 * the program then attaches that span, the attach itself creates the storage, so the class has to
 * be hooked before. Once for each instance; a failure changes nothing.
 */
static void expect_storage(struct sp_otelcpp *sdk)
{
	void *vtable[CLASSES_MAX];
	const void *bound;
	unsigned n;

	if (atomic_exchange_explicit(&sdk->expects, true, memory_order_relaxed) ||
	    !sp_try_lock_once(&classes_busy))
		return;
	n = sp_elf_find_all(sdk->names->storage_class, vtable, CLASSES_MAX);
	for (unsigned i = 0; i < n && i < CLASSES_MAX; i++)
		hook_vtable(sdk, vtable[i]);
	/*
	 * The program's own copy of the class, which precedes us in the search order, if the SDK
	 * uses that copy.
	 */
	bound = sp_relocations_reference(&sdk->object, sdk->names->storage_class);
	if (bound != NULL)
		hook_vtable(sdk, bound);
	sp_unlock(&classes_busy);
}

bool sp_otelcpp_scope_expect(struct sp_otelcpp *sdk)
{
	bool all = sdk->storage_type[0] != NULL;

	if (!sp_try_lock(&classes_busy))
		return false;
	for (unsigned i = 0; i < SP_OTELCPP_STORAGES_MAX && sdk->storage_type[i] != NULL; i++) {
		if (sdk->by_type && !is_hooked(sdk->storage_type[i]) &&
		    lends_detach(sdk->storage_type[i]))
			atomic_store_explicit(&sdk->bypassed, true, memory_order_relaxed);
		all = hook_class(sdk, sdk->storage_type[i]) && all;
	}
	/* If the class has a name, other objects have copies of it; the first span finds those. */
	atomic_store_explicit(&sdk->expects, all && sp_otelcpp_get_storage(sdk) == NULL,
			      memory_order_relaxed);
	sp_unlock(&classes_busy);
	return all;
}

/*
 * Makes sure that the storage's Attach and Detach are hooked; the host may install a storage of its
 * own at any time. NULL = they are not.
 */
static struct storage_class *watch(struct sp_otelcpp *sdk, const void *storage)
{
	const void *vptr = storage != NULL ? sp_otelcpp_member(storage, 0) : NULL;
	struct storage_class *c = class_with(vptr);
	bool hooked;

	if (!sp_otelcpp_scopes_readable(sdk))
		return NULL;
	if (vptr == NULL) {
		/* a library without any storage; in others the first use creates it */
		if (sp_otelcpp_get_storage(sdk) != NULL)
			expect_storage(sdk);
		else if (!atomic_load_explicit(&sdk->expects, memory_order_relaxed))
			sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_STORAGE);
		return NULL;
	}
	if (c == NULL || !is_settled(c, vptr)) {
		/*
		 * Another thread hooks the class, which takes a short time. We do not see a context
		 * that this thread attaches meanwhile. If the hooking takes long, the next start
		 * tries again.
		 */
		if (!sp_try_lock(&classes_busy)) {
			note_unseen(sdk);
			return NULL;
		}
		hooked = hook_class(sdk, vptr);
		sp_unlock(&classes_busy);
		if (!hooked) {
			sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_STORAGE);
			return NULL;
		}
	}
	c = class_with(vptr);
	if (atomic_load_explicit(&class_in_use, memory_order_relaxed) != c)
		atomic_store_explicit(&class_in_use, c, memory_order_relaxed);
	if (!c->is_own && sdk_of(c) == sdk)
		atomic_store_explicit(&sdk->storage_vptr, vptr, memory_order_relaxed);
	return c;
}

/* Where the calling thread's current span can be found. */
enum current {
	CURRENT_NONE,  /* no recorded span is current on any thread */
	CURRENT_SEEN,  /* our stack has all attached spans */
	CURRENT_ASKED, /* only the storage knows */
};

/*
 * The first call comes before the first recorded span. As long as no thread has attached a context
 * since, no recorded span can be current anywhere. Later the calling thread's current spans are on
 * its stack, except those that were attached before the class was hooked, or inside another hooked
 * call.
 */
static inline enum current current_of(struct sp_otelcpp *sdk)
{
	void *storage = sp_otelcpp_storage(sdk);
	struct storage_class *c = watch(sdk, storage);

	if (c == NULL)
		return CURRENT_ASKED;
	if (c->is_own)
		ask(c, storage);
	if (sdk_of(c) != sdk)
		return CURRENT_ASKED;
	if (!atomic_load_explicit(&sdk->attached, memory_order_relaxed))
		return CURRENT_NONE;
	return c->is_own || (atomic_load_explicit(&sdk->doubts, memory_order_relaxed) &
			     SP_OTELCPP_UNSEEN) != 0
		       ? CURRENT_ASKED
		       : CURRENT_SEEN;
}

static __attribute__((noinline, cold)) void disprove_options(struct sp_otelcpp *sdk)
{
	atomic_store_explicit(&sdk->options, SP_OTELCPP_REJECTED, memory_order_relaxed);
	raise_doubt(sdk, SP_OTELCPP_OPTIONS);
	sp_sdk_disproved(sdk->names->sdk, SP_SDK_FACT_PARENT);
}

/*
 * Whether the parent that we found has the span's trace id. If it has, the SDK found the same
 * parent.
 */
static bool is_parent(struct sp_otelcpp *sdk, const void *parent_trace,
		      const struct sp_otelcpp_ids *ids)
{
	if (atomic_load_explicit(&sdk->options, memory_order_relaxed) == SP_OTELCPP_KNOWN)
		return true;
	if (memcmp(parent_trace, ids->trace_id, sizeof(ids->trace_id)) != 0) {
		disprove_options(sdk);
		return false;
	}
	atomic_store_explicit(&sdk->options, SP_OTELCPP_KNOWN, memory_order_relaxed);
	return true;
}

/* A context in the options: its list is read only after it has proved to be a context. */
static __attribute__((noinline, cold)) bool look_at_options(struct sp_otelcpp *sdk,
							    const void *context)
{
	if (!sp_otelcpp_context_fits(sdk, context)) {
		disprove_options(sdk);
		return false;
	}
	if (find_node(sdk, context, SP_OTELCPP_KEY_SPAN) != NULL ||
	    find_node(sdk, context, SP_OTELCPP_KEY_IS_ROOT) != NULL || looked_enough(sdk))
		atomic_store_explicit(&sdk->options, SP_OTELCPP_KNOWN, memory_order_relaxed);
	return true;
}

enum given { GIVEN_NONE, GIVEN_PARENT, GIVEN_ROOT, GIVEN_UNKNOWN };

/* A span context in the options. */
static enum given given_ids(struct sp_otelcpp *sdk, const uint8_t *parent,
			    const struct sp_otelcpp_ids *ids, uint8_t parent_id[8])
{
	const uint8_t *id = parent + SP_OTELCPP_CONTEXT_SPAN_ID;

	if (all_zero(id, 8) || all_zero(parent, 16))
		return GIVEN_NONE;
	if (!is_parent(sdk, parent, ids))
		return GIVEN_UNKNOWN;
	memcpy(parent_id, id, 8);
	return GIVEN_PARENT;
}

static enum given given_context(struct sp_otelcpp *sdk, const void *context,
				const struct sp_otelcpp_ids *ids, uint8_t parent_id[8])
{
	struct sp_otelcpp_ids parent;

	if (sp_otelcpp_pointee(sdk, context) == NULL)
		return GIVEN_NONE;
	if (atomic_load_explicit(&sdk->options, memory_order_relaxed) != SP_OTELCPP_KNOWN &&
	    !look_at_options(sdk, context))
		return GIVEN_UNKNOWN;
	if (!is_understood(sdk, context))
		return GIVEN_UNKNOWN;
	if (!context_span(sdk, context, &parent))
		return context_says_root(sdk, context) ? GIVEN_ROOT : GIVEN_NONE;
	if (!is_parent(sdk, parent.trace_id, ids))
		return GIVEN_UNKNOWN;
	memcpy(parent_id, parent.span_id, 8);
	return GIVEN_PARENT;
}

static enum given given(struct sp_otelcpp *sdk, const void *options,
			const struct sp_otelcpp_ids *ids, uint8_t parent_id[8])
{
	const void *field = sp_otelcpp_at(options, SP_OTELCPP_OPTIONS_PARENT);

	if (atomic_load_explicit(&sdk->options, memory_order_relaxed) == SP_OTELCPP_REJECTED)
		return GIVEN_UNKNOWN;
	switch (sp_otelcpp_byte(options, sp_otelcpp_flavour_of(sdk)->parent_index)) {
	case SP_OTELCPP_PARENT_IS_SPAN_CONTEXT:
		return given_ids(sdk, field, ids, parent_id);
	case SP_OTELCPP_PARENT_IS_CONTEXT:
		return given_context(sdk, field, ids, parent_id);
	default:
		disprove_options(sdk);
		return GIVEN_UNKNOWN;
	}
}

SP_TLS uint64_t sp_otelcpp_last_trace;

/*
 * A compiler that sees the whole program (clang's -fwhole-program-vtables) knows that there is one
 * class of storages, and calls it directly, not through the slots that we watch. The sign: no start
 * named a parent and no scope was ever seen, but the span continues the trace of the thread's last
 * span, so the SDK found a scope. An SDK with names is not such a program, and may have attached a
 * context before our first examination.
 */
static void look_for_scopes(struct sp_otelcpp *sdk, uint64_t trace)
{
	if (trace == sp_otelcpp_last_trace && sdk->by_type &&
	    !atomic_load_explicit(&sdk->attached, memory_order_relaxed) &&
	    !sp_active_span_scopes_used() && sp_otelcpp_scopes_readable(sdk))
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_STORAGE);
}

struct sp_otelcpp_parent sp_otelcpp_scope_find_parent(struct sp_otelcpp *sdk, const void *options,
						      const struct sp_otelcpp_ids *ids)
{
	enum current current = current_of(sdk);
	uint64_t trace = sp_otelcpp_word(ids->trace_id + sizeof(trace));
	bool goes_on = trace == sp_otelcpp_last_trace;
	uint8_t parent_id[8] = {0};
	enum given from = given(sdk, options, ids, parent_id);
	bool is_told = true;

	if (from == GIVEN_NONE)
		look_for_scopes(sdk, trace);
	sp_otelcpp_last_trace = trace;
	switch (from) {
	case GIVEN_UNKNOWN:
		is_told = false;
		break;
	case GIVEN_NONE:
		if (current == CURRENT_SEEN &&
		    sp_active_span_shows_parent(goes_on ? ids->trace_id : NULL))
			is_told = false;
		else if (current != CURRENT_NONE)
			is_told = current_span(sdk, sp_otelcpp_storage(sdk), parent_id);
		break;
	case GIVEN_PARENT:
	case GIVEN_ROOT:
		break;
	}
	return (struct sp_otelcpp_parent){.id = sp_otelcpp_word(parent_id), .is_told = is_told};
}
