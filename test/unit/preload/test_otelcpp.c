/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adapter for opentelemetry-cpp, with a small SDK whose objects are laid out like those of opentelemetry-cpp. The
 * SDK itself never behaves like this, but a program may make it do so.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "preload/lifecycle/sdk.h"
#include "preload/lifecycle/state.h"
#include "preload/sdk/otelcpp/adapter_otelcpp.h"
#include "preload/sdk/otelcpp/otelcpp_abi.h"
#include "preload/sdk/span_attr.h"
#include "sampler/base/counters.h"
#include "sampler/base/process.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/region/region.h"
#include "sampler/thread/thread.h"

/* libstdc++'s pointers and the SDK's nostd pointers have the object in their second word. */
static const struct sp_otelcpp_flavour flavour = SP_OTELCPP_FLAVOUR_NOSTD;

struct pointer {
	const void *vptr;
	void *object;
	void *control;
	void *unused;
};

/* The id is in the object itself, as since 1.29. */
struct span {
	const void *vptr;
	char private[SP_OTELCPP_SPAN_CONTEXT - sizeof(void *)];
	struct sp_otelcpp_ids ids;
};

struct node {
	const char *key;
	struct pointer next;
	size_t key_len;
	struct pointer value;
	unsigned char index;
};
_Static_assert(offsetof(struct node, next) == 8 && offsetof(struct node, key_len) == 40 &&
		       offsetof(struct node, value) == 48 && offsetof(struct node, index) == 80,
	       "as the flavour says");

struct token {
	const void *vptr;
	struct pointer context;
};

typedef void *start_fn(void *result, void *tracer, size_t len, const char *name,
		       const void *attributes, const void *links, const void *options);
typedef void *attach_fn(void *result, void *self, const void *context);
typedef void *get_fn(void *result, void *self);
typedef void end_fn(void *span, const void *options);
typedef void destroy_fn(void *span);

static struct {
	struct span *next; /* the span that the tracer starts next */
	unsigned ended;
	unsigned destroyed;
	struct pointer current;
	struct token token;
	void (*inside)(void); /* called while a span is being started, like a span processor */
} sdk;

static void nothing(void)
{
}

static void *const pointer_class[] = {(void *)nothing, (void *)nothing};
static const char storage_name[] = "N13opentelemetry2v17context25ThreadLocalContextStorageE";
static const void *const storage_type[] = {NULL, storage_name};

static size_t no_attributes(const void *attributes)
{
	(void)attributes;
	errno = ENOENT;
	return 0;
}

/* For attributes and for links. */
static bool each_of_none(const void *all, void *callback, void *function)
{
	(void)all;
	(void)callback;
	(void)function;
	errno = ENOENT;
	return true;
}

static const void *const attributes_class[] = {NULL, NULL, (void *)each_of_none,
					       (void *)no_attributes};
static const void *const attributes[] = {(const void *)attributes_class};

SP_OTELCPP_LOCAL_ENTRY(real_start, start_fn, "sp_test_start_entry");
/* NOLINTNEXTLINE(readability-function-size): the SDK's own seven parameters */
void *real_start(void *result, void *tracer, size_t len, const char *name, const void *given,
		 const void *links, const void *options)
{
	struct pointer *p = result;

	(void)tracer;
	(void)len;
	(void)name;
	(void)given;
	(void)links;
	(void)options;
	*p = (struct pointer){.vptr = pointer_class, .object = sdk.next};
	if (sdk.inside != NULL)
		sdk.inside();
	return result;
}

static void real_end(void *span, const void *options)
{
	(void)span;
	(void)options;
	sdk.ended++;
}

static void real_destroy(void *span)
{
	(void)span;
	sdk.destroyed++;
}

SP_OTELCPP_LOCAL_ENTRY(real_attach, attach_fn, "sp_test_attach_entry");
void *real_attach(void *result, void *self, const void *context)
{
	(void)self;
	memcpy(&sdk.current, context, sizeof(sdk.current));
	sdk.token.context = sdk.current;
	*(void **)result = &sdk.token;
	return result;
}

