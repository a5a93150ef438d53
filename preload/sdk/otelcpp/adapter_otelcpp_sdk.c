/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads opentelemetry-cpp's objects by their layout (otelcpp_abi.h): spans, pointers, the resource.
 * APP context.
 */
#include "preload/sdk/otelcpp/adapter_otelcpp.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/sdk/span_attr.h"
#include "sampler/base/readable_sig.h"
#include "sampler/base/text.h"
#include "sampler/base/try_lock.h"

/*
 * Checks of the layout at first use. A release that we do not know may have a different layout, and
 * a wrong read would crash the host or label a wrong span. So these functions ask the kernel
 * whether memory can be read before they read it, and compare the content with the SDK's interface.
 * They are too slow for every call.
 */

/* Longer keys are possible, but unheard of. */
#define KEY_LEN_MAX 65536U
#define FILLING 0xa5
#define OTHER_FILLING 0x5a

static bool mapped(const void *p)
{
	return sp_readable((uintptr_t)p);
}

bool sp_otelcpp_readable(const void *p)
{
	return p != NULL && (uintptr_t)p % sizeof(void *) == 0 && mapped(p);
}

static bool in_object(const void *address)
{
	return sp_elf_object_at(address).size != 0;
}

/* Whether vptr points into a loaded object and to functions of loaded objects. */
static bool is_vtable(const void *vptr, unsigned slot)
{
	const void *function = sp_otelcpp_at(vptr, slot * sizeof(void *));

	return sp_otelcpp_readable(vptr) && in_object(vptr) && mapped(function) &&
	       in_object(sp_otelcpp_member(function, 0));
}

/* Whether the object has a vtable in a loaded object. */
static bool has_class(const void *object)
{
	return sp_otelcpp_readable(object) && in_object(sp_otelcpp_member(object, 0));
}

/* Whether this is one of the SDK's own spans; the address may be invalid. */
static bool is_own_span(const struct sp_otelcpp *sdk, const void *span)
{
	return sp_otelcpp_readable(span) && sp_otelcpp_member(span, 0) == sdk->span_vptr;
}

/* libstdc++ counts from 1 in both counters; other libraries do not have two counters there. */
static bool is_control(const void *control)
{
	const _Atomic int *uses = sp_otelcpp_at(control, SP_OTELCPP_CONTROL_USES);
	const _Atomic int *weak = sp_otelcpp_at(control, SP_OTELCPP_CONTROL_WEAK);

	return sp_otelcpp_readable(control) && mapped(uses) &&
	       is_vtable(sp_otelcpp_member(control, 0), SP_OTELCPP_CONTROL_SLOT_DESTROY) &&
	       atomic_load_explicit(uses, memory_order_relaxed) > 0 &&
	       atomic_load_explicit(weak, memory_order_relaxed) > 0;
}

bool sp_otelcpp_is_pointer(const struct sp_otelcpp_flavour *f, const void *pointer)
{
	const void *pointee = sp_otelcpp_member(pointer, f->pointee);
	const void *control = sp_otelcpp_member(pointer, SP_OTELCPP_STD_CONTROL);

	if (f->pointee != 0)
		return is_vtable(sp_otelcpp_member(pointer, 0), SP_OTELCPP_SLOT_D1);
	return control != NULL ? is_control(control) : pointee == NULL;
}

/*
 * Whether this may be the result of StartSpan: a smart pointer to an object with a class. First
 * word: nostd has a vptr, std the span. Second word: nostd has the span, std a control block, which
 * begins with a vptr as well. A smart pointer to nothing is possible, too.
 */
static bool is_result(const void *result)
{
	const void *first = sp_otelcpp_member(result, 0);
	const void *second = sp_otelcpp_member(result, sizeof(void *));

	if (first == NULL || (second == NULL && in_object(first)))
		return true;
	return has_class(second) && (in_object(first) || has_class(first));
}

/*
 * Whether GetContext() of that span, one of the SDK's own, returns a SpanContext in the layout that
 * we know. It is called twice, into memory with different fillings: bytes of the result are equal,
 * and the filling behind the result is unchanged.
 */
