/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred work: does what the exporter, or our own handler, has asked for (lifecycle.h). Context: APP, one
 * thread at a time.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "preload/exporter/exporter.h"
#include "preload/exporter/exporter_process.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/sdk.h"
#include "sampler/base/counters.h"
#include "sampler/base/log.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/base/try_lock.h"
#include "sampler/context/foreign_context.h"
#include "sampler/context/thread_context.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/region.h"
#include "sampler/sampling/region_swap.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/span/span.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"

#define BEGIN_NS (20 * SP_NS_PER_MS)
#define SWEEP_NS (30 * SP_NS_PER_S)

static struct sp_try_lock busy;

void sp_deferred_work_leave(void)
{
	sp_unlock(&busy);
}

bool sp_deferred_work_keep_off(uint64_t most_ns)
{
	uint64_t end = sp_monotonic_ns() + most_ns;
	bool ours;

	while (!(ours = sp_try_lock_once(&busy)) && sp_monotonic_ns() < end)
		(void)sp_syscall(SYS_sched_yield);
	return ours;
}

static void check_signal(void)
{
	static bool told;
	int signo = sp_signals_number();

	if (told || sp_signals_keep())
		return;
	if (sp_signals_move()) {
		sp_thread_timers_move(sp_signals_number());
		sp_count(SP_COUNT_SIGNAL_MOVED);
		sp_log(SP_LOG_WARN,
		       "something in the program handles signal %d, which only the C library "
		       "should: "
		       "sampling goes on with signal %d",
		       signo, sp_signals_number());
		return;
	}
	told = true;
	sp_count(SP_COUNT_SIGNAL_TAKEN);
	sp_log(SP_LOG_WARN,
	       "the program took signal %d, which sampling uses: profiling stops in this process "
	       "(set SPANPROF_SIGNAL to another one)",
	       signo);
	sp_lifecycle_stop();
	sp_thread_account_stop();
}