static bool real_detach(void *self, void *token)
{
	(void)self;
	(void)token;
	sdk.current.object = NULL;
	return true;
}

SP_OTELCPP_LOCAL_ENTRY(real_get_current, get_fn, "sp_test_get_entry");
void *real_get_current(void *result, void *self)
{
	(void)self;
	memcpy(result, &sdk.current, sizeof(sdk.current));
	return result;
}

static const void *span_class[SP_OTELCPP_SPAN_SLOTS_V1];
static const void *tracer_class[SP_OTELCPP_TRACER_SLOTS_V1];
static const void *tracer[] = {tracer_class};
static const void *storage_class[SP_OTELCPP_VTABLE_HEAD + SP_OTELCPP_STORAGE_SLOTS_MAX];
static const void *storage[] = {&storage_class[SP_OTELCPP_VTABLE_HEAD]};
static struct pointer storage_pointer = {.vptr = pointer_class, .object = storage};

static void be(enum sp_otelcpp_real which, void *function)
{
	atomic_store(&sp_otelcpp_instances[0].real[which], function);
}

static void set_up(void)
{
	struct sp_otelcpp *i = &sp_otelcpp_instances[0];
	const void **storage_slot = &storage_class[SP_OTELCPP_VTABLE_HEAD];

	sp_process_set();
	cr_assert_eq(sp_names_init(100), 0);
	cr_assert_eq(sp_thread_init(), 0);
	cr_assert_eq(sp_span_table_init(), 0);
	/* An exporter works, and has no request. */
	sp_region_nowhere.deferred_work = 0;
	sp_region_nowhere.exporter = SP_EXPORTER_WORKING;
	atomic_store(&sp_lifecycle_state, SP_LIFECYCLE_ACTIVE);
	sp_lifecycle_settings.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	sp_lifecycle_settings.span_id_scope = SP_SCOPE_ROOT;

	sdk.current.vptr = pointer_class;
	storage_class[1] = storage_type;
	storage_slot[SP_OTELCPP_SLOT_GET_CURRENT] = SP_OTELCPP_ENTRY_OF(real_get_current);
	storage_slot[SP_OTELCPP_SLOT_ATTACH] = SP_OTELCPP_ENTRY_OF(real_attach);
	storage_slot[SP_OTELCPP_SLOT_DETACH] = (void *)real_detach;
	i->names = &sp_otelcpp_names[0];
	i->span_vptr = span_class;
	i->flavour = &flavour;
	i->own_context = SP_OTELCPP_PLACE_INLINE;
	i->contexts = SP_OTELCPP_KNOWN;
	i->storage = (const char *)&storage_pointer;
	be(SP_OTELCPP_REAL_START, (void *)(uintptr_t)SP_OTELCPP_ENTRY_OF(real_start));
	be(SP_OTELCPP_REAL_END, (void *)real_end);
	be(SP_OTELCPP_REAL_D0, (void *)real_destroy);
	atomic_store(&i->type[SP_OTELCPP_TYPE_TRACER], (const void *const *)tracer_class);
	atomic_store(&i->type[SP_OTELCPP_TYPE_SPAN], (const void *const *)span_class);
	atomic_store(&i->state, SP_OTELCPP_KNOWN);
}

TestSuite(otelcpp, .init = set_up, .timeout = 20);

static struct span span_of(uint64_t id)
{
	struct span s = {.vptr = span_class, .ids.flags = SP_OTELCPP_FLAG_SAMPLED};

	memcpy(s.ids.span_id, &id, sizeof(id));
	memcpy(s.ids.trace_id, &id, sizeof(id));
	memcpy(s.ids.trace_id + 8, &id, sizeof(id));
	return s;
}

static void start(struct span *s)
{
	static const char options[256];
	start_fn *fn = (start_fn *)(uintptr_t)sp_otelcpp_hooks[SP_OTELCPP_REAL_START];
	struct pointer result;

	sdk.next = s;
	SP_OTELCPP_CALL(fn, &result, tracer, 4, "span", attributes, attributes, options);
	cr_assert_eq(result.object, s);
}

static void end(struct span *s)
{
	((end_fn *)(uintptr_t)sp_otelcpp_hooks[SP_OTELCPP_REAL_END])(s, NULL);
}