static bool ids_fit(struct sp_otelcpp *sdk, const struct sp_otelcpp_flavour *f, void *span)
{
	unsigned slot = sdk->names->slot_end + SP_OTELCPP_SLOT_GET_CONTEXT_AFTER_END;
	void *(*get_context)(void *, void *) =
		sp_otelcpp_member(sp_otelcpp_member(span, 0), slot * sizeof(void *));
	struct sp_otelcpp_object context;
	struct sp_otelcpp_object again;
	bool fit = true;

	memset(&context, FILLING, sizeof(context));
	memset(&again, OTHER_FILLING, sizeof(again));
	SP_OTELCPP_CALL(get_context, &context, span);
	SP_OTELCPP_CALL(get_context, &again, span);
	for (size_t i = f->span_context; i < sizeof(context.bytes); i++)
		fit = fit && context.bytes[i] == FILLING && again.bytes[i] == OTHER_FILLING;
	if (!fit || memcmp(&context, &again, SP_OTELCPP_CONTEXT_REMOTE + 1) != 0 ||
	    context.bytes[SP_OTELCPP_CONTEXT_REMOTE] > 1 ||
	    !sp_otelcpp_is_pointer(f, context.bytes + SP_OTELCPP_CONTEXT_STATE))
		return false; /* unknown layout: it cannot be destroyed */
	sp_otelcpp_release(f, context.bytes + SP_OTELCPP_CONTEXT_STATE);
	sp_otelcpp_release(f, again.bytes + SP_OTELCPP_CONTEXT_STATE);
	return true;
}

/* Whether this is a node of a context's list. */
static bool node_fits(const struct sp_otelcpp_flavour *f, const void *node)
{
	const char *key;
	size_t len;

	for (unsigned i = 0; i <= f->node_index; i += sizeof(void *)) {
		if (!sp_otelcpp_readable(sp_otelcpp_at(node, i)))
			return false;
	}
	key = sp_otelcpp_member(node, SP_OTELCPP_NODE_KEY);
	len = (size_t)(uintptr_t)sp_otelcpp_member(node, f->node_key_len);
	if (len == 0 || len > KEY_LEN_MAX || !mapped(key) || !mapped(key + len - 1) ||
	    *(const uint8_t *)sp_otelcpp_at(node, f->node_index) >= SP_OTELCPP_VALUES_MAX ||
	    !sp_otelcpp_is_pointer(f, sp_otelcpp_at(node, f->node_next)))
		return false;
	if (len != strlen(SP_OTELCPP_KEY_SPAN) || memcmp(key, SP_OTELCPP_KEY_SPAN, len) != 0)
		return true;
	return *(const uint8_t *)sp_otelcpp_at(node, f->node_index) == SP_OTELCPP_VALUE_IS_SPAN &&
	       sp_otelcpp_is_pointer(f, sp_otelcpp_at(node, f->node_value));
}

bool sp_otelcpp_context_fits(struct sp_otelcpp *sdk, const void *context)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const void *node;

	if (!sp_otelcpp_is_pointer(f, context))
		return false;
	node = sp_otelcpp_member(context, f->pointee);
	for (unsigned n = 0; node != NULL && n < SP_OTELCPP_NODES_MAX; n++) {
		if (!node_fits(f, node))
			return false;
		node = sp_otelcpp_member(node, (unsigned long)f->node_next + f->pointee);
	}
	return true;
}

/* The results of this many starts are examined, until one is a span of the SDK's own class. */
#define LOOKS_MAX 16U

static const struct sp_otelcpp_flavour nostd = SP_OTELCPP_FLAVOUR_NOSTD;
static const struct sp_otelcpp_flavour std = SP_OTELCPP_FLAVOUR_STD;

/* The virtual function in that slot of the object's class. */
static void *method(const void *object, unsigned slot)
{
	return sp_otelcpp_member(sp_otelcpp_member(object, 0), slot * sizeof(void *));
}

/* We cannot read the spans of this instance: from now on its calls are only handed on. */
static void reject(struct sp_otelcpp *sdk, enum sp_sdk_fact fact)
{
	atomic_store_explicit(&sdk->state, SP_OTELCPP_REJECTED, memory_order_relaxed);
	sp_sdk_disproved(sdk->names->sdk, fact);
}

