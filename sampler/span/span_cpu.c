/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time by local root (span_cpu.h). Whenever a thread's active span changes, the thread's CPU
 * clock is read, and the time since the last change is added to the root that was active. Context:
 * APP.
 */
#include "sampler/span/span_cpu.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "sampler/base/arena.h"
#include "sampler/base/cpu_clock.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table_sig.h"
#include "sampler/thread/thread.h"

/* By the number of the root's entry in the table; NULL = off. */
static _Atomic uint64_t *_Atomic account;

_Atomic bool sp_span_cpu_on;

static _Atomic uint64_t *account_of(uint32_t ref)
{
	/* pairs with the release in sp_span_cpu_init() */
	_Atomic uint64_t *all = atomic_load_explicit(&account, memory_order_acquire);
	uint32_t n = (ref & SP_SPAN_NUMBER_MASK) - 1;

	return all != NULL && n < SP_SPANS_MAX ? &all[n] : NULL;
}

int sp_span_cpu_init(void)
{
	_Atomic uint64_t *all;

	if (atomic_load_explicit(&account, memory_order_relaxed) != NULL)
		return 0;
	all = sp_arena_map(SP_SPANS_MAX * sizeof(*all));
	if (all == NULL)
		return -ENOMEM;
	atomic_store_explicit(&account, all, memory_order_release);
	atomic_store_explicit(&sp_span_cpu_on, true, memory_order_relaxed);
	return 0;
}

void sp_span_cpu_begin(const struct sp_span_record *r)
{
	_Atomic uint64_t *a = account_of(r->ref);

	if (a != NULL)
		atomic_store_explicit(a, 0, memory_order_relaxed);
}

/*
 * Checked before the add: the root may have just ended on another thread, and its entry may belong
 * to another span.
 */
static void add(const struct sp_span_entry *e, uint64_t ns)
{
	uint32_t ref = e->root_id == e->span_id ? e->ref : e->root_ref;
	_Atomic uint64_t *a = account_of(ref);
	struct sp_span_names still_open;

	if (a != NULL && sp_span_table_names(ref, e->root_id, &still_open))
		atomic_fetch_add_explicit(a, ns, memory_order_relaxed);
}

void sp_span_cpu_add(struct sp_thread *t)
{
	struct sp_span_entry e;
	uint64_t now = 0;

	if (t == NULL)
		return;
	if (!sp_cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID, &now))
		return;
	/* A forked child's clock begins anew, and so does what it is compared with. */
	if (now > t->span_cpu_ns && sp_span_stack_peek(&t->spans, &e))
		add(&e, now - t->span_cpu_ns);
	t->span_cpu_ns = now;
}

uint64_t sp_span_cpu_of(const struct sp_span_record *r)
{
	_Atomic uint64_t *a = account_of(r->ref);

	return a != NULL ? atomic_load_explicit(a, memory_order_relaxed) : 0;
}
