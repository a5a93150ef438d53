/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times of local roots, summed up for each root at the edges of its parts (span_times.h).
 * Context: APP.
 */
#include "sampler/span/span_times.h"

#include <errno.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "sampler/base/arena.h"
#include "sampler/base/cpu_clock.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/seccomp.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/thread_labels.h"

/* The runnable time counts as known if at most this part of it is uncertain: a tenth. */
#define UNKNOWN_OF_RUNNABLE 10U

struct account {
	_Atomic uint64_t cpu_ns;
	_Atomic uint64_t off_ns; /* time off the processor */
	/* the share of off_ns in parts in which the thread was never blocked */
	_Atomic uint64_t runnable_ns;
	_Atomic uint64_t faults;
	_Atomic uint64_t voluntary;
	_Atomic uint64_t involuntary;
	_Atomic uint64_t allocated;
	_Atomic uint64_t parts;
	_Atomic uint64_t open;   /* parts that have not ended */
	_Atomic uint32_t latest; /* the block number of the thread that began a part last */
	_Atomic bool is_whole;   /* the account has been kept since the root's start */
	/* a thread had this root and another one open, and did not tell for which it worked */
	_Atomic bool is_shared;
};

/* By the number of the root's entry in the table; NULL = off. */
static struct account *_Atomic accounts;
static bool wants_all;

_Atomic bool sp_span_times_on;
uint64_t (*_Atomic sp_span_times_allocated)(void);

static struct account *account_of(uint32_t ref)
{
	/* pairs with the release in sp_span_times_init() */
	struct account *all = atomic_load_explicit(&accounts, memory_order_acquire);
	uint32_t n = (ref & SP_SPAN_NUMBER_MASK) - 1;

	return all != NULL && n < SP_SPANS_MAX ? &all[n] : NULL;
}

int sp_span_times_init(bool all)
{
	struct account *made;

	if (atomic_load_explicit(&accounts, memory_order_relaxed) != NULL)
		return 0;
	made = sp_arena_map(SP_SPANS_MAX * sizeof(*made));
	if (made == NULL)
		return -ENOMEM;
	wants_all = all;
	atomic_store_explicit(&accounts, made, memory_order_release);
	atomic_store_explicit(&sp_span_times_on, true, memory_order_relaxed);
	sp_thread_labels_watch(SP_THREAD_LABELS_TIMES, true);
	return 0;
}

static void put(_Atomic uint64_t *to, uint64_t value)
{
	atomic_store_explicit(to, value, memory_order_relaxed);
}

static void add(_Atomic uint64_t *to, uint64_t more)
{
	if (more != 0)
		atomic_fetch_add_explicit(to, more, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *from)
{
	return atomic_load_explicit(from, memory_order_relaxed);
}

void sp_span_times_begin(const struct sp_span_record *r)
{
	struct account *a = account_of(r->ref);

	if (a == NULL || r->root_id != r->span_id)
		return;
	put(&a->cpu_ns, 0);
	put(&a->off_ns, 0);
	put(&a->runnable_ns, 0);
	put(&a->faults, 0);
	put(&a->voluntary, 0);
	put(&a->involuntary, 0);
	put(&a->allocated, 0);
	put(&a->parts, 0);
	put(&a->open, 0);
	atomic_store_explicit(&a->is_whole, true, memory_order_relaxed);
	atomic_store_explicit(&a->is_shared, false, memory_order_relaxed);
}

/*
 * Reads the clocks of the thread in the same order at both edges of a part, so that the reads take
 * equally long. getrusage() counts this thread's switches and faults exactly, but its CPU time only
 * up to the kernel's last tick.
 */
static bool read_edge(struct sp_thread_part_edge *e)
{
	uint64_t (*allocated)(void) =
		atomic_load_explicit(&sp_span_times_allocated, memory_order_relaxed);
	struct rusage usage = {.ru_nvcsw = 0};
	int saved = errno;

	e->wall_ns = wants_all ? sp_monotonic_ns() : 0;
	if (!sp_cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID, &e->cpu_ns))
		return false;
	if (wants_all && sp_syscall(SYS_getrusage, RUSAGE_THREAD, &usage) != 0) {
		errno = saved;
		return false;
	}
	e->faults = (uint32_t)usage.ru_majflt;
	e->voluntary = (uint32_t)usage.ru_nvcsw;
	e->involuntary = (uint32_t)usage.ru_nivcsw;
	e->allocated = wants_all && allocated != NULL ? allocated() : 0;
	return true;
}

