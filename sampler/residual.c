/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settling CPU clocks against samples. Context: APP. Two that settle the same thread decide by one CAS,
 * and never wait.
 *
 * A sample stands for a whole period, so a thread that had one may be ahead of its clock by as much
 * when it ends. Such a lead is remembered for the process and taken off later records: otherwise
 * short threads would add up to more than the process used.
 */
#include "sampler/residual.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "sampler/counters.h"
#include "sampler/cpu_clock.h"
#include "sampler/handler.h"
#include "sampler/span.h"
#include "sampler/span_table.h"
#include "sampler/thread.h"
#include "sampler/thread_name.h"
#include "sampler/thread_table.h"
#include "sampler/timer.h"
#include "sampler/try_lock.h"
#include "sampler/turns.h"

#define TABLE (&sp_thread_table)
/*
 * A timer that missed expirations counts them with its next signal, which may come any time while
 * the thread lives: what a live thread lacks is given up for lost late.
 */
#define LOOK_NS (250 * SP_NS_PER_MS)
/* Of so many threads at most at a time: it happens inside of a call of the host. */
#define LOOK_BLOCKS 256U
/* struct sp_sample.weight has 32 bits of nanoseconds. */
#define RECORD_NS_MAX UINT64_C(4000000000)

/* By how much ended threads' samples were ahead of their clocks. */
static _Atomic uint64_t lead_ns;
static uint64_t process_since_ns;
static _Atomic bool stopped;
/* Other threads' accounts are settled by one thread at a time, in this sample. */
static atomic_flag settling_others = ATOMIC_FLAG_INIT;
static struct sp_sample others_scratch;

static bool counting(void)
{
	return sp_timer_period_ns() != 0 && !atomic_load_explicit(&stopped, memory_order_relaxed);
}

void sp_residual_begin(struct sp_thread *t, uint32_t tid)
{
	uint64_t now = 0;

	(void)sp_cpu_clock_ns(SP_THREAD_CPU_CLOCK(tid), &now);
	atomic_store_explicit(&t->residual.since_ns, now, memory_order_relaxed);
	atomic_store_explicit(&t->residual.settled_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&t->residual.even_version, sp_span_stack_version(&t->spans),
			      memory_order_relaxed);
	atomic_store_explicit(&t->residual.gap, false, memory_order_relaxed);
	sp_turns_restart(&t->turns);
}

void sp_residual_start(void)
{
	struct sp_thread *own = sp_thread_own;

	(void)sp_cpu_clock_ns(CLOCK_PROCESS_CPUTIME_ID, &process_since_ns);
	atomic_store_explicit(&sp_handler_setup.accounted_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&lead_ns, 0, memory_order_relaxed);
	if (own != NULL)
		sp_residual_begin(own, atomic_load_explicit(&own->tid, memory_order_relaxed));
}

static void put(struct sp_sample *s, uint64_t ns)
{
	s->weight = (uint32_t)ns;
	sp_count(SP_COUNT_RESIDUALS);
	if (sp_ring_put(&sp_handler_setup.ring, s) != 0) {
		sp_count(SP_COUNT_DROP_RING_FULL);
		return;
	}
	sp_count(SP_COUNT_SAMPLES_PUT);
	atomic_fetch_add_explicit(&sp_handler_setup.accounted_ns, ns, memory_order_relaxed);
}

static void put_all(struct sp_sample *s, uint64_t ns)
{
	for (; ns > RECORD_NS_MAX; ns -= RECORD_NS_MAX)
		put(s, RECORD_NS_MAX);
	put(s, ns);
}

/* A record of no thread, no frame and no label. */
static void blank(struct sp_sample *s)
{
	memset(s, 0, offsetof(struct sp_sample, pc));
	s->flags = SP_SAMPLE_ROOTED | SP_SAMPLE_RESIDUAL;
}

/* A thread fills in its own block's sample. The exporter knows the names of the others. */
static void describe(struct sp_sample *s, struct sp_thread *t, uint32_t tid)
{
	blank(s);
	s->tid = tid;
	if (sp_handler_setup.thread_name && s == sp_thread_scratch(t))
		sp_thread_name_own(s->thread_name);
	if (t->start != NULL) {
		s->pc[0] = (uintptr_t)t->start;
		s->depth = 1;
	}
}