/* For the time before the kind of build is known: the span in that smart pointer, and the kind. */
static void *own_span_in(const struct sp_otelcpp *sdk, const void *pointer,
			 const struct sp_otelcpp_flavour **f)
{
	const struct sp_otelcpp_flavour *const kinds[] = {&std, &nostd};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		void *span = sp_otelcpp_member(pointer, kinds[i]->pointee);

		*f = kinds[i];
		if (is_own_span(sdk, span))
			return span;
	}
	return NULL;
}

/* A dropped span has another class, but its smart pointer has the same layout. */
static void look_at_other(struct sp_otelcpp *sdk, const void *pointer)
{
	if (atomic_load_explicit(&sdk->looks, memory_order_relaxed) >= LOOKS_MAX)
		return;
	atomic_fetch_add_explicit(&sdk->looks, 1, memory_order_relaxed);
	if (!is_result(pointer))
		reject(sdk, SP_SDK_FACT_POINTER);
}

/*
 * The resource of the tracer provider: a program that sets service.name in code, as is usual in
 * C++, wants profiles under the same name as its spans. No function of the SDK is called and
 * nothing is allocated.
 */

/* A resource with more attributes counts as unreadable. */
#define ATTRIBUTES_MAX 128U
/*
 * Texts that we use are shorter. A text longer than the second limit counts as unreadable; a
 * command line may be among the attributes.
 */
#define TEXT_MAX 1024U
#define LONG_TEXT_MAX (4U << 20)

struct text {
	const char *at; /* NULL if the text is longer than TEXT_MAX */
	size_t len;
};

struct attribute {
	struct text key;
	struct text value; /* at is also NULL if the value is no string */
};

/* The result: pairs, percent-encoded and separated by commas, in SP_SDK_ATTRIBUTES_MAX bytes. */
struct output {
	char *text;
	size_t used;
	bool full;
};

static bool readable_text(const char *at, size_t len)
{
	const uintptr_t word = sizeof(uintptr_t);
	uintptr_t first = (uintptr_t)at & ~(word - 1);
	uintptr_t last = ((uintptr_t)at + len) & ~(word - 1);

	return at != NULL && len <= LONG_TEXT_MAX && sp_readable(first) && sp_readable(last);
}

/* Reads a std::string, with the NUL behind its text. */
static bool string_at(const void *string, struct text *out)
{
	out->at = sp_otelcpp_member(string, 0);
	out->len = (size_t)sp_otelcpp_member(string, SP_OTELCPP_STRING_LENGTH);
	if (!readable_text(out->at, out->len) || out->at[out->len] != '\0')
		return false;
	if (out->len > TEXT_MAX)
		out->at = NULL;
	return true;
}

static bool is_text(struct text t, const char *text)
{
	return t.len == strlen(text) && memcmp(t.at, text, t.len) == 0;
}

static bool attribute_at(const void *node, struct attribute *out)
{
	out->value = (struct text){NULL, 0};
	if (!sp_otelcpp_readable(node) ||
	    !sp_otelcpp_readable(sp_otelcpp_at(node, SP_OTELCPP_OWNED_INDEX)) ||
	    !string_at(sp_otelcpp_at(node, SP_OTELCPP_OWNED_KEY), &out->key) || out->key.at == NULL)
		return false;
	return sp_otelcpp_byte(node, SP_OTELCPP_OWNED_INDEX) != SP_OTELCPP_OWNED_IS_STRING ||
	       string_at(sp_otelcpp_at(node, SP_OTELCPP_OWNED_VALUE), &out->value);
}

/* The attributes that we use ourselves; empty = the resource does not have the attribute. */
struct known {
	struct text service;
	struct text release;
	bool is_cpp; /* it has the attribute that every SDK sets */
};

/* Whether all attributes of the resource have the layout that we know. */
static bool is_understood(const void *context, struct known *out)
{
	const void *node = sp_otelcpp_member(context, SP_OTELCPP_RESOURCE_FIRST);
	uintptr_t count = (uintptr_t)sp_otelcpp_member(context, SP_OTELCPP_RESOURCE_COUNT);
	struct attribute a;

	*out = (struct known){{"", 0}, {"", 0}, false};
	if (count > ATTRIBUTES_MAX)
		return false;
	for (uintptr_t i = 0; i < count; i++, node = sp_otelcpp_member(node, 0)) {
		if (!attribute_at(node, &a))
			return false;
		if (a.value.at == NULL)
			continue;
		if (is_text(a.key, "telemetry.sdk.language"))
			out->is_cpp = is_text(a.value, "cpp");
		else if (is_text(a.key, "service.name"))
			out->service = a.value;
		else if (is_text(a.key, "telemetry.sdk.version"))
			out->release = a.value;
	}
	return node == NULL;
}

