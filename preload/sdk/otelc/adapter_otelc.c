/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapter for otap-labs/opentelemetry-c (libopentelemetry_c_api.so). In this SDK a span that starts
 * does not become current; a context that is attached does. Unrelated libraries export some of the
 * same names, so the adapter reads no argument before it has proved that the called function
 * belongs to this SDK (below). APP context.
 */
#define _GNU_SOURCE
#include "preload/sdk/otelc/adapter_otelc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/sdk.h"
#include "preload/sdk/span_attr.h"
#include "sampler/base/compiler.h"
#include "sampler/base/log.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/try_lock.h"
#include "sampler/span/slow_roots.h"
#include "sampler/span/span.h"
#include "sampler/span/span_values.h"

/*
 * The part of otap-labs/opentelemetry-c's binary interface that the adapter uses: the structs that
 * it reads and the functions that it calls. All are of libopentelemetry_c_api.so, whose version
 * number never changed; its exported names show which features it has. 64-bit only, like the SDK.
 */

#define SP_OTELC_OK 0U
#define SP_OTELC_INTERNAL_ERROR 7U
#define SP_OTELC_FLAG_SAMPLED 0x01U
#define SP_OTELC_STATUS_ERROR 2U

/* Passed by value in two argument registers. */
struct sp_otelc_view {
	const char *ptr; /* not NUL-terminated; NULL when empty */
	size_t len;
};

struct sp_otelc_options {
	uint32_t kind;
	const void *parent; /* a span, or NULL */
};

/* The types of an attribute that is passed by value. */
enum { SP_OTELC_TEXT, SP_OTELC_BOOL, SP_OTELC_INT64, SP_OTELC_DOUBLE };
struct sp_otelc_attribute {
	struct sp_otelc_view key;
	uint32_t type;
	union {
		struct sp_otelc_view text;
		uint32_t is;
		int64_t integer;
		double real;
	} value;
};

struct sp_otelc_link {
	const void *context; /* a span context */
	const struct sp_otelc_attribute *attributes;
	size_t attribute_count;
};

struct sp_otelc_options_ex {
	size_t struct_size; /* size of the caller's version of this struct */
	uint32_t kind;
	uint32_t reserved;
	const void *parent;         /* a span, or NULL */
	const void *parent_context; /* a span context, or NULL */
	uint64_t start_time;
	const struct sp_otelc_attribute
		*attributes; /* the SDK accepts callers whose struct ends before this member */
	size_t attribute_count;
	const struct sp_otelc_link *links;
	size_t link_count;
	uint32_t parent_mode; /* read only if the caller's struct has all members from here on */
	uint32_t reserved2;
};
#define SP_OTELC_PARENT_AMBIENT 1U

/* The caller's token for an attached context. */
struct sp_otelc_scope {
	size_t struct_size;
	uint64_t thread_token;
	uint64_t generation; /* unique among the thread's attachments; 0 = not attached */
	uint64_t reserved[2];
};

_Static_assert(sizeof(struct sp_otelc_view) == 16, "otel_string_view_t");
_Static_assert(sizeof(struct sp_otelc_options) == 16, "otel_span_start_options_t");
_Static_assert(offsetof(struct sp_otelc_options, parent) == 8, "otel_span_start_options_t");
_Static_assert(sizeof(struct sp_otelc_options_ex) == 80, "otel_span_start_options_ex_t");
_Static_assert(offsetof(struct sp_otelc_options_ex, parent) == 16, "otel_span_start_options_ex_t");
_Static_assert(offsetof(struct sp_otelc_options_ex, attributes) == 40, "its first release");
_Static_assert(offsetof(struct sp_otelc_options_ex, parent_mode) == 72, "its second release");
_Static_assert(sizeof(struct sp_otelc_link) == 24, "otel_span_link_t");
_Static_assert(sizeof(struct sp_otelc_attribute) == 40, "otel_key_value_t");
_Static_assert(offsetof(struct sp_otelc_attribute, value) == 24, "otel_key_value_t");
_Static_assert(sizeof(struct sp_otelc_scope) == 40, "otel_context_scope_t");
_Static_assert(offsetof(struct sp_otelc_scope, generation) == 16, "otel_context_scope_t");

/*
 * Each of these functions clears the thread's last error, and sets it if it fails. Only the destroy
 * functions and the last three functions do not change the last error.
 */