static void set(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

void sp_deferred_work_publish(void)
{
	struct sp_region *r = sp_region_now();
	uint32_t by[SP_UNARMED_N];

	sp_thread_unarmed(by);
	set(&r->state,
	    sp_lifecycle_state == SP_LIFECYCLE_STOPPED ? SP_REGION_STOPPED : SP_REGION_SAMPLING);
	set(&r->signal_number, (uint32_t)sp_signals_number());
	set(&r->threads_armed, sp_thread_armed());
	set(&r->threads_known, sp_thread_known());
	set(&r->threads_limit, by[SP_UNARMED_LIMIT]);
	set(&r->threads_refused, by[SP_UNARMED_REFUSED]);
	set(&r->spans_open, sp_span_table_count());
	set(&r->context, (uint32_t)sp_thread_context_told());
	for (unsigned sdk = 0; sdk < SP_SDK_N; sdk++)
		sp_sdk_publish((enum sp_sdk)sdk, &r->sdk[sdk]);
}

void sp_deferred_work_scan(void)
{
	_Atomic uint32_t *work = &sp_region_now()->deferred_work;

	/* The exporter may have asked for it again while it was done. */
	if (sp_thread_scan())
		atomic_fetch_and_explicit(work, ~SP_WORK_SCAN, memory_order_relaxed);
	else
		atomic_fetch_or_explicit(work, SP_WORK_SCAN, memory_order_relaxed);
}

static void look(void)
{
	static uint64_t sweep_ns;
	uint64_t max_age = sp_lifecycle_config()->max_span_age_ms * SP_NS_PER_MS;
	uint64_t now = sp_monotonic_ns();
	uint32_t by[SP_UNARMED_N];

	check_signal();
	/* Timers may have become free since a thread got none because of the limit. */
	sp_timer_limit_look();
	sp_thread_unarmed(by);
	if (by[SP_UNARMED_LIMIT] != 0 && sp_thread_may_arm())
		sp_deferred_work_scan();
	/* Gives up spans that never end; runs at least eight times in the longest age. */
	if (now >= sweep_ns) {
		sp_span_age_sweep(now, max_age);
		sweep_ns = now + (max_age / 8 < SWEEP_NS ? max_age / 8 : SWEEP_NS);
	}
	sp_thread_account_look();
	sp_region_swap_look();
	/* It has asked for this. */
	sp_lifecycle_has_started();
	sp_foreign_context_look();
	sp_thread_context_look();
}

/*
 * Messages of the exporter that it may not write to the host's stderr itself. They may contain any
 * bytes, and there may always be another one: no more are written than there are places.
 */
static void write_messages(struct sp_region *r)
{
	for (unsigned i = 0; i < SP_REGION_MESSAGES; i++) {
		struct sp_region_message *m = &r->message[r->messages_written % SP_REGION_MESSAGES];
		/* Pairs with the exporter's release: the text is there. */
		uint32_t bytes = atomic_load_explicit(&m->bytes, memory_order_acquire);
		char text[SP_REGION_MESSAGE_MAX];

		if (bytes == 0)
			return;
		if (bytes > sizeof(text))
			bytes = sizeof(text);
		memcpy(text, m->text, bytes);
		sp_log(SP_LOG_ERROR, "%.*s", (int)strnlen(text, bytes), text);
		atomic_store_explicit(&m->bytes, 0, memory_order_release);
		r->messages_written++;
	}
}

/* When an exporter that does not work yet is checked next, by the coarse clock. */
static _Atomic uint64_t next_check;

/*
 * Every span asks until the exporter works, because one that ends at once cannot report it. The
 * answer is true now and then: the check takes system calls, and on a busy machine thousands of
 * spans end before an exporter works.
 */
bool sp_deferred_work_may_check(void)
{
	return sp_monotonic_coarse_ns() >= atomic_load_explicit(&next_check, memory_order_relaxed);
}

static bool has_not_begun(const struct sp_region *r)
{
	if (atomic_load_explicit(&r->exporter, memory_order_relaxed) == SP_EXPORTER_WORKING ||
	    !sp_deferred_work_may_check())
		return false;
	atomic_store_explicit(&next_check, sp_monotonic_coarse_ns() + BEGIN_NS,
			      memory_order_relaxed);
	return true;
}

/*
 * Another exporter is started if the first one has ended, or serves the family but not this process; at
 * most three times in a process, after growing pauses: what ended it once, such as too little memory, may
 * end it again.
 */

/* After exporters that ended before their time. */
#define RESTARTS_MAX 3U

/*
 * The first restart is immediate: the process may be about to end, with samples that nobody has
 * taken.
 */
static const uint64_t pause_ns[RESTARTS_MAX] = {
	0,
	1 * SP_NS_PER_S,
	10 * SP_NS_PER_S,
};

static unsigned restarts;
static uint64_t due_ns; /* of the next restart; 0 = none is needed so far */
/* The exporter of the region that is in use could not be started, and another one is tried. */
static bool is_unborn;

bool sp_deferred_work_unborn(int err)
{
	struct sp_region *r = sp_region_now();

	atomic_store_explicit(&r->exporter_error, -err, memory_order_relaxed);
	atomic_store_explicit(&r->exporter, SP_EXPORTER_FAILED, memory_order_release);
	is_unborn = sp_lifecycle_put_off(err);
	if (!is_unborn)
		sp_exporter_tell_ended(sp_lifecycle_config());
	return is_unborn;
}

/*
 * An exporter that has ended with the process that started it is replaced at once, unless that is
 * this process: it is about to execute another program. If that fails, it goes on after this pause.
 */
#define EXEC_PAUSE_NS SP_NS_PER_S

static bool is_due(const struct sp_region *r, bool moved)
{
	bool ends = sp_lifecycle_has_ended();
	uint64_t now = sp_monotonic_ns();
	uint64_t pause = 0;

	if (!moved)
		pause = is_unborn ? 0 : pause_ns[restarts];
	else if (!ends && atomic_load_explicit(&r->end_asked, memory_order_relaxed) != 0)
		pause = EXEC_PAUSE_NS;
	if (due_ns == 0 || (ends && moved))
		due_ns = now + pause;
	return now >= due_ns && sp_exporter_process_may_start();
}

static void tell_restart(bool moved, bool had_none, bool was_unborn,
			 const struct sp_region_loss *loss)
{
	bool none = loss->samples == 0 && loss->waits == 0;
	enum sp_log_level level = none ? SP_LOG_INFO : SP_LOG_WARN;
	char lost[96] = "";
	char waits[40] = "";

	if (loss->waits != 0)
		(void)sp_fmt_snprintf(waits, sizeof(waits), ", %llu waits",
				      (unsigned long long)loss->waits);
	if (!none || (!moved && !had_none))
		(void)sp_fmt_snprintf(lost, sizeof(lost),
				      ", what it had not sent is lost: %llu samples%s",
				      (unsigned long long)loss->samples, waits);
	if (was_unborn)
		sp_log(level, "the exporter could be started after all%s", lost);
	else if (moved)
		sp_log(level,
		       "the program's exporter ended with the process that had started it: "
		       "started another one%s",
		       lost);
	else if (had_none)
		sp_log(level,
		       "the program's exporter does not serve this process: started another one%s",
		       lost);
	else
		sp_log(SP_LOG_WARN, "the exporter ended; started again (%u of %u times)%s",
		       restarts, RESTARTS_MAX, lost);
}

enum outcome {
	STARTED,
	LATER, /* not yet: the next call asks again */
	NEVER, /* told, and profiling has ended */
};

/* A new exporter, with a new region. */
static enum outcome restart(bool moved, bool refused)
{
	/* Or this process was not taken in by the exporter that it joined, and has given up waiting. */
	bool had_none = refused || atomic_load_explicit(&sp_region_now()->exporter_pid,
							memory_order_relaxed) == 0;
	bool was_unborn = is_unborn;
	struct sp_region_loss loss = {0};
	int err;
	int fd;

	if (refused)
		sp_exporter_family_leave();
	fd = sp_region_swap(sp_keeper_region(), &loss);
	if (fd < 0 && sp_lifecycle_put_off(fd))
		return LATER;
	/* What was to be replaced is gone for good, and is told of as such. */
	if (fd < 0 && !was_unborn)
		atomic_store_explicit(&sp_region_now()->exporter, SP_EXPORTER_GONE,
				      memory_order_relaxed);
	if (fd < 0)
		return NEVER;
	/* Only what may happen again for the same reason is counted. */
	restarts += !moved && !was_unborn;
	due_ns = 0;
	is_unborn = false;
	err = sp_exporter_start(sp_lifecycle_config(), fd);
	if (err != 0)
		return sp_deferred_work_unborn(err) ? LATER : NEVER;
	tell_restart(moved, had_none, was_unborn, &loss);
	sp_deferred_work_publish();
	return STARTED;
}

/* Its keeper could not make the process of the exporter, and ended. */
static bool has_no_process(const struct sp_region *r)
{
	return atomic_load_explicit(&r->exporter, memory_order_acquire) == SP_EXPORTER_FAILED &&
	       atomic_load_explicit(&r->exporter_pid, memory_order_relaxed) == 0;
}

/* The exporter does not work. */
static enum outcome start_another(void)
{
	struct sp_region *r = sp_region_now();
	uint32_t now = atomic_load_explicit(&r->exporter, memory_order_acquire);
	bool refused = now == SP_EXPORTER_REFUSED;
	bool moved = now == SP_EXPORTER_MOVED;
	enum outcome outcome = NEVER;
	bool never;

	/* The next region has messages of its own. */
	write_messages(r);
	if (!is_unborn && has_no_process(r) &&
	    sp_deferred_work_unborn(
		    -atomic_load_explicit(&r->exporter_error, memory_order_relaxed)))
		return LATER;
	/* One that never worked is not started again: it would fail in the same way. */
	never = !moved && !is_unborn &&
		((!refused && now != SP_EXPORTER_GONE) || restarts == RESTARTS_MAX);
	if (!never && ((sp_lifecycle_is_put_off() && !sp_lifecycle_has_ended()) ||
		       (!refused && !is_due(r, moved))))
		return LATER;
	if (!never)
		outcome = restart(moved, refused);
	if (outcome == NEVER) {
		sp_exporter_tell_ended(sp_lifecycle_config());
		sp_lifecycle_fail();
	}
	return outcome;
}

void sp_deferred_work_forked(void)
{
	restarts = 0;
	due_ns = 0;
	is_unborn = false;
}

void sp_deferred_work_account(void)
{
	if (!sp_try_lock_once(&busy))
		return;
	sp_region_swap_look();
	/* So that there is room for what the exporter has to tell of the end. */
	write_messages(sp_region_now());
	sp_deferred_work_leave();
}

void sp_deferred_work_tell(void)
{
	if (!sp_deferred_work_keep_off(BEGIN_NS))
		return;
	write_messages(sp_region_now());
	sp_deferred_work_leave();
}

bool sp_deferred_work_revive(void)
{
	bool is_there = true;

	/* The thread that is doing it may just have started another exporter. */
	if (!sp_try_lock_once(&busy))
		return true;
	/* Below a seccomp filter nothing can be checked or started. */
	is_there = sp_seccomp_is_on() || sp_exporter_works() || start_another() == STARTED;
	sp_deferred_work_leave();
	if (!is_there)
		sp_exporter_tell_ended(sp_lifecycle_config());
	return is_there;
}

/* The part that makes system calls. */
static void do_work(struct sp_region *r, uint32_t asked)
{
	int32_t pid;

	if (((asked & SP_WORK_ALIVE) != 0 || has_not_begun(r)) && !sp_lifecycle_has_ended() &&
	    !sp_exporter_works())
		(void)start_another();
	if ((asked & SP_WORK_SCAN) != 0)
		sp_deferred_work_scan();
	if ((asked & SP_WORK_LOOK) != 0)
		look();
	if ((asked & SP_WORK_WRITE) != 0)
		write_messages(r);
	/*
	 * To tell what a thread waits in, the exporter needs the right to trace the process. With Yama's
	 * ptrace_scope 1 only its ancestors have that right, and one process that it names by
	 * PR_SET_PTRACER. So we name the exporter. The drawback: if the program has named another one,
	 * such as its crash reporter, that one loses the right.
	 */
	if ((asked & SP_WORK_TRACER) != 0 && sp_config_wants_waits(sp_lifecycle_config()) &&
	    (pid = sp_exporter_who()) > 0)
		(void)sp_syscall(SYS_prctl, PR_SET_PTRACER, pid, 0);
}

void sp_deferred_work_filtered(void)
{
	int active = SP_LIFECYCLE_ACTIVE;

	if (!atomic_compare_exchange_strong_explicit(&sp_lifecycle_state, &active,
						     sp_region_is_there() ? SP_LIFECYCLE_STOPPED
									  : SP_LIFECYCLE_FAILED,
						     memory_order_relaxed, memory_order_relaxed))
		return;
	sp_count(SP_COUNT_SECCOMP_STOPPED);
	sp_thread_unpublish();
	sp_deferred_work_publish();
}

void sp_deferred_work_run(void)
{
	const struct sp_config *config = sp_lifecycle_config();
	struct sp_region *r = sp_region_now();
	int saved = errno;
	uint32_t asked = atomic_load_explicit(&r->deferred_work, memory_order_relaxed);

	/*
	 * First of all: the program installed a filter in a way that no hook saw. It is too late to
	 * delete the timers; the handler does nothing from now on.
	 */
	if ((asked & SP_WORK_SECCOMP) != 0 && !sp_seccomp_is_on()) {
		sp_seccomp_begin();
		sp_deferred_work_filtered();
		return;
	}
	/* In a child of vfork, or of a raw clone, threads, timers and the exporter are its parent's. */
	if ((!sp_seccomp_is_on() && !sp_process_is_ours()) || !sp_try_lock_once(&busy))
		return;
	/* Another thread may have started another exporter meanwhile, with another region. */
	r = sp_region_now();
	asked = atomic_fetch_and_explicit(&r->deferred_work, SP_WORK_TRACER, memory_order_relaxed);
	sp_span_age_tick(config->profile_url != NULL || config->baseline_url != NULL);
	if (!sp_seccomp_is_on())
		do_work(r, asked);
	/* The exporter looks again as soon as this is not asked for any more: not before it is done. */
	if ((asked & SP_WORK_TRACER) != 0)
		atomic_fetch_and_explicit(&r->deferred_work, ~SP_WORK_TRACER, memory_order_release);
	if (asked != 0)
		sp_deferred_work_publish();
	sp_deferred_work_leave();
	errno = saved;
}
