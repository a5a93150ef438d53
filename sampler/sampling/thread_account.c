/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the CPU clock of a thread with the time that its samples stand for, and writes a record
 * for the difference (thread_account.h).
 *
 * The kernel checks CPU timers only at its tick. A thread that ends between an expiry and the next
 * tick is not sampled, so on average half a tick per thread is missing, however random the first
 * expiry is: at 250 ticks a second the samples stand for nine tenths of the time of threads of 20
 * ms, and for a quarter of the time of threads of 2 ms. A server that makes a thread for each
 * request would lose this share of its spans' time. So each thread writes a record of the missing
 * time at its end; only the thread itself knows its label.
 *
 * A sample stands for a whole period. A thread that ends shortly after a sample has used less than
 * a period since the sample before, so its samples are ahead of its clock by up to one period. Many
 * short threads would add up to more CPU time than the process has used. So the surplus of ended
 * threads is summed up and subtracted from later records. Each label has a separate sum; otherwise
 * spans of many tiny threads would take time from other spans.
 *
 * Several threads may settle the same account at once while samples arrive; a compare-and-swap
 * decides, and no thread waits. Context: APP.
 */
#include "sampler/sampling/thread_account.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#include "sampler/base/counters.h"
#include "sampler/base/cpu_clock.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/try_lock.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/region/region.h"
#include "sampler/region/ring.h"
#include "sampler/span/root_cpu.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"

#define TABLE (&sp_thread_table)
/*
 * A timer that missed expirations reports them with its next signal, which may come at any time
 * while the thread lives. So a record of a living thread is written only if its missing time is
 * more than this and two periods. A system call may take longer than that; the next sample then
 * stands for less (sp_thread_account_recorded()).
 */
#define LOOK_NS (250 * SP_NS_PER_MS)

/* A part of a thread's missing time gets a separate record only above this fraction, 1 / LITTLE. */
#define LITTLE 8U

static bool with_thread_name;
/*
 * The time by which the samples of ended threads were ahead of their clocks, summed up by the names
 * of their labels.
 */
#define LEADS 64U
static _Atomic uint64_t lead_ns[LEADS];
static uint64_t process_since_ns;
static _Atomic bool stopped;
/* Only one thread at a time settles other threads' accounts. */
static struct sp_try_lock settling_others;
/* A pass over all blocks, which may take several calls. */
static struct {
	uint32_t next;       /* the next block; 0 = a new pass begins */
	uint64_t process_ns; /* the process's clock when the pass began */
	int64_t behind_ns;   /* sum over the threads so far: clock less account */
} pass;

static bool counting(void)
{
	return sp_thread_timer_period_ns() != 0 &&
	       !atomic_load_explicit(&stopped, memory_order_relaxed);
}

void sp_thread_account_init(bool thread_name)
{
	with_thread_name = thread_name;
}

static void forget_all(void)
{
	atomic_store_explicit(&sp_thread_accounted_ns, 0, memory_order_relaxed);
	for (unsigned i = 0; i < LEADS; i++)
		atomic_store_explicit(&lead_ns[i], 0, memory_order_relaxed);
	pass.next = 0;
}

/* In a forked child the clocks of the process and its threads begin at 0. */
void sp_thread_account_forked(void)
{
	process_since_ns = 0;
	forget_all();
	if (sp_thread_own != NULL)
		sp_thread_account_begin_at(sp_thread_own, 0);
}

void sp_thread_account_start(void)
{
	struct sp_thread *own = sp_thread_own;

	(void)sp_cpu_clock_ns(CLOCK_PROCESS_CPUTIME_ID, &process_since_ns);
	atomic_store_explicit(&sp_region_now()->cpu_before_ns, process_since_ns,
			      memory_order_relaxed);
	forget_all();
	if (own != NULL)
		sp_thread_account_begin(own, atomic_load_explicit(&own->tid, memory_order_relaxed));
}

static void put(struct sp_cpu_time *record, uint64_t ns)
{
	struct sp_channel *o = sp_channel_now();

	if (ns == 0)
		return;
	record->ns = ns;
	sp_count(SP_COUNT_UNSAMPLED);
	if (!sp_names_announce(o, record->name_id) ||
	    sp_ring_put(&o->ring, SP_RECORD_CPU_TIME, record, sizeof(*record)) != 0) {
		sp_count(SP_COUNT_DROP_RING_FULL);
		return;
	}
	sp_channel_count_put(o);
	atomic_fetch_add_explicit(&sp_thread_accounted_ns, ns, memory_order_relaxed);
}

/*
 * Subtracts the surplus of ended threads from ns, but at most one period, so that no single thread
 * pays for all of it.
 */