uint32_t otel_span_get_context(const void *span, void **context);
uint32_t otel_span_context_trace_id(const void *context, uint8_t out[16]);
uint32_t otel_span_context_span_id(const void *context, uint8_t out[8]);
uint32_t otel_span_context_trace_flags(const void *context, uint8_t *out);
void otel_span_context_destroy(void *context);
void *otel_context_current(void);
void *otel_context_span_context(const void *context);
void otel_context_destroy(void *context);
struct sp_otelc_view otel_last_error_message(void);
void otel_api_set_last_error(const char *text, size_t len);
void otel_api_clear_last_error(void);

/*
 * Several copies of the SDK. Plugins that are opened with RTLD_LOCAL may each bring a copy, with
 * code and handles of its own. Our hooks are in the global scope, so the calls for all copies
 * arrive here, and a handle of one copy in the code of another would break the program. So only the
 * spans of one copy are labelled. Objects that use another copy are bound to its functions, as they
 * would be without us, and their calls do not arrive here any more. If an object cannot be changed
 * now, each of its calls is handed on according to the caller's address. All objects are examined
 * again after one was loaded.
 *
 * A copy that the program itself needs comes first for every object, whatever is loaded later.
 */

#define COPIES_MAX 8U
#define ERROR_MAX 256U

/*
 * known: the functions without which we cannot label. old: those that the SDK has had from the
 * first release.
 */
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
 * The copy whose spans are labelled; if no object is this SDK, the object that defines the called
 * function. Written under the lock, and only while no call belongs to the copy: it is unloaded, or
 * it is not this SDK.
 */
static struct {
	_Atomic unsigned long long adds; /* objects ever loaded, at the last examination */
	_Atomic bool is_bound;           /* no object was still being relocated then */
	_Atomic bool for_good;
	_Atomic bool is_known;
	struct sp_elf_range object;
	void *_Atomic fn[SP_NEXT_SDK_N];
} copy;
static struct sp_try_lock busy;

/* Variables of one examination of all objects. */
static struct sp_elf_range own;
static struct sp_elf_range global;
static bool has_others;

/*
 * The definition in the global scope after ours, which only the loader knows. If an error waits for
 * the host's dlerror(), a failed look-up would replace it, so its text is put into a new error of
 * the same kind. Not to be called in a walk over the objects: the loader's locks have an order.
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

/*
 * The definition that the loader would find: first in the global scope, then in the objects that
 * the caller's object needs.
 */
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
	/* The definition that the loader is about to bind is known only if there is just one. */
	if (now == NULL && lazy && sp_elf_find_all(name, NULL, 0) > 1)
		return ours;
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
	 * All functions at once: a child that is forked while another thread holds the loader's
	 * lock could never look for one later. A copy may be spread over several objects.
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
		sp_log(SP_LOG_WARN,
		       "this libopentelemetry_c_api.so does not show the ids of a span: "
		       "not labelling its spans; use a release since August 2026");
	}
}

/* Examines all objects. Under the lock. */
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
	atomic_store_explicit(&copy.is_bound, sp_relocations_visit(choose), memory_order_relaxed);
	/* pairs with next_of() */
	atomic_store_explicit(&copy.adds, adds, memory_order_release);
	tell(which);
}

/* That function of the labelled copy; NULL = the copy has none. */
static void *fn_of(enum sp_next which)
{
	return atomic_load_explicit(&copy.fn[which], memory_order_relaxed);
}

/*
 * The function that a hook calls next, chosen by the caller's return address; NULL = no object
 * defines it. *labelled says whether it belongs to the copy whose spans are labelled. If not, the
 * hook only hands the call on.
 */
static void *next_of(enum sp_next which, const void *caller, bool *labelled)
{
	bool is_new;
	void *p = NULL;

	if (!atomic_load_explicit(&copy.for_good, memory_order_acquire)) {
		is_new = atomic_load_explicit(&copy.adds, memory_order_acquire) != sp_elf_adds();
		if (is_new || !atomic_load_explicit(&copy.is_bound, memory_order_relaxed)) {
			/*
			 * Below a seccomp filter an object that could not be bound at first can
			 * never be bound.
			 */
			if ((is_new || !sp_seccomp_is_on()) && sp_try_lock(&busy)) {
				look_through(which);
				sp_unlock(&busy);
			}
			p = reached(sp_next_name(which), caller);
		}
	}
	if (p == NULL)
		p = fn_of(which);
	/* Only an object that was loaded later may define the function. */
	if (p == NULL)
		p = sp_next(which);
	/* Other libraries have functions of these names, too. */
	*labelled = atomic_load_explicit(&copy.is_known, memory_order_relaxed) &&
		    sp_elf_within(&copy.object, p);
	return p;
}

