/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the profiler, restarts it in a forked child and ends it. The first thread that records a
 * span does the start. It cannot block the others on a lock, because the host may fork or be
 * interrupted by a signal handler in the middle of it; so other threads wait for a bounded time,
 * and their spans go unrecorded after that.
 *
 * Most forked children execute another program or end soon. So the fork handler only drops what belongs to
 * the parent and, where sampling goes on in the child, gives its thread a timer. The child is active
 * from then on and has no region (sp_region_nowhere) and no exporter. It gets both, in begin_child(),
 * when it records a span, or with its first sample, in the handler: it may never make a call that we
 * hook. begin_child() may run there because it does nothing but what any forked child of a program with
 * threads may do, where each lock of the C library may be held by a thread that does not exist:
 * system calls, on memory of our own. Three things keep it from what the handler has interrupted. It
 * holds the lock of the deferred work. It does not run inside of a hooked call, where names and spans
 * are being read; the sample is dropped then, its time becomes unsampled CPU time, and the next one
 * tries again. And it has a stack of its own, because that of a coroutine may be small.
 *
 * A child that ends without a sample contacts nobody, unless it has used more CPU time than a sample stands
 * for. The samples of others like it stand for more time than those have used, but not for all of it where
 * children use a few milliseconds (thread_account.c).
 *
 * Contexts: INIT (load, fork handler), APP (start, flush), SIG (begin_in_handler()).
 */
#include "preload/lifecycle/lifecycle.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/resolve.h"
#include "preload/exporter/exporter.h"
#include "preload/exporter/exporter_process.h"
#include "preload/lifecycle/allocations.h"
#include "preload/lifecycle/sdk.h"
#include "sampler/base/arch_sig.h"
#include "sampler/base/counters.h"
#include "sampler/base/log.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/config/config_table.h"
#include "sampler/region/region.h"
#include "sampler/sampler.h"
#include "sampler/sampling/handler.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/thread/thread.h"

/*
 * The start takes about a millisecond of CPU time; on a busy machine it may be preempted meanwhile, also by those
 * who wait for it. 50 ms were not always enough there.
 */
#define START_WAIT_NS (100 * SP_NS_PER_MS)

/*
 * A start that took longer than this will never end: its thread was cancelled asynchronously, or a handler
 * of the host that interrupted it has left by longjmp(). Nobody waits for it any more.
 */
#define START_MOST_NS (500 * SP_NS_PER_MS)

/*
 * A forked child that used less CPU time than this, and has no sample, does not wait for a flush at
 * its end.
 */
#define BRIEF_NS (1 * SP_NS_PER_MS)

_Atomic int sp_lifecycle_state = SP_LIFECYCLE_OFF;
struct sp_config sp_lifecycle_settings;
_Atomic bool sp_lifecycle_ended;
SP_TLS uintptr_t sp_reentrancy_guard_frame;

enum sp_lifecycle_state sp_lifecycle_here(void)
{
	int now = atomic_load_explicit(&sp_lifecycle_state, memory_order_acquire);
	int saved = errno;
	bool ours;

	if (sp_seccomp_is_on())
		return SP_LIFECYCLE_OFF;
	if (now == SP_LIFECYCLE_OFF || now == SP_LIFECYCLE_ASLEEP)
		return (enum sp_lifecycle_state)now;
	ours = sp_process_is_ours();
	errno = saved;
	return ours ? (enum sp_lifecycle_state)now : SP_LIFECYCLE_OFF;
}

static void turn_off(enum sp_lifecycle_state how)
{
	atomic_store_explicit(&sp_lifecycle_state, (int)how, memory_order_relaxed);
	sp_thread_disarm_all();
	sp_thread_unpublish();
}

void sp_lifecycle_stop(void)
{
	turn_off(SP_LIFECYCLE_STOPPED);
}

void sp_lifecycle_fail(void)
{
	turn_off(SP_LIFECYCLE_FAILED);
}

static bool parsed;
static bool watches_forks;
static bool forked;
static _Atomic bool traces; /* the program traces other processes */