static void put_byte(struct output *o, char c)
{
	if (o->used + 1 < SP_SDK_ATTRIBUTES_MAX)
		o->text[o->used++] = c;
	else
		o->full = true;
}

static void put(struct output *o, struct text t)
{
	char encoded[3];

	for (size_t i = 0; i < t.len; i++) {
		size_t n = sp_text_percent(encoded, t.at[i]);

		for (size_t k = 0; k < n; k++)
			put_byte(o, encoded[k]);
	}
}

static bool is_clean(struct text t)
{
	return t.len != 0 && !sp_text_has_control(t.at, t.len) && sp_text_valid(t.at, t.len);
}

/* Writes an attribute, unless it does not fit. */
static void put_attribute(struct output *o, const struct attribute *a)
{
	size_t before = o->used;

	if (a->value.at == NULL || !is_clean(a->key) || !is_clean(a->value))
		return;
	o->full = false;
	if (before != 0)
		put_byte(o, ',');
	put(o, a->key);
	put_byte(o, '=');
	put(o, a->value);
	if (o->full)
		o->used = before;
}

/* What a resource says about its SDK and the program; "" = nothing. */
struct said {
	char release[SP_SDK_RELEASE_MAX];
	char service[SP_SDK_SERVICE_MAX];
};

static bool is_made_up(const struct attribute *a)
{
	return is_text(a->key, "service.name") && a->value.at != NULL &&
	       sp_sdk_service_is_made_up(a->value.at, a->value.len);
}

/* The service's attributes come first, because there may not be room for all. */
static void put_all(struct output *o, const void *context, bool of_service)
{
	const void *node = sp_otelcpp_member(context, SP_OTELCPP_RESOURCE_FIRST);
	struct attribute a;

	for (; node != NULL && attribute_at(node, &a); node = sp_otelcpp_member(node, 0)) {
		bool is_service =
			is_text(a.key, "service.name") || is_text(a.key, "service.namespace");

		if (is_service == of_service && !is_made_up(&a))
			put_attribute(o, &a);
	}
}

static void copy_clean(struct text t, char *out, size_t cap)
{
	if (t.len >= cap || !is_clean(t))
		return;
	memcpy(out, t.at, t.len);
	out[t.len] = '\0';
}

static void hand_on(const void *context, const char *service)
{
	struct sp_sdk_resource *r = sp_sdk_resource_begin(__builtin_frame_address(0));
	struct output o = {.used = 0};

	if (r == NULL)
		return;
	o.text = r->attributes;
	put_all(&o, context, true);
	put_all(&o, context, false);
	o.text[o.used] = '\0';
	(void)sp_fmt_snprintf(r->service, sizeof(r->service), "%s", service);
	sp_sdk_resource_end(r);
}

bool sp_otelcpp_is_type(const void *vptr, const char *type)
{
	const void *info;
	const char *name;

	if ((uintptr_t)vptr < sizeof(void *) ||
	    !sp_otelcpp_readable((const void *)((uintptr_t)vptr - sizeof(void *))))
		return false;
	info = sp_otelcpp_member((const void *)((uintptr_t)vptr - sizeof(void *)), 0);
	if (info == NULL || !sp_otelcpp_readable(sp_otelcpp_at(info, sizeof(void *))))
		return false;
	name = sp_otelcpp_member(info, sizeof(void *));
	return readable_text(name, strlen(type) + 1) && strcmp(name, type) == 0;
}

/* The context of a tracer. */
static const void *find(const struct sp_otelcpp *sdk, const void *tracer)
{
	for (unsigned long i = 1; i < SP_OTELCPP_TRACER_WORDS; i++) {
		const void *context = sp_otelcpp_member(tracer, i * sizeof(void *));

		if (sp_otelcpp_readable(context) &&
		    sp_otelcpp_is_type(sp_otelcpp_member(context, 0),
				       sdk->names->tracer_context_type))
			return context;
	}
	return NULL;
}