static void destroy(struct span *s)
{
	((destroy_fn *)(uintptr_t)sp_otelcpp_hooks[SP_OTELCPP_REAL_D0])(s);
}

static uint64_t active(void)
{
	struct sp_span_record r;

	return sp_thread_own != NULL &&
			       sp_span_stack_peek(&sp_thread_own->spans, &r) == SP_SPAN_KNOWN
		       ? r.span_id
		       : 0;
}

static bool is_open(uint64_t id)
{
	struct sp_span_record r;

	return sp_span_table_by_id(id, &r);
}

Test(otelcpp, a_span_is_open_from_its_start_to_its_end_or_destruction)
{
	struct span a = span_of(1);
	struct span b = span_of(2);
	struct sp_span_record r;

	memset(a.ids.trace_id, 0x5a, sizeof(a.ids.trace_id));
	start(&a);
	cr_assert(sp_span_table_by_id(1, &r));
	cr_expect(memcmp(r.trace, a.ids.trace_id, sizeof(r.trace)) == 0);
	cr_expect_eq(r.name_id, sp_names_intern("span", 4));
	cr_expect_eq(r.sdk, SP_SDK_OTELCPP_V1);
	cr_expect_eq(active(), 1);
	end(&a);
	cr_expect_not(is_open(1));
	destroy(&a);

	start(&b);
	destroy(&b);
	cr_expect_not(is_open(2), "destroyed without an end");

	cr_expect_eq(sdk.ended, 1);
	cr_expect_eq(sdk.destroyed, 2);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 2);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 2);
}

/*
 * A program's own generator repeats an id, and the SDK makes the second span at the address of the first. The second
 * span is destroyed without an end, which must not be taken for the destruction of the first.
 */
Test(otelcpp, a_span_with_the_id_and_place_of_one_that_was_closed_ends_at_its_destruction)
{
	struct span s = span_of(1);

	for (unsigned i = 0; i < 3; i++) {
		start(&s);
		end(&s);
		start(&s);
		cr_expect(is_open(1), "%u", i);
		destroy(&s);
		cr_expect_not(is_open(1), "%u", i);
	}
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 6);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 6);
	cr_expect_eq(sdk.destroyed, 3);
}

static void *start_in_thread(void *s)
{
	start(s);
	return NULL;
}

/* Another thread has started a span at the address of the span that this thread closed last. */
Test(otelcpp, a_span_at_the_place_of_a_closed_one_ends_at_its_destruction)
{
	struct span s = span_of(1);
	pthread_t thread;

	start(&s);
	end(&s);
	s = span_of(2);
	cr_assert_eq(pthread_create(&thread, NULL, start_in_thread, &s), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect(is_open(2));
	destroy(&s);

	cr_expect_not(is_open(2));
}

Test(otelcpp, a_destruction_of_another_object_with_a_closed_spans_id_ends_it)
{
	struct span first = span_of(1);
	struct span other = span_of(2);

	start(&other);
	start(&first);
	end(&first);
	destroy(&other);

	cr_expect_not(is_open(2));
	destroy(&first);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 2);
}

static struct span within;

static void start_within(void)
{
	struct span *outermost = sdk.next;

	sdk.inside = NULL;
	start(&within);
	sdk.next = outermost;
}

/* A wrapper does this; without the rule its span would be counted twice. */
Test(otelcpp, a_start_inside_another_one_is_not_recorded)
{
	struct span s = span_of(1);

	within = span_of(2);
	sdk.inside = start_within;
	start(&s);

	cr_expect(is_open(1));
	cr_expect_not(is_open(2));
	end(&within);
	end(&s);
	cr_expect_eq(sdk.ended, 2);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 1);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 1);
}