/* glibc: nptl/register-atfork.c; what pthread_atfork() calls. Absent from other C libraries. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

/* There may be samples that were not sent. */
static bool may_flush(void)
{
	int now = atomic_load_explicit(&sp_lifecycle_state, memory_order_acquire);

	return now == SP_LIFECYCLE_ACTIVE || now == SP_LIFECYCLE_STOPPED;
}

static void after_fork_in_parent(void);
static void after_fork_in_child(void);

static void watch_forks(void)
{
	if (!watches_forks && __register_atfork != NULL)
		watches_forks = __register_atfork(NULL, after_fork_in_parent, after_fork_in_child,
						  &__dso_handle) == 0;
}

/*
 * The sampler's lookup of a symbol, answered from what was looked up when we were loaded. A forked
 * child may be the first to start, and another thread of its parent may have held the loader's lock
 * at the fork.
 */
static void *look_up(const char *name)
{
	return strcmp(name, sp_next_name(SP_NEXT__dl_find_object)) == 0
		       ? sp_next_known(SP_NEXT__dl_find_object)
		       : NULL;
}

static const char *reason(int err)
{
	switch (-err) {
	case ENOMEM:
		return "out of memory or address space";
	case EMFILE:
	case ENFILE:
		return "out of descriptors";
	case EAGAIN:
		return "no more processes are allowed";
	case EBUSY:
		return "the former exporter has not ended yet";
	case EADDRNOTAVAIL:
		return "too many exporters have ended within a minute";
	case EFBIG:
		return "RLIMIT_FSIZE is too low";
	default:
		return "a system call was refused";
	}
}

static void tell_no_sampling(int err)
{
	if (err == -ENOSYS)
		sp_log(SP_LOG_WARN,
		       "SPANPROF_UNWIND=cfi needs _dl_find_object, which this C library "
		       "does not have (glibc 2.35 has it): not profiling this process");
	else
		sp_log(SP_LOG_WARN, "cannot set up sampling (%s): not profiling this process",
		       reason(err));
}

/*
 * A server at a peak of connections has no descriptor left, and a container may be at its most processes for a
 * moment. A start that falls into such a moment is tried again, after 1 second, 2, 4 and so on, for about four
 * minutes in all. What lasts longer is taken for a limit that stays, and told as such.
 */
#define TRIES_MAX 8U
#define PAUSE_NS SP_NS_PER_S

static unsigned tries;              /* starts that failed since an exporter worked */
static _Atomic uint64_t not_before; /* by the coarse clock, the next one; 0 = none has failed */

bool sp_lifecycle_put_off(int err)
{
	if (!sp_exporter_error_passes(err) || tries == TRIES_MAX)
		return false;
	if (tries == 0)
		sp_log(SP_LOG_WARN, "cannot set up sampling (%s): trying again for some minutes",
		       reason(err));
	atomic_store_explicit(&not_before, sp_monotonic_coarse_ns() + (PAUSE_NS << tries++),
			      memory_order_relaxed);
	return true;
}

static bool was_put_off(void)
{
	return atomic_load_explicit(&not_before, memory_order_relaxed) != 0;
}

bool sp_lifecycle_is_put_off(void)
{
	return was_put_off() &&
	       sp_monotonic_coarse_ns() < atomic_load_explicit(&not_before, memory_order_relaxed);
}

void sp_lifecycle_has_started(void)
{
	tries = 0;
	atomic_store_explicit(&not_before, 0, memory_order_relaxed);
}

static void tell_tracing(void)
{
	sp_log(SP_LOG_WARN, "this program traces other processes, and would wait for the profiler: "
			    "not profiling it any longer");
}

static void begin_in_handler(void);

/* The descriptor of a region that is in use, or a negative errno. */
static int prepare(void)
{
	int fd;

	sp_log_begin();
	if (!parsed) {
		sp_sdk_resource_configure();
		sp_config_parse(&sp_lifecycle_settings);
	}
	parsed = true;
	fd = sp_sampler_prepare(&sp_lifecycle_settings, look_up);
	if (fd >= 0) {
		sp_publisher_prepare(&sp_lifecycle_settings);
		sp_allocations_check(&sp_lifecycle_settings);
	}
	sp_handler_setup.begin = begin_in_handler;
	sp_fork_barrier_start();
	watch_forks();
	return fd;
}