static uint64_t since(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

static void add_part(struct account *a, const struct sp_thread *t,
		     const struct sp_thread_part_edge *now)
{
	const struct sp_thread_part_edge *then = &t->part.begun;
	uint64_t off = since(since(now->wall_ns, then->wall_ns), since(now->cpu_ns, then->cpu_ns));
	/* Unsigned: the counts may wrap. */
	uint32_t voluntary = now->voluntary - then->voluntary;

	add(&a->off_ns, off);
	add(&a->faults, (uint32_t)(now->faults - then->faults));
	add(&a->voluntary, voluntary);
	add(&a->involuntary, (uint32_t)(now->involuntary - then->involuntary));
	add(&a->allocated, now->allocated - then->allocated);
	/* A thread that never gave up the processor was never blocked. */
	if (voluntary == 0)
		add(&a->runnable_ns, off);
}

/*
 * Checked before each add: another thread may have released the root, and its entry may belong to
 * another span.
 */
static struct account *open_account(uint64_t root_id, uint32_t root_ref)
{
	struct account *a = account_of(root_ref);

	return a != NULL && sp_span_table_holds(root_ref, root_id) ? a : NULL;
}

static void end_part(struct sp_thread *t, const struct sp_thread_part_edge *now)
{
	struct account *a = open_account(get(&t->part.root_id), t->part.root_ref);

	put(&t->part.root_id, 0);
	if (a == NULL)
		return;
	/* The clock of a forked child begins anew, so it may be behind the start of the part. */
	add(&a->cpu_ns, since(now->cpu_ns, t->part.begun.cpu_ns));
	if (wants_all)
		add_part(a, t, now);
	/*
	 * pairs with the acquire in sp_span_times_of(): a thread that finds no open part sees all
	 * sums
	 */
	atomic_fetch_sub_explicit(&a->open, 1, memory_order_release);
}

static void begin_part(struct sp_thread *t, const struct sp_span_record *e,
		       const struct sp_thread_part_edge *now)
{
	struct account *a = open_account(e->root_id, e->root_ref);

	t->part.begun = *now;
	put(&t->part.cpu_ns, now->cpu_ns);
	atomic_store_explicit(&t->part.root_ref, e->root_ref, memory_order_relaxed);
	/* pairs with the acquire in is_in() */
	atomic_store_explicit(&t->part.root_id, e->root_id, memory_order_release);
	/* NULL: the root has ended, and a span below it is still active. */
	if (a == NULL)
		return;
	add(&a->parts, 1);
	add(&a->open, 1);
	atomic_store_explicit(&a->latest, t->index, memory_order_relaxed);
}

static bool is_in(const struct sp_thread *t, uint64_t root_id, uint32_t root_ref)
{
	return atomic_load_explicit(&t->part.root_id, memory_order_acquire) == root_id &&
	       atomic_load_explicit(&t->part.root_ref, memory_order_relaxed) == root_ref;
}

/*
 * Adds the CPU time so far of the parts that other threads are in, each by its own clock. Most
 * often that is one part, whose thread is `latest`. False if a part was not found: its thread has
 * ended, or has a block beyond SP_THREAD_LOOK_MAX, or the part has ended meanwhile. Such a part is
 * missing in the sum, but none is counted twice, because ended parts were read before.
 */
static bool add_open_parts(const struct account *a, const struct sp_span_record *r, uint64_t *sum)
{
	uint32_t n = atomic_load_explicit(&sp_thread_table.used, memory_order_acquire);
	uint32_t at = atomic_load_explicit(&a->latest, memory_order_relaxed);
	uint64_t open = get(&a->open);

	for (uint32_t i = 0; i < n && i < SP_THREAD_LOOK_MAX && open != 0; i++, at++) {
		const struct sp_thread *t = sp_thread_at(at % n);
		uint32_t tid = atomic_load_explicit(&t->tid, memory_order_acquire);
		uint64_t then;
		uint64_t now;

		if (tid == 0 || !is_in(t, r->span_id, r->ref))
			continue;
		then = get(&t->part.cpu_ns);
		if (!sp_cpu_clock_ns(SP_THREAD_CPU_CLOCK(tid), &now) ||
		    !is_in(t, r->span_id, r->ref))
			continue;
		*sum += since(now, then);
		open--;
	}
	return open == 0;
}

/*
 * Marks all roots on the thread's stack: from now on nobody knows for which of them the thread
 * works.
 */
static void share(const struct sp_thread *t)
{
	uint64_t ids[SP_SPAN_IDS_MAX];
	unsigned n = sp_span_stack_ids(&t->spans, ids);
	struct sp_span_record r;

	for (unsigned i = 0; i < n; i++) {
		struct account *a = sp_span_table_by_id(ids[i], &r) ? account_of(r.root_ref) : NULL;

		if (a != NULL)
			atomic_store_explicit(&a->is_shared, true, memory_order_relaxed);
	}
}

void sp_span_times_changed(struct sp_thread *t)
{
	struct sp_span_record r;
	struct sp_thread_part_edge now;
	bool is_in_root;

	if (t == NULL)
		return;
	switch (sp_span_stack_peek(&t->spans, &r)) {
	case SP_SPAN_KNOWN:
	case SP_SPAN_ROOT_ALONE:
		is_in_root = r.root_ref != 0;
		break;
	case SP_SPAN_INTERLEAVED:
		share(t);
		is_in_root = false;
		break;
	/* A manual label belongs to no root. */
	case SP_SPAN_LABEL:
	case SP_SPAN_NONE:
	case SP_SPAN_FORGOTTEN:
	default:
		is_in_root = false;
		break;
	}
	if (get(&t->part.root_id) == 0 && !is_in_root)
		return;
	if (is_in_root && is_in(t, r.root_id, r.root_ref))
		return;
	if (!read_edge(&now)) {
		put(&t->part.root_id, 0);
		return;
	}
	if (get(&t->part.root_id) != 0)
		end_part(t, &now);
	if (is_in_root)
		begin_part(t, &r, &now);
}

void sp_span_times_of(const struct sp_span_record *r, struct sp_span_times *out)
{
	struct sp_thread *t = sp_thread_own;
	const struct account *a = account_of(r->ref);
	struct sp_thread_part_edge now;

	*out = (struct sp_span_times){.has_cpu = true};
	if (a == NULL)
		return;
	if (t != NULL && is_in(t, r->span_id, r->ref) && read_edge(&now))
		end_part(t, &now);
	out->cpu_ns = get(&a->cpu_ns);
	out->has_cpu = !atomic_load_explicit(&a->is_shared, memory_order_relaxed) &&
		       add_open_parts(a, r, &out->cpu_ns);
	/* pairs with the release in end_part() */
	if (!wants_all || !out->has_cpu ||
	    atomic_load_explicit(&a->open, memory_order_acquire) != 0 ||
	    !atomic_load_explicit(&a->is_whole, memory_order_relaxed) || get(&a->parts) == 0)
		return;
	out->is_known = true;
	out->off_cpu_ns = get(&a->off_ns);
	out->major_faults = get(&a->faults);
	out->voluntary_switches = get(&a->voluntary);
	out->involuntary_switches = get(&a->involuntary);
	out->runnable_ns = get(&a->runnable_ns);
	out->allocated = get(&a->allocated);
	out->has_allocated =
		atomic_load_explicit(&sp_span_times_allocated, memory_order_relaxed) != NULL;
	out->has_runnable =
		out->off_cpu_ns - out->runnable_ns <= out->runnable_ns / UNKNOWN_OF_RUNNABLE;
}

void sp_span_times_forked(void)
{
	struct account *all = atomic_load_explicit(&accounts, memory_order_relaxed);

	if (all == NULL)
		return;
	sp_arena_wipe(all, SP_SPANS_MAX * sizeof(*all));
	sp_span_times_change(sp_thread_own);
}