static uint64_t less_lead(_Atomic uint64_t *of_label, uint64_t ns)
{
	uint64_t lead = atomic_load_explicit(of_label, memory_order_relaxed);
	uint64_t most = ns < sp_thread_timer_period_ns() ? ns : sp_thread_timer_period_ns();
	uint64_t off;

	do {
		off = lead < most ? lead : most;
	} while (off != 0 && !atomic_compare_exchange_weak_explicit(of_label, &lead, lead - off,
								    memory_order_relaxed,
								    memory_order_relaxed));
	return ns - off;
}

/*
 * Finds the label for a thread's record: that of the only local root that the thread was ever in,
 * if no sample was taken outside of that root. Time outside of the root is then usually less than
 * one period, but only if there were samples and none was lost. The active child spans are unknown,
 * so with the scope "all" there is no label. False if there is none.
 */
static bool label_by_only_root(const struct sp_thread *t, struct sp_cpu_time *record)
{
	const struct sp_span_last_root *root = &t->spans.root;
	struct sp_span_label label;
	struct sp_span_record r = {
		.span_id = root->id,
		.root_id = root->id,
		.name_id = root->name_id,
		.root_name_id = root->name_id,
	};
	struct sp_span_record open;

	if (root->n != 1 || atomic_load_explicit(&t->account.outside, memory_order_relaxed) ||
	    sp_active_span_label_scopes.id == SP_SCOPE_ALL ||
	    sp_active_span_label_scopes.name == SP_SCOPE_ALL)
		return false;
	memcpy(r.trace, root->trace, sizeof(r.trace));
	if (sp_span_table_by_id(root->id, &open))
		r = open;
	sp_active_span_label_of(SP_SPAN_KNOWN, &r, &label);
	record->span_id = label.span_id;
	record->name_id = label.name_id;
	memcpy(record->trace_id, label.trace_id, sizeof(record->trace_id));
	/* The root may have ended; the exporter knows its attributes by its id. */
	record->root_id = sp_active_span_label_scopes.root ? root->id : 0;
	return true;
}

/*
 * Clock less account; negative if the samples are ahead, by at most one period. If an account is
 * further ahead, it belongs to a thread that ended unseen, and the clock belongs to another thread
 * with the same id.
 */
static int64_t behind(uint64_t used, uint64_t settled)
{
	uint64_t period = sp_thread_timer_period_ns();

	if (used >= settled)
		return (int64_t)(used - settled);
	return -(int64_t)(settled - used < period ? settled - used : period);
}

/*
 * Sets the account to the clock's value if the account is behind by at least at_least; with 0 also
 * if it is ahead. The samples of a living thread may stay ahead of its clock, because its own next
 * records will be smaller. The caller has prepared the record: once the account is settled, the
 * thread may be gone and its id may belong to another thread. Returns by how much the account is
 * behind the clock afterwards.
 */
static int64_t settle(struct sp_thread *t, uint64_t now, uint64_t at_least,
		      struct sp_cpu_time *record)
{
	struct sp_thread_account *a = &t->account;
	_Atomic uint64_t *lead = &lead_ns[record->name_id % LEADS];
	uint64_t since = atomic_load_explicit(&a->since_ns, memory_order_relaxed);
	uint64_t settled = atomic_load_explicit(&a->settled_ns, memory_order_relaxed);
	uint64_t used = now > since ? now - since : 0;

	/* Another thread, or a sample of this one, may change the account meanwhile. */
	do {
		if (at_least != 0 && used < settled + at_least)
			return behind(used, settled);
	} while (!atomic_compare_exchange_weak_explicit(
		&a->settled_ns, &settled, used, memory_order_relaxed, memory_order_relaxed));
	if (used <= settled) {
		atomic_fetch_add_explicit(lead, (uint64_t)-behind(used, settled),
					  memory_order_relaxed);
		return 0;
	}
	/*
	 * This record covers expirations that the timer has not reported yet;
	 * sp_thread_account_recorded() takes them off the next sample.
	 */
	if (at_least != 0) {
		atomic_store_explicit(&a->outside, true, memory_order_relaxed);
		atomic_fetch_add_explicit(&a->told_ns, used - settled, memory_order_relaxed);
	}
	put(record, less_lead(lead, used - settled));
	return 0;
}

/*
 * A record with all members except the name, because only the thread itself can ask for its name.
 * The exporter knows the names of other threads.
 */
static struct sp_cpu_time describe(const struct sp_thread *t)
{
	return (struct sp_cpu_time){
		.tid = atomic_load_explicit(&t->tid, memory_order_relaxed),
		.start = (uintptr_t)t->start,
	};
}

/*
 * Time that the thread used before its only root, for example for the handshake of a connection,
 * does not belong to the root. No sample was taken in this time, or there would be a sample outside
 * of the root. A small share of such time gets no separate record.
 */