bool sp_otelc_is_labelled(enum sp_next which, const void *function)
{
	bool labelled;

	return next_of(which, function, &labelled) == function && labelled;
}

/*
 * Questions to that copy about spans and contexts, inside the reentrancy guard. They change the
 * copy's last error, so it is restored.
 */

#define REAL(sym) ((__typeof__(&(sym)))fn_of(SP_NEXT_##sym))

struct ids {
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t flags;
};

/* A successful start or attach clears the last error, so our calls after it must clear it, too. */
static void clear_error(void)
{
	__typeof__(&otel_api_clear_last_error) clear = REAL(otel_api_clear_last_error);

	if (clear != NULL)
		clear();
}

static bool context_ids(const void *context, struct ids *out)
{
	return REAL(otel_span_context_trace_id)(context, out->trace_id) == SP_OTELC_OK &&
	       REAL(otel_span_context_span_id)(context, out->span_id) == SP_OTELC_OK &&
	       REAL(otel_span_context_trace_flags)(context, &out->flags) == SP_OTELC_OK;
}

/*
 * The ids of a span. False, without a last error, for spans that record nothing: no SDK is
 * installed, or it was shut down.
 */
static bool span_ids(const void *span, struct ids *out)
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

/* The id of the span in a context; false if the context has none. */
static bool context_span(const void *context, uint8_t id[8])
{
	__typeof__(&otel_context_span_context) get = REAL(otel_context_span_context);
	void *span = get != NULL ? get(context) : NULL;
	bool ok = span != NULL && REAL(otel_span_context_span_id)(span, id) == SP_OTELC_OK;

	if (span != NULL)
		REAL(otel_span_context_destroy)(span);
	return ok;
}

/* The id of the calling thread's current span; id does not change if there is none. */
static void ambient_span(uint8_t id[8])
{
	__typeof__(&otel_context_current) current = REAL(otel_context_current);
	__typeof__(&otel_context_destroy) destroy = REAL(otel_context_destroy);
	void *context = current != NULL && destroy != NULL ? current() : NULL;

	if (context == NULL)
		return;
	(void)context_span(context, id);
	destroy(context);
}

/* --- The hooks --- */

/*
 * Hooks take and hand on every argument register and return the whole result register, so a
 * function of that name with other parameters gets exactly its caller's arguments.
 */
#define WORDS uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f
typedef uintptr_t hooked(WORDS);

hooked otel_tracer_start_span;
hooked otel_tracer_start_span_with_context;
hooked otel_tracer_start_span_ex;
hooked otel_span_update_name;
hooked otel_span_set_string_attribute; /* span, key, its length, value, its length */
hooked otel_span_set_int64_attribute;  /* span, key, its length, value */
hooked otel_span_set_bool_attribute;   /* the same */
hooked otel_span_set_status;           /* span, code, description, its length */
hooked otel_span_end;
hooked otel_span_destroy;
hooked otel_context_attach;
hooked otel_context_scope_detach;

/* The function that a hook calls next, and whether it belongs to the labelled copy. */
struct call {
	hooked *next;
	bool labelled;
};

/* The body of a hook: how calls the next function, and ours for a labelled call. */
#define HAND_ON(how, sym, ours)                                                                    \
	const uintptr_t word[] = {a, b, c, d, e, f};                                               \
	struct call call;                                                                          \
                                                                                                   \
	call.next = (hooked *)next_of(SP_NEXT_##sym, __builtin_return_address(0), &call.labelled); \
	return how(&call, ours, word)

/*
 * The id of an open span with that handle. A parent that we do not know may be a span of another
 * SDK instance; the new span is then a root.
 */
static void handle_id(const void *parent, uint8_t id[8])
{
	struct sp_span_record r;

	if (parent != NULL && sp_span_of(parent, &r))
		memcpy(id, &r.span_id, sizeof(r.span_id));
}

/* The parents of the three starts; id does not change if there is none. */
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
	/*
	 * The SDK has accepted the options, so the pointer is not NULL and the struct has at least
	 * the first release's size.
	 */
	const struct sp_otelc_options_ex *o = (const struct sp_otelc_options_ex *)word[3];

	if (o->parent != NULL)
		handle_id(o->parent, id);
	else if (o->parent_context != NULL)
		(void)REAL(otel_span_context_span_id)(o->parent_context, id);
	else if (o->struct_size >= sizeof(*o) && o->parent_mode == SP_OTELC_PARENT_AMBIENT)
		ambient_span(id);
}