/* Unsampled spans and spans after the end of sampling do not count, and the real functions are called. */
Test(otelcpp, what_does_not_count_goes_through)
{
	struct span s = span_of(1);
	struct span open = span_of(2);

	s.ids.flags = 0;
	start(&s);
	cr_expect_not(is_open(1));

	start(&open);
	atomic_store(&sp_lifecycle_state, SP_LIFECYCLE_STOPPED);
	s.ids.flags = SP_OTELCPP_FLAG_SAMPLED;
	start(&s);
	cr_expect_not(is_open(1));
	end(&open);
	cr_expect(is_open(2), "nothing is changed any more");
	destroy(&open);
	cr_expect_eq(sdk.ended, 1);
	cr_expect_eq(sdk.destroyed, 1);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_STARTED), 1);
}

Test(otelcpp, a_start_leaves_errno_as_the_sdk_left_it)
{
	struct span s = span_of(1);

	for (unsigned i = 0; i < 3; i++) {
		errno = EDOM;
		start(&s);
		cr_expect_eq(errno, EDOM, "%u", i);
		end(&s);
		cr_expect_eq(errno, EDOM, "%u", i);
	}
}

static const char *key_set;

static void real_set_attribute(void *span, size_t len, const char *key, const void *value)
{
	(void)span;
	(void)len;
	(void)value;
	cr_expect_eq(sdk.ended, 0, "after the end the SDK takes none");
	key_set = key;
}

static bool real_is_recording(void *span)
{
	(void)span;
	return true;
}

static const char *key_given(enum sp_attributes_mode wanted)
{
	struct span s = span_of(1);

	set_up();
	sp_lifecycle_settings.attributes = wanted;
	atomic_store(&sp_otelcpp_instances[0].attributes, SP_SPAN_ATTR_UNTRIED);
	span_class[SP_OTELCPP_SLOT_END_V1 + SP_OTELCPP_SLOT_IS_RECORDING_AFTER_END] =
		(void *)real_is_recording;
	be(SP_OTELCPP_REAL_SET_ATTRIBUTE, (void *)real_set_attribute);
	key_set = NULL;
	sdk.ended = 0;
	start(&s);
	end(&s);
	return key_set;
}

Test(otelcpp, a_span_gets_our_attribute_before_its_end_where_that_is_wanted)
{
	cr_expect_str_eq(key_given(SP_ATTRIBUTES_ALWAYS), "pyroscope.profile.id");
	cr_expect_null(key_given(SP_ATTRIBUTES_WITH_SAMPLES), "it has none");
	cr_expect_null(key_given(SP_ATTRIBUTES_NEVER));
}

static struct node node;
static bool unlike; /* a node has a value of an impossible kind */

static struct pointer context_of(struct span *s)
{
	node = (struct node){.key = SP_OTELCPP_KEY_SPAN,
			     .next = {.vptr = pointer_class},
			     .key_len = strlen(SP_OTELCPP_KEY_SPAN),
			     .value = {.vptr = pointer_class, .object = s, .control = s},
			     .index = unlike ? SP_OTELCPP_VALUES_MAX : SP_OTELCPP_VALUE_IS_SPAN};
	return (struct pointer){.vptr = pointer_class, .object = &node, .control = &node};
}

static void attach(struct span *s)
{
	struct pointer context = context_of(s);
	void *token = NULL;
	attach_fn *fn = sp_otelcpp_member(storage[0], SP_OTELCPP_SLOT_ATTACH * sizeof(void *));

	SP_OTELCPP_CALL(fn, &token, storage, &context);
	cr_assert_eq(token, &sdk.token);
}

static void detach(void)
{
	bool (*fn)(void *, void *) =
		sp_otelcpp_member(storage[0], SP_OTELCPP_SLOT_DETACH * sizeof(void *));

	cr_assert(fn(storage, &sdk.token));
}

Test(otelcpp, a_span_is_active_while_it_is_attached)
{
	struct span a = span_of(1);

	for (unsigned i = 0; i < 3; i++) {
		start(&a);
		attach(&a);
		cr_expect_eq(active(), 1, "%u", i);
		detach();
		cr_expect_eq(active(), 0, "%u", i);
		end(&a);
	}
	cr_expect_eq(sp_otelcpp_instances[0].doubts, 0);
}