static void settle_before_root(struct sp_thread *t, uint64_t now, struct sp_cpu_time *record)
{
	struct sp_thread_account *a = &t->account;
	uint64_t since = atomic_load_explicit(&a->since_ns, memory_order_relaxed);
	uint64_t settled = atomic_load_explicit(&a->settled_ns, memory_order_relaxed);
	uint64_t before = t->spans.root.from_ns > since ? t->spans.root.from_ns - since : 0;
	uint64_t missing = now > since + settled ? now - since - settled : 0;

	if (before > missing)
		before = missing;
	if (before <= missing / LITTLE)
		return;
	atomic_fetch_add_explicit(&a->settled_ns, before, memory_order_relaxed);
	put(record, before);
}

void sp_thread_account_end(struct sp_thread *t)
{
	struct sp_cpu_time outside = describe(t);
	struct sp_cpu_time record;
	uint64_t now;

	sp_root_cpu_thread_ended(t);
	if (!counting() || !sp_cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID, &now))
		return;
	if (with_thread_name)
		sp_thread_name_own(outside.thread_name);
	record = outside;
	if (label_by_only_root(t, &record))
		settle_before_root(t, now, &outside);
	(void)settle(t, now, 0, &record);
}

void sp_thread_ended(void)
{
	struct sp_thread *t = sp_thread_unbind();

	if (t == NULL)
		return;
	if (!sp_seccomp_is_on())
		sp_thread_account_end(t);
	sp_thread_release(t);
}

/*
 * A thread that ended unseen has its block until the next scan. The exporter asks for a scan if the
 * number of threads differs from the number of blocks. So it asks for none if one thread ended and
 * another thread began unseen, and without a scan the new thread would never get a timer.
 */
static void ask_for_scan(void)
{
	atomic_fetch_or_explicit(&sp_region_now()->deferred_work, SP_WORK_SCAN,
				 memory_order_relaxed);
}

/*
 * Settles the accounts of at most `most` blocks from number `at` on. Returns the number of the next
 * block. Adds to *behind_ns by how much these accounts are behind afterwards.
 */
static uint32_t settle_some(uint32_t at, uint32_t most, uint64_t at_least, int64_t *behind_ns)
{
	uint32_t n = atomic_load_explicit(&TABLE->used, memory_order_acquire);

	for (; at < n && most-- != 0; at++) {
		struct sp_thread *t = sp_thread_at(at);
		uint32_t tid = atomic_load_explicit(&t->tid, memory_order_acquire);

		struct sp_cpu_time record = describe(t);
		uint64_t now;

		if (tid == 0)
			continue;
		if (sp_cpu_clock_ns(SP_THREAD_CPU_CLOCK(tid), &now))
			*behind_ns += settle(t, now, at_least, &record);
		else
			ask_for_scan();
	}
	return at < n ? at : 0;
}

/*
 * Writes a record for CPU time of the process that no record and no thread's account covers. Such
 * time comes from threads that lived between two scans or ended without a hook, and from records
 * that found the ring full.
 */
static void settle_process(uint64_t used, int64_t behind_ns, uint64_t at_least)
{
	uint64_t accounted = atomic_load_explicit(&sp_thread_accounted_ns, memory_order_relaxed);
	int64_t missing = (int64_t)(used - accounted) - behind_ns;
	struct sp_cpu_time record = {0};

	if (missing > 0 && (uint64_t)missing >= at_least)
		put(&record, (uint64_t)missing);
}

/*
 * The process's clock is read before the threads' clocks, and the sum of records afterwards. So CPU
 * time and records that are added meanwhile make the missing time smaller, never larger; a later
 * call writes the rest.
 */
void sp_thread_account_balance(void)
{
	uint64_t at_least = LOOK_NS + 2 * sp_thread_timer_period_ns();

	if (!counting() || !sp_try_lock_once(&settling_others))
		return;
	if (pass.next == 0) {
		pass.process_ns = sp_thread_account_process_ns();
		pass.behind_ns = 0;
	}
	pass.next = settle_some(pass.next, SP_THREAD_ASK_MAX, at_least, &pass.behind_ns);
	if (pass.next == 0)
		settle_process(pass.process_ns, pass.behind_ns, at_least);
	sp_unlock(&settling_others);
}

void sp_thread_account_flush(void)
{
	int64_t behind_ns = 0;

	if (!counting() || !sp_try_lock(&settling_others))
		return;
	(void)settle_some(0, UINT32_MAX, 0, &behind_ns);
	settle_process(sp_thread_account_process_ns(), behind_ns, 0);
	sp_unlock(&settling_others);
}

void sp_thread_account_stop(void)
{
	sp_thread_account_flush();
	atomic_store_explicit(&stopped, true, memory_order_relaxed);
}

uint64_t sp_thread_account_process_ns(void)
{
	uint64_t now = 0;

	if (!sp_cpu_clock_ns(CLOCK_PROCESS_CPUTIME_ID, &now) || now < process_since_ns)
		return 0;
	return now - process_since_ns;
}