/* Stores the value of an attribute that becomes a label. */
static void keep_value(const struct sp_span_record *r, unsigned label,
		       const struct sp_otelc_attribute *a)
{
	static const enum sp_span_value_type types[] = {SP_SPAN_VALUE_TEXT, SP_SPAN_VALUE_BOOL,
							SP_SPAN_VALUE_INT64, SP_SPAN_VALUE_DOUBLE};
	uint64_t word = a->value.is != 0;

	if (a->type >= SP_ARRAY_LEN(types))
		return;
	if (types[a->type] == SP_SPAN_VALUE_TEXT)
		sp_span_values_set(r, label, SP_SPAN_VALUE_TEXT, a->value.text.ptr,
				   a->value.text.ptr != NULL ? a->value.text.len : 0);
	else
		sp_span_values_set(r, label, types[a->type],
				   types[a->type] == SP_SPAN_VALUE_BOOL ? (const void *)&word
									: &a->value,
				   sizeof(word));
}

/*
 * An attribute that the program sets under a key of ours keeps its value; other attributes count
 * only if they become labels.
 */
static void attribute_set(const void *span, const struct sp_otelc_attribute *a)
{
	unsigned label = SP_SPAN_KEY_NONE;
	struct sp_span_record r;
	uint8_t key = 0;

	if (a->key.ptr != NULL) {
		key = sp_span_attr_key(a->key.ptr, a->key.len);
		label = sp_span_values_key(a->key.ptr, a->key.len);
	}
	if ((key == 0 && label == SP_SPAN_KEY_NONE) || !sp_span_of(span, &r))
		return;
	if (key != 0)
		sp_span_keys_add(&r, key);
	if (label != SP_SPAN_KEY_NONE)
		keep_value(&r, label, a);
}

/* Handles the attributes in the arguments of a start. */
static void attributes_given(const void *span, parent_fn *how, const uintptr_t *word)
{
	const struct sp_otelc_options_ex *o = (const struct sp_otelc_options_ex *)word[3];

	/*
	 * A caller of the first release has no attributes; the memory behind its struct is not ours
	 * to read.
	 */
	if (how != parent_in_options_ex ||
	    o->struct_size < offsetof(struct sp_otelc_options_ex, links) || o->attributes == NULL)
		return;
	for (size_t i = 0; i < o->attribute_count; i++)
		attribute_set(span, &o->attributes[i]);
}

/* By default SDKs drop further links of a span. */
#define LINKS_MAX 128U

/*
 * The start's arguments link to an open span of this thread: returns the root of that span; 0 = no
 * such link.
 */
static uint64_t linked_root(parent_fn *how, const uintptr_t *word)
{
	const struct sp_otelc_options_ex *o = (const struct sp_otelc_options_ex *)word[3];
	uint64_t root = 0;

	if (how != parent_in_options_ex ||
	    o->struct_size < offsetof(struct sp_otelc_options_ex, parent_mode) || o->links == NULL)
		return 0;
	for (size_t i = 0; i < o->link_count && i < LINKS_MAX && root == 0; i++) {
		uint8_t id[8] = {0};

		(void)REAL(otel_span_context_span_id)(o->links[i].context, id);
		root = sp_active_span_linked_root(sp_span_id_word(id));
	}
	return root;
}

/* Set if scopes pile up on a thread, so that they do not show which span the thread works for. */
static _Atomic bool scopes_pile_up;