/*
 * Reads the resource behind one of the SDK's own spans, for sp_sdk_resource_end(). Two proofs come
 * first: the type of the tracer's context, and the attribute telemetry.sdk.language, which every
 * release puts into a resource. Reads nothing if there is no resource in the known layout (releases
 * before 1.19, libc++, -fno-rtti).
 */
static void read_resource(const struct sp_otelcpp *sdk, const void *span, struct said *said)
{
	const void *tracer = sp_otelcpp_member(span, SP_OTELCPP_SPAN_TRACER);
	const void *context;
	struct known known;

	said->release[0] = said->service[0] = '\0';
	if (tracer == NULL || !sp_otelcpp_readable(tracer) ||
	    !sp_otelcpp_readable(
		    sp_otelcpp_at(tracer, (SP_OTELCPP_TRACER_WORDS - 1) * sizeof(void *))))
		return;
	context = find(sdk, tracer);
	if (context == NULL)
		return;
	if (!sp_otelcpp_readable(sp_otelcpp_at(context, SP_OTELCPP_RESOURCE_COUNT)) ||
	    !is_understood(context, &known)) {
		sp_sdk_disproved(sdk->names->sdk, SP_SDK_FACT_RESOURCE);
		return;
	}
	if (!known.is_cpp)
		return;
	copy_clean(known.release, said->release, sizeof(said->release));
	if (known.service.at != NULL &&
	    !sp_sdk_service_is_made_up(known.service.at, known.service.len))
		copy_clean(known.service, said->service, sizeof(said->service));
	hand_on(context, said->service);
}

static void reached(const struct sp_otelcpp *sdk, const struct said *said)
{
	const struct sp_sdk_reached instance = {
		.way = sdk->by_type ? SP_SDK_WAY_TYPES : SP_SDK_WAY_NAMES,
		.address = sp_otelcpp_real(sdk, SP_OTELCPP_REAL_END),
		.release = said->release,
		.service = said->service,
	};

	sp_sdk_reached(sdk->names->sdk, &instance);
}

void *sp_otelcpp_first_returned(struct sp_otelcpp *sdk, const void *pointer)
{
	const struct sp_otelcpp_flavour *f;
	void *span = own_span_in(sdk, pointer, &f);
	struct said said;

	if (span == NULL) {
		look_at_other(sdk, pointer);
		return NULL;
	}
	if (!sp_otelcpp_is_pointer(f, pointer)) {
		reject(sdk, SP_SDK_FACT_POINTER);
		return NULL;
	}
	if (!ids_fit(sdk, f, span)) {
		reject(sdk, SP_SDK_FACT_IDS);
		return NULL;
	}
	atomic_store_explicit(&sdk->looks, 0, memory_order_relaxed);
	/*
	 * Several threads may come here with their first spans. A thread that sees the flavour may
	 * start sampling, so the resource is stored before the flavour. Pairs with the fence in
	 * start_by_winner() of lifecycle.c.
	 */
	read_resource(sdk, span, &said);
	if (atomic_exchange_explicit(&sdk->flavour, f, memory_order_acq_rel) == NULL)
		reached(sdk, &said);
	return span;
}

/*
 * The SDK's own IsRecording() takes the lock of the span, and returns whether there is a
 * recordable. If the span's context was found at its offset, so is the recordable, just before it.
 */
bool sp_otelcpp_is_recording(const struct sp_otelcpp *sdk, void *span)
{
	bool (*is_recording)(void *) =
		method(span, sdk->names->slot_end + SP_OTELCPP_SLOT_IS_RECORDING_AFTER_END);
	int place = atomic_load_explicit(&sdk->own_context, memory_order_relaxed);

	if ((place == SP_OTELCPP_PLACE_POINTER || place == SP_OTELCPP_PLACE_INLINE) &&
	    sp_otelcpp_member(span, SP_OTELCPP_SPAN_RECORDABLE) != NULL)
		return true;
	return is_recording(span);
}