/* Closes fd. True also if there is an exporter later. */
static bool has_exporter(int fd)
{
	int err = sp_exporter_start(&sp_lifecycle_settings, fd);

	return err == 0 || sp_deferred_work_unborn(err);
}

static bool start_by_winner(void)
{
	int starting = SP_LIFECYCLE_STARTING;
	int failed = SP_LIFECYCLE_FAILED;
	int fd;

	/*
	 * pairs with sp_lifecycle_before_filter(): either it waits for us, or we see that it began
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (sp_seccomp_is_on()) {
		atomic_store_explicit(&sp_lifecycle_state, SP_LIFECYCLE_ASLEEP,
				      memory_order_relaxed);
		return false;
	}
	if (atomic_load_explicit(&traces, memory_order_relaxed)) {
		sp_log_begin();
		tell_tracing();
		atomic_store_explicit(&sp_lifecycle_state, SP_LIFECYCLE_FAILED,
				      memory_order_relaxed);
		return false;
	}
	switch (sp_trial_run()) {
	case SP_TRIAL_PASSED:
		break;
	case SP_TRIAL_FAILED:
		sp_seccomp_begin();
		atomic_store_explicit(&sp_lifecycle_state, SP_LIFECYCLE_FAILED,
				      memory_order_relaxed);
		return false;
	case SP_TRIAL_UNKNOWN:
		watch_forks();
		atomic_store_explicit(&sp_lifecycle_state, SP_LIFECYCLE_ASLEEP,
				      memory_order_relaxed);
		return false;
	}
	fd = prepare();
	if (fd >= 0)
		sp_thread_account_start();
	/* With a region it was a table that had no room. Another try would take all that has some again. */
	else if (!sp_region_is_there() && sp_lifecycle_put_off(fd))
		failed = SP_LIFECYCLE_ASLEEP;
	else
		tell_no_sampling(fd);
	if (fd < 0 || !has_exporter(fd)) {
		atomic_store_explicit(&sp_lifecycle_state, failed, memory_order_relaxed);
		return false;
	}
	sp_deferred_work_scan();
	sp_thread_rearm();
	sp_deferred_work_publish();
	/* pairs with the acquire in sp_lifecycle_start(): tables before "active" */
	return atomic_compare_exchange_strong_explicit(&sp_lifecycle_state, &starting,
						       SP_LIFECYCLE_ACTIVE, memory_order_release,
						       memory_order_relaxed);
}

/* Set by the first one who waits for a start; 0 = nobody has. */
static _Atomic uint64_t start_most_until;

/*
 * Another thread is starting, which is short and happens once in a process. Without the wait, a
 * program that starts its threads together would lose the first spans of all threads but one.
 */
static bool wait_for_winner(void)
{
	uint64_t end = sp_monotonic_ns() + START_WAIT_NS;
	uint64_t most = 0;
	int state_now;

	if (!atomic_compare_exchange_strong_explicit(&start_most_until, &most,
						     end - START_WAIT_NS + START_MOST_NS,
						     memory_order_relaxed, memory_order_relaxed) &&
	    most < end)
		end = most;

	do {
		(void)sp_syscall(SYS_sched_yield);
		state_now = atomic_load_explicit(&sp_lifecycle_state, memory_order_acquire);
	} while (state_now == SP_LIFECYCLE_STARTING && sp_monotonic_ns() < end);
	if (state_now == SP_LIFECYCLE_STARTING)
		sp_count(SP_COUNT_SPAN_NO_THREAD);
	return state_now == SP_LIFECYCLE_ACTIVE;
}

/* By one thread, which does the deferred work. Whoever has fd closes it. */
static void begin_child(void)
{
	int fd = sp_sampler_begin();
	bool goes_on = fd >= 0 ? has_exporter(fd) : sp_lifecycle_put_off(fd);

	if (fd < 0 && !goes_on)
		tell_no_sampling(fd);
	if (!goes_on)
		sp_lifecycle_fail();
	sp_deferred_work_publish();
}

