/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does the deferred work that the exporter or our own handler has asked for (lifecycle.h). Context:
 * APP, one thread at a time.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "preload/exporter/exporter.h"
#include "preload/exporter/exporter_process.h"
#include "preload/lifecycle/allocations.h"
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
#include "sampler/sampling/handler.h"
#include "sampler/sampling/region_swap.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/span/span.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"

#define BEGIN_NS (20 * SP_NS_PER_MS)
#define SWEEP_NS (30 * SP_NS_PER_S)

static struct sp_try_lock busy;

void sp_deferred_work_unlock(void)
{
	sp_unlock(&busy);
}

bool sp_deferred_work_lock(uint64_t most_ns)
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

static _Atomic uint32_t undumpable;

void sp_deferred_work_dumpable(void)
{
	int saved = errno;

	/*
	 * Once the program has installed a filter, the system call fails with ENOSYS, and nothing
	 * is sampled any more.
	 */
	set(&undumpable, sp_syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0) != 1);
	set(&sp_region_now()->is_undumpable,
	    atomic_load_explicit(&undumpable, memory_order_relaxed));
	errno = saved;
}

void sp_deferred_work_publish(bool all)
{
	struct sp_region *r = sp_region_now();
	uint32_t by[SP_UNARMED_N];

	set(&r->state,
	    sp_lifecycle_state == SP_LIFECYCLE_STOPPED ? SP_REGION_STOPPED : SP_REGION_SAMPLING);
	set(&r->signal_number, (uint32_t)sp_signals_number());
	set(&r->cookie, sp_handler_setup.cookie);
	set(&r->threads_armed, sp_thread_armed());
	set(&r->threads_known, sp_thread_known());
	if (sp_thread_unarmed(by, all)) {
		set(&r->threads_limit, by[SP_UNARMED_LIMIT]);
		set(&r->threads_refused, by[SP_UNARMED_REFUSED]);
	}
	if (sp_small_thread_made() || sp_count_read(SP_COUNT_UNARMED_STACK) != 0 ||
	    sp_count_read(SP_COUNT_UNARMED_SHARED) != 0)
		set(&r->threads_unfit, 1);
	set(&r->spans_open, all ? sp_span_table_count() : sp_span_table_count_on());
	set(&r->context, (uint32_t)sp_thread_context_publisher());
	set(&r->allocations, (uint32_t)sp_allocations_object());
	set(&r->is_undumpable, atomic_load_explicit(&undumpable, memory_order_relaxed));
	for (unsigned sdk = 0; sdk < SP_SDK_N; sdk++)
		sp_sdk_publish((enum sp_sdk)sdk, &r->sdk[sdk]);
}

void sp_deferred_work_scan(void)
{
	_Atomic uint32_t *work = &sp_region_now()->deferred_work;

	/* The exporter may have asked for another scan while this one ran. */
	if (sp_thread_scan())
		atomic_fetch_and_explicit(work, ~(SP_WORK_SCAN | SP_WORK_SCAN_NOW),
					  memory_order_relaxed);
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
	/*
	 * A thread may have got no timer because of the limit (RLIMIT_SIGPENDING), and timers may
	 * have become free since.
	 */
	sp_timer_limit_read();
	if (sp_thread_may_arm() && sp_thread_unarmed(by, false) && by[SP_UNARMED_LIMIT] != 0)
		sp_deferred_work_scan();
	/*
	 * Gives up spans that never end. The next sweep begins an eighth of the longest age after
	 * the last one ended, but after SWEEP_NS at the latest.
	 */
	if (now >= sweep_ns && sp_span_age_sweep(now, max_age))
		sweep_ns = now + (max_age / 8 < SWEEP_NS ? max_age / 8 : SWEEP_NS);
	sp_thread_account_balance();
	sp_region_swap_count_late();
	/* An exporter has asked for this work, so one has started. */
	sp_lifecycle_has_started();
	sp_foreign_context_search();
	sp_thread_context_search();
}

/*
 * Writes the messages of an exporter that may not write to the host's stderr. A message may contain
 * any bytes. The exporter may add messages all the time, so one call writes no more than the region
 * has places.
 */