/* What the destructor of libstdc++'s shared_ptr does. */
static void release_std(void *pointer)
{
	char *control = sp_otelcpp_member(pointer, SP_OTELCPP_STD_CONTROL);
	void (*dispose)(void *);
	void (*destroy)(void *);

	if (control == NULL)
		return;
	_Atomic int *uses = (void *)(control + SP_OTELCPP_CONTROL_USES);
	_Atomic int *weak = (void *)(control + SP_OTELCPP_CONTROL_WEAK);

	if (atomic_fetch_sub_explicit(uses, 1, memory_order_acq_rel) != 1)
		return;
	dispose = method(control, SP_OTELCPP_CONTROL_SLOT_DISPOSE);
	dispose(control);
	if (atomic_fetch_sub_explicit(weak, 1, memory_order_acq_rel) != 1)
		return;
	destroy = method(control, SP_OTELCPP_CONTROL_SLOT_DESTROY);
	destroy(control);
}

void sp_otelcpp_release(const struct sp_otelcpp_flavour *f, void *pointer)
{
	void (*destructor)(void *);

	if (f == &std) {
		release_std(pointer);
		return;
	}
	destructor = method(pointer, SP_OTELCPP_SLOT_D1);
	destructor(pointer);
}

void sp_otelcpp_ids(struct sp_otelcpp *sdk, void *span, struct sp_otelcpp_ids *out)
{
	void *(*get_context)(void *, void *) =
		method(span, sdk->names->slot_end + SP_OTELCPP_SLOT_GET_CONTEXT_AFTER_END);
	struct sp_otelcpp_object context;

	SP_OTELCPP_CALL(get_context, &context, span);
	memcpy(out->trace_id, context.bytes, sizeof(out->trace_id));
	memcpy(out->span_id, context.bytes + SP_OTELCPP_CONTEXT_SPAN_ID, sizeof(out->span_id));
	out->flags = context.bytes[SP_OTELCPP_CONTEXT_FLAGS];
	sp_otelcpp_release(sp_otelcpp_flavour_of(sdk), context.bytes + SP_OTELCPP_CONTEXT_STATE);
}

static bool has_ids(const void *context, const struct sp_otelcpp_ids *ids)
{
	return memcmp(context, ids->trace_id, sizeof(ids->trace_id)) == 0 &&
	       memcmp(sp_otelcpp_at(context, SP_OTELCPP_CONTEXT_SPAN_ID), ids->span_id,
		      sizeof(ids->span_id)) == 0 &&
	       sp_otelcpp_byte(context, SP_OTELCPP_CONTEXT_FLAGS) == ids->flags;
}

static bool leads_to(const void *context, const struct sp_otelcpp_ids *ids)
{
	return sp_otelcpp_readable(context) &&
	       sp_otelcpp_readable(sp_otelcpp_at(context, SP_OTELCPP_CONTEXT_FLAGS)) &&
	       has_ids(context, ids);
}

/*
 * Whether the class stores its context at that offset, or a pointer there. The right one has this
 * span's ids.
 */
static enum sp_otelcpp_place find_place(struct sp_otelcpp *sdk, const void *span,
					const struct sp_otelcpp_ids *ids)
{
	const void *there = sp_otelcpp_at(span, SP_OTELCPP_SPAN_CONTEXT);

	if (sp_otelcpp_readable(there) && leads_to(sp_otelcpp_member(there, 0), ids))
		return SP_OTELCPP_PLACE_POINTER;
	if (leads_to(there, ids))
		return SP_OTELCPP_PLACE_INLINE;
	sp_sdk_disproved(sdk->names->sdk, SP_SDK_FACT_SPAN);
	return SP_OTELCPP_PLACE_UNKNOWN;
}

__attribute__((cold)) void sp_otelcpp_ask_ids(struct sp_otelcpp *sdk, void *span,
					      struct sp_otelcpp_ids *out)
{
	sp_otelcpp_ids(sdk, span, out);
	if (atomic_load_explicit(&sdk->own_context, memory_order_relaxed) ==
	    SP_OTELCPP_PLACE_UNTRIED)
		atomic_store_explicit(&sdk->own_context, find_place(sdk, span, out),
				      memory_order_release);
}