/* Joining an exporter or starting one takes less than 1 KiB, a message as much again. */
#define BEGIN_STACK_BYTES 16384U

static void begin_on_own_stack(void)
{
	/* Otherwise our own calls would be taken for the host's. */
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	begin_child();
	sp_reentrancy_guard_leave(g);
}

static void begin_in_handler(void)
{
	static _Alignas(64) char stack[BEGIN_STACK_BYTES]; /* of who does the deferred work */

	/* Once here at most: what failed is tried again by a hooked call. */
	if (was_put_off() || sp_reentrancy_guard_frame != 0 || !sp_lifecycle_active() ||
	    sp_lifecycle_has_ended() || !sp_process_is_ours() || !sp_deferred_work_keep_off(0))
		return;
	if (!sp_region_is_there())
		sp_arch_call_on(stack + sizeof(stack), begin_on_own_stack);
	sp_deferred_work_leave();
}

/* False also where another thread does it and takes long. errno is not preserved. */
static bool begin_in_hook(void)
{
	if (!sp_process_is_ours() || !sp_deferred_work_keep_off(START_WAIT_NS))
		return false;
	if (!sp_region_is_there() && !sp_seccomp_is_on())
		begin_child();
	sp_deferred_work_leave();
	return sp_region_is_there();
}

bool sp_lifecycle_start_or_work(void)
{
	int now = atomic_load_explicit(&sp_lifecycle_state, memory_order_acquire);
	int saved = errno;
	bool ok;

	if (now == SP_LIFECYCLE_ACTIVE) {
		if (!sp_region_is_there() && sp_lifecycle_is_put_off())
			return false;
		ok = sp_region_is_there() || begin_in_hook();
		errno = saved;
		if (!ok)
			sp_thread_count_missing();
		return ok && sp_lifecycle_work();
	}
	if ((now != SP_LIFECYCLE_ASLEEP && now != SP_LIFECYCLE_STARTING) || sp_seccomp_is_on() ||
	    sp_lifecycle_has_ended() ||
	    (now == SP_LIFECYCLE_ASLEEP && (sp_trial_is_put_off() || sp_lifecycle_is_put_off())))
		return false;
	if (now == SP_LIFECYCLE_STARTING ||
	    !atomic_compare_exchange_strong_explicit(&sp_lifecycle_state, &now,
						     SP_LIFECYCLE_STARTING, memory_order_acq_rel,
						     memory_order_acquire)) {
		ok = wait_for_winner();
		errno = saved;
		return ok;
	}
	atomic_store_explicit(&start_most_until, 0, memory_order_relaxed);
	ok = start_by_winner();
	errno = saved;
	return ok;
}

static void start_if_waited_for(void)
{
	if (!sp_trial_is_waited_for())
		return;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	(void)sp_lifecycle_start();
	sp_reentrancy_guard_leave(g);
}

bool sp_lifecycle_before_thread(void)
{
	return sp_lifecycle_asleep() && sp_trial_saw(SP_TRIAL_THREAD);
}

void sp_lifecycle_after_thread(bool is_first, bool is_made)
{
	/* If not, the C library may not even have asked the kernel. */
	if (is_first && !is_made)
		atomic_fetch_and_explicit(&sp_trial_seen, ~SP_TRIAL_THREAD, memory_order_relaxed);
	else if (is_first)
		start_if_waited_for();
}

static void after_fork_in_parent(void)
{
	if (sp_lifecycle_asleep() && sp_trial_saw(SP_TRIAL_CLONE))
		start_if_waited_for();
}

