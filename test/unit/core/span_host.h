/* SPDX-License-Identifier: Apache-2.0 */
/* A host with spans, for the tests of span semantics. The span with id n has object n. */
#ifndef SP_TEST_SPAN_HOST_H
#define SP_TEST_SPAN_HOST_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "sampler/base/process.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/region/names.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"
#include "test/common/span_end.h"

static inline const void *handle_of(uint64_t id)
{
	return (const void *)(uintptr_t)(0x10000 + id * 64);
}

static inline struct sp_span_start start_of(uint64_t id)
{
	struct sp_span_start s;

	memset(&s, 0, sizeof(s));
	s.handle = handle_of(id);
	memcpy(s.span_id, &id, sizeof(id));
	memset(s.trace_id, 0x5a, sizeof(s.trace_id));
	s.name = "span";
	s.name_len = 4;
	return s;
}

static inline bool begin(uint64_t id)
{
	struct sp_span_start s = start_of(id);

	return sp_span_started(&s);
}

static inline bool begin_under(uint64_t id, uint64_t parent)
{
	struct sp_span_start s = start_of(id);

	s.has_parent = true;
	memcpy(s.parent_id, &parent, sizeof(parent));
	return sp_span_started(&s);
}

/* Starts a span like an SDK whose arguments say that the span has no parent. */
static inline void begin_root(uint64_t id)
{
	struct sp_span_start s = start_of(id);

	s.how = SP_ACTIVATION_NONE;
	s.has_parent = true;
	cr_assert(sp_span_started(&s));
}

static inline bool begin_scoped(uint64_t id)
{
	struct sp_span_start s = start_of(id);

	s.how = SP_ACTIVATION_SCOPE;
	return sp_span_started(&s);
}

static inline bool end(uint64_t id)
{
	return span_ended(handle_of(id));
}

static inline uint64_t root_of(uint64_t id)
{
	struct sp_span_record r;

	cr_assert(sp_span_of(handle_of(id), &r), "span %lu is not open", id);
	return r.root_id;
}

/* The result of active() for a span whose frame was forgotten and whose root is known. */
#define ROOT_ALONE UINT64_MAX

static inline uint64_t active(void)
{
	struct sp_span_record r;

	if (sp_thread_own == NULL)
		return 0;
	switch (sp_span_stack_peek(&sp_thread_own->spans, &r)) {
	case SP_SPAN_KNOWN:
	case SP_SPAN_LABEL:
		return r.span_id;
	case SP_SPAN_ROOT_ALONE:
		return ROOT_ALONE;
	case SP_SPAN_NONE:
	case SP_SPAN_INTERLEAVED:
	case SP_SPAN_FORGOTTEN:
	default:
		return 0;
	}
}

static inline void run(void *(*fn)(void *))
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, fn, NULL), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

static inline void set_up(void)
{
	sp_process_set();
	cr_assert_eq(sp_names_init(1000), 0);
	cr_assert_eq(sp_thread_init(), 0);
	cr_assert_eq(sp_span_table_init(), 0);
}

static inline void *end_in_thread(void *id)
{
	cr_assert(end((uint64_t)(uintptr_t)id));
	return NULL;
}

static inline void end_elsewhere(uint64_t id)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, end_in_thread, (void *)(uintptr_t)id), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

static inline void rename_to(uint64_t id, const char *name)
{
	cr_assert(sp_span_renamed(handle_of(id), name, strlen(name)));
}

#endif