__attribute__((cold)) bool sp_otelcpp_ask_span_id(struct sp_otelcpp *sdk, void *span, uint64_t *id)
{
	struct sp_otelcpp_ids ids;

	if (!sp_otelcpp_known(sdk) || sp_otelcpp_flavour_of(sdk) == NULL)
		return false;
	*id = sp_otelcpp_word(sp_otelcpp_own_ids(sdk, span, &ids)->span_id);
	return true;
}

/*
 * The instances of opentelemetry-cpp in one process. Each plugin may bring its own, and a span of
 * one must not be passed to the functions of another. Every tracer and span begins with the address
 * of its class's vtable, which belongs to the instance, so that address identifies the instance.
 * APP context.
 */

struct sp_otelcpp sp_otelcpp_instances[SP_OTELCPP_INSTANCES_MAX];

struct sp_otelcpp *sp_otelcpp_with(enum sp_otelcpp_type type, const void *vptr)
{
	/* a call that came through a slot of ours sees the stores before the slot's */
	atomic_thread_fence(memory_order_acquire);
	for (unsigned i = 0; vptr != NULL && i < SP_OTELCPP_INSTANCES_MAX; i++) {
		struct sp_otelcpp *sdk = &sp_otelcpp_instances[i];

		if (atomic_load_explicit(&sdk->type[type], memory_order_acquire) == vptr)
			return sdk;
	}
	return NULL;
}

/*
 * An instance that a vtable or an adapter refers to is never reused, even after its object was
 * unloaded.
 */
static bool is_free(struct sp_otelcpp *sdk)
{
	return !atomic_load_explicit(&sdk->held, memory_order_acquire) &&
	       (!atomic_load_explicit(&sdk->found, memory_order_acquire) ||
		!sp_elf_alive(&sdk->object));
}

/* Under the lock: no call finds the instance any more. */
static void detach(struct sp_otelcpp *sdk)
{
	atomic_store_explicit(&sdk->found, false, memory_order_seq_cst);
	for (unsigned i = 0; i < SP_OTELCPP_TYPE_N; i++)
		atomic_store_explicit(&sdk->type[i], NULL, memory_order_relaxed);
}

/*
 * Under the lock: forgets what is known about the instance. Only for an instance that no vtable
 * refers to: a call through a vtable relies on this knowledge.
 */
static void forget(struct sp_otelcpp *sdk)
{
	atomic_store_explicit(&sdk->flavour, NULL, memory_order_relaxed);
	atomic_store_explicit(&sdk->own_context, SP_OTELCPP_PLACE_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->contexts, SP_OTELCPP_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->options, SP_OTELCPP_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->looks, 0, memory_order_relaxed);
	atomic_store_explicit(&sdk->attached, false, memory_order_relaxed);
	atomic_store_explicit(&sdk->doubts, 0, memory_order_relaxed);
}

/*
 * Under the lock: the instance that had these classes before was unloaded, and its addresses belong
 * to `to` now.
 */
static void leave_to(const struct sp_otelcpp *to)
{
	for (unsigned i = 0; i < SP_OTELCPP_INSTANCES_MAX * SP_OTELCPP_TYPE_N; i++) {
		struct sp_otelcpp *sdk = &sp_otelcpp_instances[i / SP_OTELCPP_TYPE_N];
		unsigned type = i % SP_OTELCPP_TYPE_N;

		if (sdk != to &&
		    atomic_load_explicit(&sdk->type[type], memory_order_relaxed) ==
			    atomic_load_explicit(&to->type[type], memory_order_relaxed))
			atomic_store_explicit(&sdk->type[type], NULL, memory_order_relaxed);
	}
}