static void after_fork_in_child(void)
{
	int was = atomic_load_explicit(&sp_lifecycle_state, memory_order_relaxed);
	int saved = errno;
	bool goes_on;
	bool has_span;

	if (was == SP_LIFECYCLE_OFF || was == SP_LIFECYCLE_FAILED)
		return;
	(void)sp_trial_saw(SP_TRIAL_CLONE);
	/* Without the guard, our own calls would be taken for the host's. */
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	forked = true;
	has_span = sp_sampler_forked();
	sp_exporter_family_forked();
	sp_deferred_work_forked();
	sp_lifecycle_has_started();
	atomic_store_explicit(&sp_lifecycle_ended, false, memory_order_relaxed);
	/* What the parent was just starting is begun anew by the child's first span. */
	goes_on =
		was == SP_LIFECYCLE_ACTIVE && (has_span || sp_publisher_is_read() ||
					       sp_lifecycle_settings.profile == SP_PROFILE_ALWAYS);
	if (was == SP_LIFECYCLE_STOPPED || sp_seccomp_is_on())
		was = SP_LIFECYCLE_FAILED;
	else if (!goes_on)
		was = SP_LIFECYCLE_ASLEEP;
	atomic_store_explicit(&sp_lifecycle_state, was, memory_order_relaxed);
	if (was == SP_LIFECYCLE_ACTIVE) {
		sp_thread_account_forked();
		sp_thread_rearm();
	}
	sp_reentrancy_guard_leave(g);
	errno = saved;
}

/*
 * Whether it is worth an exporter that the process ends, or executes another program: a child that has none yet
 * begins with it, and one that has begun and has no sample would wait for it.
 */
static bool is_to_flush(void)
{
	if (!sp_region_is_there())
		return sp_lifecycle_active() &&
		       sp_thread_account_process_ns() >= sp_thread_timer_period_ns() &&
		       begin_in_hook() && may_flush();
	return may_flush() && (!forked || sp_count_read(SP_COUNT_SAMPLES_PUT) != 0 ||
			       sp_thread_account_process_ns() >= BRIEF_NS);
}

static void wait_for_start(void)
{
	if (atomic_load_explicit(&sp_lifecycle_state, memory_order_seq_cst) ==
	    SP_LIFECYCLE_STARTING)
		(void)wait_for_winner();
}

static void flush(void)
{
	uint32_t timeout_ms = sp_lifecycle_settings.flush_timeout_ms;
	uint64_t end = sp_monotonic_ns() + timeout_ms * SP_NS_PER_MS;
	uint64_t now;

	/*
	 * All CPU time up to now goes into records, so a later sample would count some of it twice:
	 * the timer goes first. Only the thread itself knows the label of its time; for other
	 * threads there are just their clocks.
	 */
	if (sp_thread_own != NULL) {
		sp_thread_disarm(sp_thread_own);
		sp_thread_account_end(sp_thread_own);
	}
	sp_thread_account_flush();
	sp_deferred_work_account();
	sp_deferred_work_publish();
	/* Later there is no process whose stderr the exporter could write to. */
	if (timeout_ms == 0)
		sp_log(SP_LOG_INFO,
		       "not waiting for the last push (SPANPROF_FLUSH_TIMEOUT=0): if it fails, "
		       "only SPANPROF_STATUS_FILE tells");
	/* If the exporter ends meanwhile, its successor gets the rest of the time. */
	if (!sp_exporter_finish(timeout_ms) && sp_deferred_work_revive()) {
		now = sp_monotonic_ns();
		if (now < end)
			(void)sp_exporter_finish((uint32_t)((end - now) / SP_NS_PER_MS) + 1);
	}
	sp_deferred_work_tell();
}

/* Nothing was started in this process, or nothing may be done in it. */
static bool is_untouched(void)
{
	enum sp_lifecycle_state here = sp_lifecycle_here();

	return here == SP_LIFECYCLE_OFF || here == SP_LIFECYCLE_ASLEEP;
}

void sp_lifecycle_leave(void)
{
	int saved = errno;
	bool is_own;
	bool began;

	if (is_untouched())
		return;
	wait_for_start();
	is_own = sp_exporter_is_own();
	began = sp_region_is_there();
	if (is_to_flush() && (!began || is_own || sp_count_read(SP_COUNT_SAMPLES_PUT) != 0))
		flush();
	else if (is_own)
		(void)sp_exporter_finish(sp_lifecycle_settings.flush_timeout_ms);
	if (sp_lifecycle_active() && !is_own)
		atomic_store_explicit(&sp_region_now()->state, SP_REGION_LEAVING,
				      memory_order_relaxed);
	errno = saved;
}