static void started(parent_fn *parent, const void *span, const uintptr_t *word)
{
	struct ids ids;
	struct sp_span_start s;

	if (!sp_lifecycle_wanted() || !span_ids(span, &ids) ||
	    (ids.flags & SP_OTELC_FLAG_SAMPLED) == 0 || !sp_lifecycle_start())
		return;
	memset(&s, 0, sizeof(s));
	s.handle = span;
	s.how = atomic_load_explicit(&scopes_pile_up, memory_order_relaxed) ? SP_ACTIVATION_NONE
									    : SP_ACTIVATION_SCOPE;
	s.sdk = SP_SDK_OTELC;
	s.name = word[1] != 0 ? (const char *)word[1] : "";
	s.name_len = word[1] != 0 ? word[2] : 0;
	memcpy(s.span_id, ids.span_id, sizeof(s.span_id));
	memcpy(s.trace_id, ids.trace_id, sizeof(s.trace_id));
	/*
	 * The active span of the thread does not count: without a parent among its arguments the
	 * span is a root.
	 */
	s.has_parent = true;
	parent(word, s.parent_id);
	if (sp_active_span_wants_links(sp_span_id_word(s.parent_id)))
		s.linked_root = linked_root(parent, word);
	if (sp_span_started(&s))
		attributes_given(span, parent, word);
}

static void set_string(void *span, const char *key, const char *value)
{
	(void)REAL(otel_span_set_string_attribute)((uintptr_t)span, (uintptr_t)key, strlen(key),
						   (uintptr_t)value, strlen(value), 0);
}

static void set_integer(void *span, const char *key, int64_t value)
{
	__typeof__(&otel_span_set_int64_attribute) set = REAL(otel_span_set_int64_attribute);

	if (set != NULL)
		(void)set((uintptr_t)span, (uintptr_t)key, strlen(key), (uintptr_t)value, 0, 0);
}

static const struct sp_span_attr_set attributes = {.string = set_string, .integer = set_integer};

/* A span is ended by an end, by a destroy without an end, or by both; only the first counts. */
static void ending(void *span)
{
	struct sp_span_record r;

	/* Before the real end: afterwards another thread may get a new span at the same address. */
	if (!sp_lifecycle_active() || !sp_span_of(span, &r) || !sp_span_close(&r))
		return;
	(void)sp_slow_roots_end(r.ref);
	sp_span_attr_apply(&r, &attributes, span);
	sp_span_report_end(&r);
	sp_span_table_release(&r);
}

/*
 * A destroy does not change the SDK's last error, but the attributes that we set before it do, so
 * it is restored. Longer texts are cut.
 */
static void ending_quietly(void *span)
{
	__typeof__(&otel_last_error_message) get = REAL(otel_last_error_message);
	__typeof__(&otel_api_set_last_error) set = REAL(otel_api_set_last_error);
	struct sp_otelc_view view = {NULL, 0};
	char text[ERROR_MAX];
	struct sp_span_record r;

	if (!sp_lifecycle_active() || !sp_span_of(span, &r))
		return;
	if (get != NULL && set != NULL)
		view = get();
	if (view.len > sizeof(text))
		view.len = sizeof(text);
	if (view.ptr != NULL)
		memcpy(text, view.ptr, view.len);
	ending(span);
	if (view.ptr != NULL)
		set(text, view.len);
	else
		clear_error();
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
	sp_reentrancy_guard_exit(g);
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

/*
 * The real function comes last: afterwards another thread may get a new span at the same address.
 */
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
	sp_reentrancy_guard_exit(g);
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
	/* The upper half of the register is undefined. */
	return (uint32_t)status == SP_OTELC_OK;
}

/*
 * For calls that the SDK may refuse. The SDK's function comes first, and ours only after a success:
 * otherwise we would record a name, an attribute or a scope that the span does not have.
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
	sp_reentrancy_guard_exit(g);
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

static void string_set(const uintptr_t *word)
{
	attribute_set((const void *)word[0], &(struct sp_otelc_attribute){
						     .key = {(const char *)word[1], word[2]},
						     .type = SP_OTELC_TEXT,
						     .value.text = {(const char *)word[3], word[4]},
					     });
}

SP_EXPORT uintptr_t otel_span_set_string_attribute(WORDS)
{
	HAND_ON(hook_done, otel_span_set_string_attribute, string_set);
}

static void int64_set(const uintptr_t *word)
{
	attribute_set((const void *)word[0], &(struct sp_otelc_attribute){
						     .key = {(const char *)word[1], word[2]},
						     .type = SP_OTELC_INT64,
						     .value.integer = (int64_t)word[3],
					     });
}

SP_EXPORT uintptr_t otel_span_set_int64_attribute(WORDS)
{
	HAND_ON(hook_done, otel_span_set_int64_attribute, int64_set);
}

static void bool_set(const uintptr_t *word)
{
	attribute_set((const void *)word[0], &(struct sp_otelc_attribute){
						     .key = {(const char *)word[1], word[2]},
						     .type = SP_OTELC_BOOL,
						     .value.is = (uint32_t)word[3],
					     });
}

SP_EXPORT uintptr_t otel_span_set_bool_attribute(WORDS)
{
	HAND_ON(hook_done, otel_span_set_bool_attribute, bool_set);
}

static void status_set(const uintptr_t *word)
{
	struct sp_span_record r;

	if (sp_slow_roots_on() && sp_span_of((const void *)word[0], &r))
		sp_slow_roots_set_failed(&r, (uint32_t)word[1] == SP_OTELC_STATUS_ERROR);
}

SP_EXPORT uintptr_t otel_span_set_status(WORDS)
{
	HAND_ON(hook_done, otel_span_set_status, status_set);
}

/*
 * These two have arguments outside of the six words: a double in a vector register; and an
 * attribute by value, which lies on the stack of x86-64, and on aarch64 in memory whose address is
 * the second word. All of these are handed on.
 */