static void put_labelled(void *arg, const struct sp_turn_label *label, uint64_t ns)
{
	struct sp_sample *s = arg;

	s->span_id = label->span_id;
	s->name_id = label->name_id;
	memcpy(s->trace_id, label->trace_id, sizeof(s->trace_id));
	put_all(s, ns);
}

/*
 * What is left of ns after earlier leads were taken off: of each thread at most a period, so that
 * nobody pays for all others.
 */
static uint64_t less_lead(uint64_t ns)
{
	uint64_t lead = atomic_load_explicit(&lead_ns, memory_order_relaxed);
	uint64_t most = ns < sp_timer_period_ns() ? ns : sp_timer_period_ns();
	uint64_t off;

	do {
		off = lead < most ? lead : most;
	} while (off != 0 && !atomic_compare_exchange_weak_explicit(&lead_ns, &lead, lead - off,
								    memory_order_relaxed,
								    memory_order_relaxed));
	return ns - off;
}

/*
 * Brings the thread's account to its clock, if it is behind by at least that, or always. Returns what
 * there is to put down for it, in a record that is described but has no label.
 */
static uint64_t settle(struct sp_thread *t, uint64_t now, uint64_t at_least,
		       struct sp_sample *record)
{
	uint32_t tid = atomic_load_explicit(&t->tid, memory_order_relaxed);
	uint64_t since = atomic_load_explicit(&t->residual.since_ns, memory_order_relaxed);
	uint64_t settled = atomic_load_explicit(&t->residual.settled_ns, memory_order_relaxed);
	uint64_t used = now > since ? now - since : 0;

	if (at_least != 0 && (used < settled || used - settled < at_least))
		return 0;
	if (used == settled)
		return 0;
	/* before the account is: once it is settled, the thread may be gone and its number another's */
	if (used > settled)
		describe(record, t, tid);
	/* whoever is faster, a sample of the thread included, has settled it */
	if (!atomic_compare_exchange_strong_explicit(&t->residual.settled_ns, &settled, used,
						     memory_order_relaxed, memory_order_relaxed))
		return 0;
	if (used < settled) {
		atomic_fetch_add_explicit(&lead_ns, settled - used, memory_order_relaxed);
		return 0;
	}
	return less_lead(used - settled);
}

/* What the thread lacks was used after its last sample, or there was none since its birth. */
static bool knows_turns(const struct sp_thread *t)
{
	return !atomic_load_explicit(&t->residual.gap, memory_order_relaxed) ||
	       atomic_load_explicit(&t->residual.settled_ns, memory_order_relaxed) == 0;
}

void sp_residual_end(struct sp_thread *t)
{
	uint64_t version = sp_span_stack_version(&t->spans);
	bool known = knows_turns(t);
	uint64_t now;
	uint64_t ns;

	/* in_handler: a handler of the host that runs inside of this, or of ours, ends the process */
	if (!counting() || t->in_handler || !sp_cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID, &now))
		return;
	/*
	 * The block's sample is the handler's: should it come now, it finds it taken, and nothing is
	 * lost, since the clock counts that time as well.
	 */
	t->settling = true;
	t->in_handler = true;
	atomic_signal_fence(memory_order_seq_cst);
	ns = settle(t, now, 0, sp_thread_scratch(t));
	atomic_store_explicit(&t->residual.even_version, version, memory_order_relaxed);
	atomic_store_explicit(&t->residual.gap, false, memory_order_relaxed);
	if (ns != 0 && known) {
		sp_turns_share(t, now, ns, put_labelled, sp_thread_scratch(t));
		sp_turns_restart(&t->turns);
	} else if (ns != 0) {
		put_all(sp_thread_scratch(t), ns);
	}
	atomic_signal_fence(memory_order_seq_cst);
	t->in_handler = false;
	t->settling = false;
}

/*
 * What another thread was in with that version of its stack, and still is. Found through the table,
 * which any thread may ask: a span that has ended meanwhile was not active all the time.
 */