void sp_lifecycle_end(void)
{
	int saved = errno;

	if (sp_lifecycle_asleep() && sp_trial_is_unknown())
		sp_trial_tell_unknown();
	if (is_untouched())
		return;
	/* Another thread may be here, or have been: the process must not end before it is done. */
	if (!atomic_exchange_explicit(&sp_lifecycle_ended, true, memory_order_relaxed)) {
		/*
		 * Lets nobody start another exporter beside a process that ends: the keeper would be
		 * left behind. One that is just being started is waited for.
		 */
		wait_for_start();
		if (sp_deferred_work_keep_off(START_WAIT_NS))
			sp_deferred_work_leave();
		if (is_to_flush()) {
			flush();
			errno = saved;
			return;
		}
	}
	if (sp_exporter_is_own())
		(void)sp_exporter_finish(sp_lifecycle_settings.flush_timeout_ms);
	errno = saved;
}

void sp_lifecycle_trace(void)
{
	int saved = errno;

	if (sp_lifecycle_asleep()) {
		/* Told when something would be profiled. */
		atomic_store_explicit(&traces, true, memory_order_relaxed);
		return;
	}
	if (is_untouched() || atomic_exchange_explicit(&traces, true, memory_order_relaxed))
		return;
	if (may_flush())
		tell_tracing();
	sp_lifecycle_end();
	if (sp_lifecycle_active())
		sp_lifecycle_stop();
	errno = saved;
}

void sp_lifecycle_before_filter(void)
{
	bool kept_off = false;

	wait_for_start();
	if (sp_lifecycle_here() == SP_LIFECYCLE_ACTIVE) {
		if (!sp_region_is_there())
			(void)is_to_flush();
		kept_off = sp_deferred_work_keep_off(START_WAIT_NS);
		sp_thread_disarm_all();
		sp_thread_wait_for_handlers(START_WAIT_NS);
		sp_thread_account_flush();
		sp_deferred_work_publish();
	}
	sp_seccomp_begin();
	/* a thread that begins now sees the filter */
	if (kept_off)
		sp_deferred_work_leave();
	/*
	 * pairs with start_by_winner(): a start that came in between is seen here, or sees the
	 * filter
	 */
	wait_for_start();
}

void sp_lifecycle_after_filter(bool refused)
{
	if (!refused) {
		sp_deferred_work_filtered();
		return;
	}
	sp_seccomp_take_back();
	if (!sp_seccomp_is_on() && sp_lifecycle_active()) {
		sp_thread_arm_again();
		atomic_fetch_or_explicit(&sp_region_now()->deferred_work, SP_WORK_SCAN,
					 memory_order_relaxed);
	}
}

void sp_lifecycle_load(char *const *envp)
{
	sp_config_capture(envp);
	if (sp_config_disabled())
		return;
	/* Whoever has not said where profiles go hardly wants any, and is not worth a system call. */
	sp_exporter_family_load(sp_config_names_sink());
	atomic_store_explicit(&sp_lifecycle_state, SP_LIFECYCLE_ASLEEP, memory_order_relaxed);
}

void sp_lifecycle_main(void)
{
	if (atomic_load_explicit(&sp_lifecycle_state, memory_order_relaxed) != SP_LIFECYCLE_ASLEEP)
		return;
	sp_publisher_look();
	/*
	 * No hook tells of spans that another library publishes. So where the program, or a library that it
	 * was linked with, defines the variable, sampling begins with the program.
	 */
	if (!sp_config_says(SP_VAR_PROFILE, "always") &&
	    !sp_config_says(SP_VAR_ACTIVE_SPAN, "context") &&
	    !(sp_config_allows_context() && sp_publisher_found()))
		return;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	(void)sp_lifecycle_start();
	sp_reentrancy_guard_leave(g);
}