static void write_messages(struct sp_region *r)
{
	for (unsigned i = 0; i < SP_REGION_MESSAGES; i++) {
		struct sp_region_message *m = &r->message[r->messages_written % SP_REGION_MESSAGES];
		/* Pairs with the exporter's release store: the text is complete. */
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

/* The time of the next check of an exporter that does not work yet, by the coarse clock. */
static _Atomic uint64_t next_check;

/*
 * Every span asks until the exporter works, because an exporter that ends at once cannot report it.
 * The answer is true only at intervals: the check takes system calls, and on a busy machine
 * thousands of spans end before an exporter works.
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
 * Another exporter is started if the first one has ended, or serves the family but not this
 * process. A process restarts at most three times, after growing pauses, because the reason of the
 * first end, such as too little memory, may persist.
 */

/* of exporters that ended before their time */
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
static uint64_t due_ns; /* the time of the next restart; 0 = none is needed so far */
/* The exporter of the current region could not be started, and another start will be tried. */
static bool is_unborn;

bool sp_deferred_work_unborn(int err)
{
	struct sp_region *r = sp_region_now();

	atomic_store_explicit(&r->exporter_error, -err, memory_order_relaxed);
	atomic_store_explicit(&r->exporter, SP_EXPORTER_FAILED, memory_order_release);
	is_unborn = sp_lifecycle_put_off(err);
	if (!is_unborn)
		sp_exporter_log_ended();
	return is_unborn;
}

/*
 * An exporter that ended with the process that started it is replaced at once. The exception is
 * that process itself, which ended the exporter because it is about to execute another program: if
 * the exec fails, the process starts another exporter after this pause.
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
	LATER, /* not yet: the next call tries again */
	NEVER, /* logged, and profiling has ended */
};

/* Starts another exporter, with a new region. */
static enum outcome restart(bool moved, bool refused)
{
	/*
	 * exporter_pid is also 0 if this process has joined an exporter that never served it, and
	 * has given up waiting.
	 */
	bool had_none = refused || atomic_load_explicit(&sp_region_now()->exporter_pid,
							memory_order_relaxed) == 0;
	bool was_unborn = is_unborn;
	struct sp_region_loss loss = {0};
	int err;
	int fd;

	if (refused)
		sp_exporter_family_refused();
	fd = sp_region_swap(sp_keeper_region(), &loss);
	if (fd < 0 && sp_lifecycle_put_off(fd))
		return LATER;
	/* The old exporter is gone for good, and is reported as gone. */
	if (fd < 0 && !was_unborn)
		atomic_store_explicit(&sp_region_now()->exporter, SP_EXPORTER_GONE,
				      memory_order_relaxed);
	if (fd < 0)
		return NEVER;
	/* Only restarts whose reason may persist are counted. */
	restarts += !moved && !was_unborn;
	due_ns = 0;
	is_unborn = false;
	err = sp_exporter_start(sp_lifecycle_config(), fd);
	if (err != 0)
		return sp_deferred_work_unborn(err) ? LATER : NEVER;
	tell_restart(moved, had_none, was_unborn, &loss);
	sp_deferred_work_publish(false);
	return STARTED;
}

/* The keeper could not make the process of the exporter, and has ended. */
static bool has_no_process(const struct sp_region *r)
{
	return atomic_load_explicit(&r->exporter, memory_order_acquire) == SP_EXPORTER_FAILED &&
	       atomic_load_explicit(&r->exporter_pid, memory_order_relaxed) == 0;
}

/* Called when the exporter does not work. */
static enum outcome start_another(void)
{
	struct sp_region *r = sp_region_now();
	uint32_t now = atomic_load_explicit(&r->exporter, memory_order_acquire);
	bool refused = now == SP_EXPORTER_REFUSED;
	bool moved = now == SP_EXPORTER_MOVED;
	enum outcome outcome = NEVER;
	bool never;

	/* A new region begins without messages. */
	write_messages(r);
	if (!is_unborn && has_no_process(r) &&
	    sp_deferred_work_unborn(
		    -atomic_load_explicit(&r->exporter_error, memory_order_relaxed)))
		return LATER;
	/* An exporter that never worked is not started again: it would fail in the same way. */
	never = !moved && !is_unborn &&
		((!refused && now != SP_EXPORTER_GONE) || restarts == RESTARTS_MAX);
	if (!never && ((sp_lifecycle_is_put_off() && !sp_lifecycle_has_ended()) ||
		       (!refused && !is_due(r, moved))))
		return LATER;
	if (!never)
		outcome = restart(moved, refused);
	if (outcome == NEVER) {
		sp_exporter_log_ended();
		sp_lifecycle_fail();
	}
	return outcome;
}

/*
 * The joined exporter takes the records within milliseconds, unless it is stopped or busy with a
 * push.
 */
#define PART_NS (200 * SP_NS_PER_MS)

void sp_deferred_work_part(void)
{
	uint64_t end = sp_monotonic_ns() + PART_NS;
	struct sp_region *old = sp_region_now();
	struct sp_region_loss loss = {0};
	int err;
	int fd;

	set(&old->state, SP_REGION_PARTED);
	sp_exporter_wake(old);
	while (atomic_load_explicit(&old->exporter, memory_order_acquire) == SP_EXPORTER_WORKING &&
	       sp_monotonic_ns() < end) {
		const struct timespec pause = {.tv_nsec = SP_NS_PER_MS};

		(void)sp_syscall(SYS_futex, &old->exporter, FUTEX_WAIT, SP_EXPORTER_WORKING, &pause,
				 NULL, 0);
	}
	fd = sp_region_swap(sp_keeper_region(), &loss);
	if (fd < 0)
		return;
	err = sp_exporter_start(sp_lifecycle_config(), fd);
	if (err != 0)
		(void)sp_deferred_work_unborn(err);
	sp_deferred_work_publish(false);
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
	sp_region_swap_count_late();
	/* The exporter needs room for the messages that it writes at the end. */
	write_messages(sp_region_now());
	sp_deferred_work_unlock();
}

void sp_deferred_work_log(void)
{
	if (!sp_deferred_work_lock(BEGIN_NS))
		return;
	write_messages(sp_region_now());
	sp_deferred_work_unlock();
}

bool sp_deferred_work_revive(void)
{
	bool is_there = true;

	/* The thread that holds the lock may just have started another exporter. */
	if (!sp_try_lock_once(&busy))
		return true;
	/* Once a seccomp filter is installed, nothing can be checked or started. */
	is_there = sp_seccomp_is_on() || sp_exporter_works() || start_another() == STARTED;
	sp_deferred_work_unlock();
	if (!is_there)
		sp_exporter_log_ended();
	return is_there;
}

/* Does the work that takes system calls. */
static void do_work(struct sp_region *r, uint32_t asked)
{
	int32_t pid;

	if (((asked & SP_WORK_ALIVE) != 0 || has_not_begun(r)) && !sp_lifecycle_has_ended() &&
	    !sp_exporter_works())
		(void)start_another();
	/*
	 * A program usually sets handlers and alternate stacks when it makes threads, so they are
	 * looked up now. Looking up all of them at each call would take many system calls.
	 */
	if ((asked & SP_WORK_SCAN) != 0) {
		sp_signals_check(false);
		sp_thread_alternate_check();
		sp_deferred_work_scan();
	}
	if ((asked & SP_WORK_LOOK) != 0)
		look();
	if ((asked & SP_WORK_WRITE) != 0)
		write_messages(r);
	/*
	 * To find out where a thread waits, the exporter needs the right to trace the process. With
	 * Yama's ptrace_scope 1 only two kinds of processes have that right: ancestors of the
	 * process, and the one that it names by PR_SET_PTRACER. So we name the exporter. The
	 * drawback: if the program has named another process, such as its crash reporter, that
	 * process loses the right.
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
	sp_deferred_work_publish(false);
}

void sp_deferred_work_run(void)
{
	const struct sp_config *config = sp_lifecycle_config();
	struct sp_region *r = sp_region_now();
	int saved = errno;
	uint32_t asked = atomic_load_explicit(&r->deferred_work, memory_order_relaxed);

	/*
	 * This check comes first. The program has installed a filter in a way that no hook saw. It
	 * is too late to delete the timers; the handler does nothing from now on.
	 */
	if ((asked & SP_WORK_SECCOMP) != 0 && !sp_seccomp_is_on()) {
		sp_seccomp_begin();
		sp_deferred_work_filtered();
		return;
	}
	/* In a child of vfork, threads, timers and exporter belong to the parent. */
	if ((!sp_seccomp_is_on() && !sp_process_is_ours()) || !sp_try_lock_once(&busy))
		return;
	/* Another thread may have started another exporter meanwhile, with another region. */
	r = sp_region_now();
	asked = atomic_fetch_and_explicit(&r->deferred_work, SP_WORK_TRACER, memory_order_relaxed);
	sp_span_age_tick(config->profile_url != NULL || config->baseline_url != NULL);
	if (!sp_seccomp_is_on())
		do_work(r, asked);
	/*
	 * The exporter tries again as soon as this bit is cleared, so it is cleared after the work.
	 */
	if ((asked & SP_WORK_TRACER) != 0)
		atomic_fetch_and_explicit(&r->deferred_work, ~SP_WORK_TRACER, memory_order_release);
	if (asked != 0)
		sp_deferred_work_publish(false);
	sp_deferred_work_unlock();
	errno = saved;
}