static bool active(const struct sp_thread *t, uint64_t version, struct sp_turn_label *label)
{
	struct sp_span_record r;
	struct sp_span_entry e;
	uint64_t token = 0;
	uint64_t id = sp_span_stack_top(&t->spans, &token);

	if (id == 0 || sp_span_stack_version(&t->spans) != version || !sp_span_table_by_id(id, &r))
		return false;
	sp_span_entry_of(&r, token, &e);
	(void)sp_handler_label_of(&e, label);
	return true;
}

/* A thread that lives: it lacks what it used since its account was last even. */
static void settle_other(struct sp_thread *t, uint32_t tid, uint64_t at_least)
{
	uint64_t version = sp_span_stack_version(&t->spans);
	uint64_t since = atomic_load_explicit(&t->residual.since_ns, memory_order_relaxed);
	uint64_t settled = atomic_load_explicit(&t->residual.settled_ns, memory_order_acquire);
	bool same =
		version == atomic_load_explicit(&t->residual.even_version, memory_order_relaxed);
	/* before the clock is read: what comes after belongs to the next settlement */
	bool gap = atomic_exchange_explicit(&t->residual.gap, false, memory_order_relaxed);
	struct sp_turn_label label;
	uint64_t now = UINT64_MAX;
	uint64_t ns = 0;

	if (sp_cpu_clock_ns(SP_THREAD_CPU_CLOCK(tid), &now)) {
		same = same && active(t, version, &label);
		ns = settle(t, now, at_least, &others_scratch);
	}
	if (ns != 0 || now <= since + settled)
		atomic_store_explicit(&t->residual.even_version, version, memory_order_relaxed);
	else if (gap)
		sp_residual_gap(&t->residual);
	if (ns != 0 && same)
		put_labelled(&others_scratch, &label, ns);
	else if (ns != 0)
		put_all(&others_scratch, ns);
}

/* At most so many blocks, beginning with that one. Returns the one after the last. */
static uint32_t settle_some(uint32_t at, uint32_t most, uint64_t at_least)
{
	uint32_t n = atomic_load_explicit(&TABLE->used, memory_order_acquire);

	for (; at < n && most-- != 0; at++) {
		struct sp_thread *t = sp_thread_at(at);
		uint32_t tid = atomic_load_explicit(&t->tid, memory_order_acquire);

		if (tid != 0)
			settle_other(t, tid, at_least);
	}
	return at < n ? at : 0;
}

void sp_residual_look(void)
{
	static uint32_t next;

	if (!counting() ||
	    atomic_flag_test_and_set_explicit(&settling_others, memory_order_acquire))
		return;
	next = settle_some(next, LOOK_BLOCKS, LOOK_NS + 2 * sp_timer_period_ns());
	sp_unlock(&settling_others);
}

/* Threads that were cancelled, or lived between two scans, are in the process's clock alone. */
static void settle_process(void)
{
	uint64_t accounted =
		atomic_load_explicit(&sp_handler_setup.accounted_ns, memory_order_relaxed);
	uint64_t now = 0;

	if (!sp_cpu_clock_ns(CLOCK_PROCESS_CPUTIME_ID, &now) || now <= process_since_ns + accounted)
		return;
	blank(&others_scratch);
	put_all(&others_scratch, now - process_since_ns - accounted);
}

void sp_residual_flush(void)
{
	if (!counting() || !sp_try_lock(&settling_others))
		return;
	(void)settle_some(0, UINT32_MAX, 0);
	settle_process();
	sp_unlock(&settling_others);
}

void sp_residual_stop(void)
{
	sp_residual_flush();
	atomic_store_explicit(&stopped, true, memory_order_relaxed);
}

uint64_t sp_residual_process_ns(void)
{
	uint64_t now = 0;

	if (!sp_cpu_clock_ns(CLOCK_PROCESS_CPUTIME_ID, &now) || now < process_since_ns)
		return 0;
	return now - process_since_ns;
}

void sp_residual_forked(void)
{
	sp_unlock(&settling_others);
}