/* Under the lock: the entry is for that instance from now on. */
static void take(struct sp_otelcpp *sdk, const struct sp_otelcpp_found *f)
{
	sdk->names = f->names;
	sdk->object = f->object;
	sdk->by_type = f->by_type;
	sdk->control_object = f->control_object;
	sdk->span_vptr = f->type[SP_OTELCPP_TYPE_SPAN];
	memcpy(sdk->storage_type, f->storage_type, sizeof(sdk->storage_type));
	sp_otelcpp_set_storage(sdk, f->storage);
	for (unsigned i = 0; i < SP_OTELCPP_REAL_N; i++)
		atomic_store_explicit(&sdk->real[i], f->real[i], memory_order_relaxed);
	/* The vtables of an object that was loaded again have the slots of its file. */
	atomic_store_explicit(&sdk->expects, false, memory_order_relaxed);
	atomic_store_explicit(&sdk->bypassed, false, memory_order_relaxed);
	atomic_store_explicit(&sdk->storage_vptr, NULL, memory_order_relaxed);
	atomic_store_explicit(&sdk->attributes, SP_SPAN_ATTR_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->state, (int)f->state, memory_order_relaxed);
	for (unsigned i = 0; i < SP_OTELCPP_TYPE_N; i++)
		atomic_store_explicit(&sdk->type[i], f->type[i], memory_order_release);
	leave_to(sdk);
	atomic_store_explicit(&sdk->found, true, memory_order_release);
}

static bool is_again(const struct sp_otelcpp *sdk, const struct sp_otelcpp_found *f)
{
	return sdk->names == f->names && sdk->object.start == f->object.start &&
	       sdk->object.print == f->object.print &&
	       atomic_load_explicit(&sdk->type[SP_OTELCPP_TYPE_TRACER], memory_order_relaxed) ==
		       f->type[SP_OTELCPP_TYPE_TRACER];
}

/*
 * Under the lock: only the start was found now, and the spans of this instance are known already.
 */
static bool is_less(const struct sp_otelcpp *sdk, const struct sp_otelcpp_found *f)
{
	return is_again(sdk, f) && f->type[SP_OTELCPP_TYPE_SPAN] == NULL &&
	       atomic_load_explicit(&sdk->type[SP_OTELCPP_TYPE_SPAN], memory_order_relaxed) != NULL;
}

/*
 * Under the lock. The entry for that instance; NULL = more instances are alive than there is room
 * for.
 */
static struct sp_otelcpp *place_for(const struct sp_otelcpp_found *f)
{
	for (unsigned i = 0; i < SP_OTELCPP_INSTANCES_MAX; i++) {
		if (is_again(&sp_otelcpp_instances[i], f))
			return &sp_otelcpp_instances[i];
	}
	for (unsigned i = 0; i < SP_OTELCPP_INSTANCES_MAX; i++) {
		if (is_free(&sp_otelcpp_instances[i]))
			return &sp_otelcpp_instances[i];
	}
	return NULL;
}

/* The lock of the instances. */
static struct sp_try_lock busy;

struct sp_otelcpp *sp_otelcpp_instance_add(const struct sp_otelcpp_found *found)
{
	struct sp_otelcpp *sdk;
	bool is_full;

	if (!sp_try_lock(&busy))
		return NULL;
	sdk = place_for(found);
	is_full = sdk == NULL && sp_lifecycle_wanted();
	if (sdk != NULL && is_less(sdk, found)) {
		/*
		 * The tracer's slot has its original function again, and other slots still have
		 * ours. Their calls need the known functions, so these stay.
		 */
		atomic_store_explicit(&sdk->state, (int)found->state, memory_order_relaxed);
	} else if (sdk != NULL) {
		/*
		 * An object that was loaded again at the same address has the same layout. A
		 * context storage that was not unloaded with it still refers to this entry.
		 */
		if (!is_again(sdk, found))
			forget(sdk);
		detach(sdk);
		take(sdk, found);
	}
	sp_unlock(&busy);
	if (is_full)
		sp_sdk_disproved(found->names->sdk, SP_SDK_FACT_INSTANCES);
	return sdk;
}

/*
 * Calls with the result's address in x8. The link register does not change: fn returns to our
 * caller.
 */
#ifdef __aarch64__

// clang-format off
__asm__(".text\n.balign 4\n.globl sp_otelcpp_call\n.hidden sp_otelcpp_call\n"
	".type sp_otelcpp_call, %function\n"
	"sp_otelcpp_call:\n.cfi_startproc\n"
	"mov x16, x0\nmov x8, x1\nmov x0, x2\nmov x1, x3\nmov x2, x4\nmov x3, x5\n"
	"mov x4, x6\nmov x5, x7\nbr x16\n"
	".cfi_endproc\n.size sp_otelcpp_call, .-sp_otelcpp_call\n");
// clang-format on

#endif