/* Before enough contexts were seen, one with another layout ends all trust in scopes. */
Test(otelcpp, a_context_that_is_not_understood_makes_spans_active_from_start_to_end)
{
	struct sp_otelcpp *i = &sp_otelcpp_instances[0];
	struct span a = span_of(1);
	struct span b = span_of(2);

	start(&a);
	attach(&a);
	detach();
	end(&a);
	atomic_store(&i->contexts, SP_OTELCPP_UNTRIED);
	unlike = true;
	attach(&a);
	unlike = false;

	cr_expect_eq(i->contexts, SP_OTELCPP_REJECTED);
	cr_expect((i->doubts & SP_OTELCPP_FOREIGN) != 0);
	start(&b);
	cr_expect_eq(active(), 2);
	end(&b);
	cr_expect_eq(active(), 0);
}

static struct span outer;

static void attach_outer(void)
{
	attach(&outer);
}

/*
 * A processor attaches a span in the start of another one. That is inside a hooked call, so our stack does not have
 * it. For the next start, the SDK is asked for the parent.
 */
Test(otelcpp, what_is_attached_inside_another_hooked_call_is_the_parent_all_the_same)
{
	struct span inner = span_of(2);
	struct span child = span_of(3);
	struct sp_span_record r;

	outer = span_of(1);
	start(&outer);
	attach(&outer);
	detach();
	cr_expect_eq(sp_otelcpp_instances[0].doubts, 0);

	sdk.inside = attach_outer;
	start(&inner);
	sdk.inside = NULL;
	cr_expect_eq(sp_otelcpp_instances[0].doubts, SP_OTELCPP_UNSEEN);
	cr_expect_eq(active(), 0);

	memcpy(child.ids.trace_id, outer.ids.trace_id, sizeof(child.ids.trace_id));
	start(&child);
	cr_assert(sp_span_table_by_id(3, &r));
	cr_expect_eq(r.root_id, 1);
}

/* The same for a detach: the span on our stack is not current any more. */
Test(otelcpp, what_is_detached_inside_another_hooked_call_is_no_parent)
{
	struct span inner = span_of(2);
	struct span child = span_of(3);
	struct sp_span_record r;

	outer = span_of(1);
	start(&outer);
	attach(&outer);
	sdk.inside = detach;
	start(&inner);
	sdk.inside = NULL;
	cr_expect_eq(sp_otelcpp_instances[0].doubts, SP_OTELCPP_UNSEEN);

	memcpy(child.ids.trace_id, outer.ids.trace_id, sizeof(child.ids.trace_id));
	start(&child);
	cr_assert(sp_span_table_by_id(3, &r));
	cr_expect_eq(r.root_id, 3);
}

static const char own_storage_name[] = "12FiberStorage";
static const void *const own_storage_type[] = {NULL, own_storage_name};

/* Another fiber runs on this thread; the program's own storage knows that, and we do not. */
Test(otelcpp, scopes_of_a_storage_of_the_programs_own_that_answers_by_fiber_label_nothing)
{
	struct span a = span_of(1);
	struct span b = span_of(2);
	struct span c = span_of(3);

	storage_class[1] = own_storage_type;
	start(&a);
	attach(&a);
	cr_expect_eq(active(), 1);
	start(&b);
	sdk.current.object = NULL;
	attach(&b);
	cr_expect_eq(active(), 0);

	start(&c);
	attach(&c);
	cr_expect_eq(active(), 0, "nor any later one");
}

/*
 * The SDK has called its storage without the slots that we watch, as in a program that was compiled as a whole. No
 * call has named a parent or attached one, and the second span is in the trace of the first.
 */
Test(otelcpp, a_trace_that_goes_on_without_a_scope_shows_scopes_that_are_not_seen)
{
	struct sp_otelcpp *i = &sp_otelcpp_instances[0];
	struct span a = span_of(1);
	struct span b = span_of(2);
	struct span c = span_of(3);

	i->by_type = true;
	start(&a);
	start(&c);
	cr_expect_eq(i->doubts & SP_OTELCPP_FOREIGN, 0, "another trace");
	end(&c);
	memcpy(b.ids.trace_id, c.ids.trace_id, sizeof(b.ids.trace_id));
	start(&b);
	cr_expect_neq(i->doubts & SP_OTELCPP_FOREIGN, 0);
	end(&b);
	end(&a);
}