#ifdef __x86_64__
#define MEMORY , struct sp_otelc_attribute memory
#define HAND_ON_MEMORY , memory
#define IN_MEMORY (&memory)
#else
#define MEMORY
#define HAND_ON_MEMORY
#define IN_MEMORY ((const struct sp_otelc_attribute *)b)
#endif
typedef uintptr_t hooked_double(WORDS, double x);
typedef uintptr_t hooked_memory(WORDS, double x MEMORY);
hooked_double otel_span_set_double_attribute; /* span, key, its length, x */
hooked_memory otel_span_set_attribute;        /* span, memory */

/* The body of these two, like hook_done(). */
#define HAND_ON_MORE(sym, more, attribute)                                                         \
	bool labelled;                                                                             \
	__typeof__(&(sym)) next = (__typeof__(&(sym)))next_of(                                     \
		SP_NEXT_##sym, __builtin_return_address(0), &labelled);                            \
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();                                \
	uintptr_t status =                                                                         \
		next != NULL ? next(a, b, c, d, e, f, x more) : SP_OTELC_INTERNAL_ERROR;           \
                                                                                                   \
	if (g.outermost && labelled && succeeded(status) && sp_lifecycle_active()) {               \
		int saved = errno;                                                                 \
                                                                                                   \
		attribute_set((const void *)a, attribute);                                         \
		errno = saved;                                                                     \
	}                                                                                          \
	sp_reentrancy_guard_exit(g);                                                               \
	return status

/* NOLINTNEXTLINE(readability-function-size): every register that a call may use */
SP_EXPORT uintptr_t otel_span_set_double_attribute(WORDS, double x)
{
	HAND_ON_MORE(otel_span_set_double_attribute, ,
		     (&(struct sp_otelc_attribute){.key = {(const char *)b, c},
						   .type = SP_OTELC_DOUBLE,
						   .value.real = x}));
}

/* NOLINTNEXTLINE(readability-function-size): the same */
SP_EXPORT uintptr_t otel_span_set_attribute(WORDS, double x MEMORY)
{
	HAND_ON_MORE(otel_span_set_attribute, HAND_ON_MEMORY, IN_MEMORY);
}

static void attached(const uintptr_t *word)
{
	const struct sp_otelc_scope *scope = (const struct sp_otelc_scope *)word[1];
	uint8_t id[8];
	bool has_span = context_span((const void *)word[0], id);

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

static uintptr_t hook_detach(const struct call *call, const struct sp_otelc_scope *scope,
			     const uintptr_t *w)
{
	hooked *next = call->next;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	uintptr_t status = SP_OTELC_INTERNAL_ERROR;
	/* The token of the scope, which a successful detach erases; 0 = nothing to detach. */
	uint64_t token = 0;

	if (g.outermost && call->labelled && scope != NULL && sp_lifecycle_active() &&
	    scope->struct_size >= sizeof(*scope))
		token = scope->generation;
	if (next != NULL)
		status = next(w[0], w[1], w[2], w[3], w[4], w[5]);
	/*
	 * A detach of another thread, of another copy, or of a scope that is not the innermost
	 * fails and changes nothing.
	 */
	if (token != 0 && succeeded(status))
		sp_active_span_detached(sp_span_token_of(0, token), false);
	sp_reentrancy_guard_exit(g);
	return status;
}

SP_EXPORT uintptr_t otel_context_scope_detach(WORDS)
{
	HAND_ON(hook_detach, otel_context_scope_detach, (const struct sp_otelc_scope *)a);
}
