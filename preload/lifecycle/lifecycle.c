/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the profiler, restarts it in a forked child and ends it. The first thread that records a
 * span does the start. A lock for the other threads is impossible, because the host may fork during
 * the start, or a signal handler may interrupt it. So other threads wait for a bounded time, and
 * then their spans are not recorded.
 *
 * Most forked children execute another program or end soon. So the fork handler only drops what
 * belongs to the parent and, if sampling goes on in the child, gives its thread a timer. From then
 * on the child is active, but has no region (sp_region_nowhere) and no exporter. begin_child()
 * makes both: when the child records a span, or with its first sample, in the handler, because a
 * child may never make a call that we hook.
 *
 * begin_child() may run in the handler. In a forked child, a thread that does not exist there may
 * hold any lock of the C library. So begin_child() makes only system calls, on our own memory.
 * Three rules protect the code that the handler has interrupted. begin_child() holds the lock of
 * the deferred work. It does not run inside of a hooked call, which may be reading names and spans;
 * then the sample is dropped, its time becomes unsampled CPU time, and the next sample tries again.
 * And it runs on a separate stack, because the stack of a coroutine may be small.
 *
 * A child that ends without a sample contacts no exporter, unless it has used more CPU time than
 * one sample stands for. If each of many children uses only milliseconds, profiles have too little
 * of their CPU time: the samples of some children stand for a part of the time of the others, but
 * not for all of it (thread_account.c).
 *
 * Contexts: INIT (load, fork handler), APP (start, flush), SIG (begin_in_handler()).
 */
#include "preload/lifecycle/lifecycle.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
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
#include "sampler/base/vdso_clock_sig.h"
#include "sampler/config/config_file.h"
#include "sampler/config/config_table.h"
#include "sampler/region/region.h"
#include "sampler/region/thread_labels.h"
#include "sampler/sampler.h"
#include "sampler/sampling/handler.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"

/*
 * The start takes about a millisecond of CPU time. On a busy machine the threads that wait for it
 * may preempt it, and 50 ms were not always enough.
 */
#define START_WAIT_NS (100 * SP_NS_PER_MS)

/*
 * A start that took longer than this will never end: its thread was cancelled asynchronously, or a
 * handler of the host interrupted it and ended by longjmp(). No thread waits for it any more.
 */
#define START_MOST_NS (500 * SP_NS_PER_MS)

/*
 * A forked child that used less CPU time than this, and has no sample, does not wait for a flush at
 * its end.
 */
#define BRIEF_NS (1 * SP_NS_PER_MS)

/*
 * The master of a daemon waits for its workers and has no sample. If its children have used this
 * much CPU time, it gets an exporter at its end: only the status of the master shows that workers
 * ran without the profiler.
 */
#define WAITED_NS (100 * SP_NS_PER_MS)

enum sp_lifecycle_state sp_lifecycle_here(void)
{
	int saved = errno;
	bool ours;
	int now;

	if (sp_process_is_new())
		sp_lifecycle_forked();
	now = atomic_load_explicit(&sp_lifecycle_state, memory_order_acquire);
	if (sp_seccomp_is_on())
		return SP_LIFECYCLE_OFF;
	if (now == SP_LIFECYCLE_OFF || now == SP_LIFECYCLE_ASLEEP)
		return (enum sp_lifecycle_state)now;
	ours = sp_process_is_ours();
	errno = saved;
	return ours ? (enum sp_lifecycle_state)now : SP_LIFECYCLE_OFF;
}

static bool parsed;
static bool watches_forks;
static bool forked;
/* CPU time that this forked child has given to its parent's profile */
static _Atomic uint64_t time_of_parent_us;
static _Atomic bool traces; /* the program traces other processes */

/*
 * The function that pthread_atfork() calls (glibc: nptl/register-atfork.c). Other C libraries do
 * not have it.
 */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

/* Whether there may be samples that were not sent. */
static bool may_flush(void)
{
	int now = atomic_load_explicit(&sp_lifecycle_state, memory_order_acquire);

	return now == SP_LIFECYCLE_ACTIVE || now == SP_LIFECYCLE_STOPPED;
}

static void after_fork_in_parent(void);

static void watch_forks(void)
{
	if (!watches_forks && __register_atfork != NULL)
		watches_forks = __register_atfork(NULL, after_fork_in_parent, sp_lifecycle_forked,
						  &__dso_handle) == 0;
}

/*
 * The sampler's lookup of a symbol, answered from the lookups that were made when our object was
 * loaded. A forked child may be the first to start, and another thread of its parent may have held
 * the loader's lock at the fork.
 */
static void *look_up(const char *name)
{
	return strcmp(name, sp_next_name(SP_NEXT__dl_find_object)) == 0
		       ? sp_next_known(SP_NEXT__dl_find_object)
		       : NULL;
}

/* The name of a system call without which nothing can be sampled. */
static const char *call_of(long number)
{
	switch (number) {
	case SYS_memfd_create:
		return "memfd_create";
	case SYS_ftruncate:
		return "ftruncate";
	case SYS_fcntl:
		return "fcntl";
	case SYS_prlimit64:
		return "prlimit64";
	case SYS_mmap:
		return "mmap";
	case SYS_rt_sigaction:
		return "rt_sigaction";
	case SYS_timer_create:
		return "timer_create";
	default:
		return "a system call";
	}
}

static void tell_no_sampling(int err)
{
	if (err == -ENOSYS && sp_next_known(SP_NEXT__dl_find_object) == NULL)
		sp_log(SP_LOG_WARN,
		       "SPANPROF_UNWIND=cfi needs _dl_find_object, which this C library "
		       "does not have (glibc 2.35 has it): not profiling this process");
	else if (err == -ENOSYS || err == -EPERM)
		sp_log(SP_LOG_WARN,
		       "cannot set up sampling (%s was refused, by a seccomp filter or the "
		       "kernel): not profiling this process",
		       call_of(atomic_load_explicit(&sp_syscall_refused, memory_order_relaxed)));
	else
		sp_log(SP_LOG_WARN, "cannot set up sampling (%s): not profiling this process",
		       sp_lifecycle_reason(err));
}

static void tell_tracing(void)
{
	sp_log(SP_LOG_WARN, "this program traces other processes, and would wait for the profiler: "
			    "not profiling it any longer");
}

static void begin_in_handler(void);
static void scan_in_handler(void);

/* Samples need times only for the time lines of slow requests (SPANPROF_SLOW). */
static void find_clock(void)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);

	/* A forked child has the function from its parent, and the same vDSO. */
	if (sp_vdso_clock == NULL && sp_lifecycle_settings.slow != NULL && vdso != NULL)
		sp_vdso_clock = (sp_vdso_clock_fn *)sp_elf_find_at(vdso, SP_VDSO_CLOCK_NAME);
}

/* Makes the region and all tables. Returns the descriptor of the region, or a negative errno. */
static int prepare(void)
{
	int fd;

	sp_log_begin();
	if (!parsed) {
		sp_sdk_resource_configure();
		sp_config_parse(&sp_lifecycle_settings);
	}
	parsed = true;
	find_clock();
	fd = sp_sampler_prepare(&sp_lifecycle_settings, look_up);
	if (fd >= 0) {
		sp_publisher_prepare(&sp_lifecycle_settings);
		sp_allocations_check(&sp_lifecycle_settings);
	}
	sp_handler_setup.begin = begin_in_handler;
	sp_handler_setup.scan = scan_in_handler;
	sp_fork_barrier_start();
	watch_forks();
	return fd;
}

/* Starts the exporter and closes fd. True also if the start will be tried again. */
static bool has_exporter(int fd)
{
	int err = sp_exporter_start(&sp_lifecycle_settings, fd);

	return err == 0 || sp_deferred_work_unborn(err);
}

static void begin_sampling(void)
{
	/* This has to happen while sp_signals still knows which handlers the program has. */
	(void)sp_thread_self();
	sp_signals_start_over();
	sp_deferred_work_scan();
	sp_thread_rearm();
	sp_deferred_work_dumpable();
	sp_deferred_work_publish(false);
}

static bool start_by_winner(void)
{
	int starting = SP_LIFECYCLE_STARTING;
	int failed = SP_LIFECYCLE_FAILED;
	int fd;

	/*
	 * pairs with sp_lifecycle_before_filter(): either it waits for us, or we see that the
	 * filter counts as installed
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
	/*
	 * If there is a region, a table found no memory. Another try would map all tables a second
	 * time.
	 */
	else if (!sp_region_is_there() && sp_lifecycle_put_off(fd))
		failed = SP_LIFECYCLE_ASLEEP;
	else
		tell_no_sampling(fd);
	if (fd < 0 || !has_exporter(fd)) {
		sp_signals_start_over();
		atomic_store_explicit(&sp_lifecycle_state, failed, memory_order_relaxed);
		return false;
	}
	begin_sampling();
	/* pairs with the acquire in sp_lifecycle_start(): tables before "active" */
	return atomic_compare_exchange_strong_explicit(&sp_lifecycle_state, &starting,
						       SP_LIFECYCLE_ACTIVE, memory_order_release,
						       memory_order_relaxed);
}

/*
 * The time after which no thread waits for the start. The first waiting thread sets it; 0 = no
 * thread waits.
 */
static _Atomic uint64_t start_most_until;

/*
 * Waits for the thread that starts, which takes milliseconds and happens once in a process. Without
 * the wait, a program that starts its threads together would lose the first spans of all threads
 * but one.
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

/* Called by the thread that does the deferred work. Each function that gets fd closes it. */
static void begin_child(void)
{
	int fd = sp_sampler_begin();
	bool goes_on = fd >= 0 ? has_exporter(fd) : sp_lifecycle_put_off(fd);

	if (fd < 0 && !goes_on)
		tell_no_sampling(fd);
	if (!goes_on)
		sp_lifecycle_fail();
	sp_deferred_work_dumpable();
	sp_deferred_work_publish(false);
}

/* Joining or starting an exporter takes less than 1 KiB of stack, and a message 1 KiB more. */
#define BEGIN_STACK_BYTES 16384U

static void begin_on_own_stack(void)
{
	/* Without the guard, our own calls would be taken for the host's. */
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	begin_child();
	sp_reentrancy_guard_exit(g);
}

/* for the thread that holds the lock of the deferred work */
static _Alignas(64) char own_stack[BEGIN_STACK_BYTES];

static void begin_in_handler(void)
{
	/* The handler tries once at most: after a failure, hooked calls try again. */
	if (sp_lifecycle_was_put_off() || sp_reentrancy_guard_frame != 0 ||
	    !sp_lifecycle_active() || sp_lifecycle_has_ended() || !sp_process_is_ours() ||
	    !sp_deferred_work_lock(0))
		return;
	if (!sp_region_is_there())
		sp_arch_call_on(own_stack + sizeof(own_stack), begin_on_own_stack);
	sp_deferred_work_unlock();
}

static void scan_on_own_stack(void)
{
	sp_deferred_work_scan();
	/*
	 * A scan skips the thread that it runs in, because a hook enrols that thread at its first
	 * hooked call. This thread may never make one.
	 */
	(void)sp_thread_enrol((uint32_t)sp_syscall(SYS_gettid));
	sp_deferred_work_publish(false);
}

/*
 * The pthread_create() of an object that was opened with RTLD_DEEPBIND does not reach our hook, and
 * its threads may make no hooked call at all. A scan finds them, and usually a hook runs the scan.
 * If no hook is called, our handler runs the scan in a thread that has a timer already, or in a
 * thread to which the exporter has sent our signal. The scan makes only system calls, as in a
 * forked child: on our own memory, without a lock, on a separate stack.
 */
static void scan_in_handler(void)
{
	if (!sp_lifecycle_active() || sp_lifecycle_has_ended() || !sp_process_is_ours() ||
	    !sp_deferred_work_lock(0))
		return;
	if (sp_region_is_there())
		sp_arch_call_on(own_stack + sizeof(own_stack), scan_on_own_stack);
	sp_deferred_work_unlock();
}

/* False also if another thread holds the lock for too long. errno is not preserved. */
static bool begin_in_hook(void)
{
	if (!sp_process_is_ours() || !sp_deferred_work_lock(START_WAIT_NS))
		return false;
	if (!sp_region_is_there() && !sp_seccomp_is_on())
		begin_child();
	sp_deferred_work_unlock();
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
	sp_reentrancy_guard_exit(g);
}

bool sp_lifecycle_before_thread(void)
{
	return sp_lifecycle_asleep() && sp_trial_saw(SP_TRIAL_THREAD);
}

void sp_lifecycle_after_thread(bool is_first, bool is_made)
{
	/* If the thread was not made, the C library may not even have asked the kernel. */
	if (is_first && !is_made)
		atomic_fetch_and_explicit(&sp_trial_seen, ~SP_TRIAL_THREAD, memory_order_relaxed);
	else if (is_first)
		start_if_waited_for();
}

/* A handler that reports a crash may fork on a stack that is too small for a start. */
static bool is_on_signal_stack(void)
{
	stack_t stack = {.ss_flags = 0};

	return sp_syscall(SYS_sigaltstack, NULL, &stack) != 0 || (stack.ss_flags & SS_ONSTACK) != 0;
}

/*
 * A child asked this process for an exporter (sp_exporter_family_is_asked()). The process starts
 * profiling, as at a span. If it is profiled already and its exporter has ended, it starts another.
 */
void sp_lifecycle_before_fork(void)
{
	int saved = errno;

	if ((sp_lifecycle_asleep() || sp_lifecycle_active()) && !sp_lifecycle_has_ended() &&
	    !sp_reentrancy_guard_inside((uintptr_t)__builtin_frame_address(0)) &&
	    sp_exporter_family_is_asked() && !is_on_signal_stack()) {
		struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

		/* The child that asked was made by a fork, which no filter has refused. */
		(void)sp_trial_saw(SP_TRIAL_CLONE);
		(void)sp_lifecycle_start();
		sp_reentrancy_guard_exit(g);
	}
	errno = saved;
}

static void after_fork_in_parent(void)
{
	if (sp_lifecycle_asleep() && sp_trial_saw(SP_TRIAL_CLONE))
		start_if_waited_for();
}

/* NOLINTNEXTLINE(misc-no-recursion): state.h */
void sp_lifecycle_forked(void)
{
	int was = atomic_load_explicit(&sp_lifecycle_state, memory_order_relaxed);
	int saved = errno;
	bool goes_on;
	bool has_span;

	/* The fork handler of another library has run before ours, and has called a hook. */
	if (atomic_load_explicit(&sp_process_page.is_known, memory_order_relaxed) != 0)
		return;
	sp_process_meet();
	if (was == SP_LIFECYCLE_OFF || was == SP_LIFECYCLE_FAILED)
		return;
	(void)sp_trial_saw(SP_TRIAL_CLONE);
	/* Without the guard, our own calls would be taken for the host's. */
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	forked = true;
	atomic_store_explicit(&time_of_parent_us, 0, memory_order_relaxed);
	sp_exporter_family_forked(sp_region_is_there() ? sp_region_now() : NULL);
	has_span = sp_sampler_forked();
	sp_deferred_work_forked();
	sp_lifecycle_has_started();
	atomic_store_explicit(&sp_lifecycle_ended, false, memory_order_relaxed);
	/* If the parent was just starting, the child's first span starts anew. */
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
	sp_reentrancy_guard_exit(g);
	errno = saved;
}

/*
 * CPU time of the processes that this one has waited for, and of their children that they had
 * waited for.
 */
static uint64_t waited_ns(void)
{
	struct rusage usage = {.ru_nsignals = 0};

	if (sp_syscall(SYS_getrusage, RUSAGE_CHILDREN, &usage) != 0)
		return 0;
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * SP_NS_PER_S +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000U;
}

/*
 * Whether the process has to flush when it ends or executes another program. A forked child without
 * a region gets a region and an exporter here, if it or its children have used enough CPU time. A
 * child with a region but without a sample does not wait for the exporter.
 */
static bool is_to_flush(void)
{
	if (!sp_region_is_there())
		return sp_lifecycle_active() &&
		       (sp_thread_account_process_ns() >= sp_thread_timer_period_ns() ||
			waited_ns() >= WAITED_NS) &&
		       begin_in_hook() && may_flush();
	return may_flush() && (!forked || sp_count_read(SP_COUNT_SAMPLES_PUT) != 0 ||
			       sp_thread_account_process_ns() >= BRIEF_NS);
}

/*
 * A forked child ends, or executes another program. If it has no region, and so no profile, its
 * parent's profile has its CPU time. If exec fails, there may be more later.
 */
static void give_time_to_parent(void)
{
	uint64_t us, given_us;

	if (!forked || sp_region_is_there() || !sp_lifecycle_active())
		return;
	us = sp_thread_account_process_ns() / 1000;
	given_us = atomic_exchange_explicit(&time_of_parent_us, us, memory_order_relaxed);
	if (us > given_us)
		sp_region_count_in_parent(SP_COUNT_BRIEF_CHILDREN, us - given_us);
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
	 * All CPU time up to now goes into records, so a later sample would count some of it twice.
	 * So the timer is deleted first. Only the thread itself knows the label of its time; of
	 * other threads we know only the CPU clocks.
	 */
	if (sp_thread_own != NULL) {
		sp_thread_disarm(sp_thread_own);
		sp_thread_account_end(sp_thread_own);
		/* The last push is no wait of the active span, so the label is struck. */
		sp_thread_labels_strike(sp_thread_own->index);
	}
	sp_thread_account_flush();
	sp_deferred_work_account();
	sp_deferred_work_publish(true);
	/* After the end of this process the exporter cannot write to its stderr. */
	if (timeout_ms == 0)
		sp_log(SP_LOG_INFO,
		       "not waiting for the last push (SPANPROF_FLUSH_TIMEOUT=0): if it fails, "
		       "only SPANPROF_STATUS_FILE shows it");
	/* If the exporter ends meanwhile, its successor gets the rest of the time. */
	if (!sp_exporter_finish(timeout_ms) && sp_deferred_work_revive()) {
		now = sp_monotonic_ns();
		if (now < end)
			(void)sp_exporter_finish((uint32_t)((end - now) / SP_NS_PER_MS) + 1);
	}
	sp_deferred_work_log();
}

/* Whether nothing was started in this process, or nothing may be done in it. */
static bool is_untouched(void)
{
	enum sp_lifecycle_state here = sp_lifecycle_here();

	return here == SP_LIFECYCLE_OFF || here == SP_LIFECYCLE_ASLEEP;
}

void sp_lifecycle_before_exec(void)
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
	give_time_to_parent();
	if (sp_lifecycle_active() && !is_own)
		atomic_store_explicit(&sp_region_now()->state, SP_REGION_LEAVING,
				      memory_order_relaxed);
	errno = saved;
}

void sp_lifecycle_end(void)
{
	int saved = errno;

	if (sp_lifecycle_asleep() && sp_trial_is_unknown())
		sp_trial_log_unknown();
	if (is_untouched())
		return;
	/*
	 * Another thread may be in this function, or have run it: the process must not end before
	 * that thread is done.
	 */
	if (!atomic_exchange_explicit(&sp_lifecycle_ended, true, memory_order_relaxed)) {
		/*
		 * From now on no thread may start another exporter, whose keeper would outlive this
		 * process. A start that is under way is waited for.
		 */
		wait_for_start();
		if (sp_deferred_work_lock(START_WAIT_NS))
			sp_deferred_work_unlock();
		if (is_to_flush()) {
			flush();
			errno = saved;
			return;
		}
		give_time_to_parent();
	}
	if (sp_exporter_is_own())
		(void)sp_exporter_finish(sp_lifecycle_settings.flush_timeout_ms);
	errno = saved;
}

void sp_lifecycle_trace(void)
{
	int saved = errno;

	if (sp_lifecycle_asleep()) {
		/* A start that finds this set logs it. */
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

/*
 * A daemon forks a worker, and the worker calls chroot(), becomes another user and forbids itself
 * to fork. From then on nobody can start an exporter for the worker: its root has no such program,
 * and its user may have no more processes. The parent's exporter does not help. It ends with the
 * parent, which often exits or executes another program as soon as the worker runs; and an exporter
 * that serves both must not open files with rights that the worker has given up. So the worker
 * starts its own exporter while it still can, and that exporter gives up the same rights later.
 */
void sp_lifecycle_before_confinement(void)
{
	int saved = errno;

	if (!forked || sp_lifecycle_here() != SP_LIFECYCLE_ACTIVE || sp_lifecycle_has_ended() ||
	    sp_exporter_is_own() ||
	    sp_reentrancy_guard_inside((uintptr_t)__builtin_frame_address(0)))
		return;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	if (sp_deferred_work_lock(START_WAIT_NS)) {
		if (sp_exporter_family_part()) {
			if (sp_region_is_there())
				sp_deferred_work_part();
			else
				begin_child();
		}
		sp_deferred_work_unlock();
	}
	sp_reentrancy_guard_exit(g);
	errno = saved;
}

void sp_lifecycle_before_filter(void)
{
	bool kept_off = false;

	wait_for_start();
	if (sp_lifecycle_here() == SP_LIFECYCLE_ACTIVE) {
		if (!sp_region_is_there())
			(void)is_to_flush();
		kept_off = sp_deferred_work_lock(START_WAIT_NS);
		sp_thread_disarm_all();
		sp_thread_wait_for_handlers(START_WAIT_NS);
		sp_thread_account_flush();
		sp_deferred_work_publish(false);
	}
	sp_seccomp_begin();
	/* a thread that takes the lock from now on sees the filter */
	if (kept_off)
		sp_deferred_work_unlock();
	/*
	 * pairs with start_by_winner(): a start that began in between is waited for here, or sees
	 * that the filter counts as installed
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

/* The linker defines this symbol at the beginning of the object. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

void sp_lifecycle_load(char *const *envp, const char *object)
{
	sp_region_own_object[0] = (uintptr_t)__ehdr_start;
	sp_config_load(envp, object, SP_CONFIG_FILE);
	if (sp_config_disabled())
		return;
	/*
	 * A program without a variable that says where profiles go hardly wants any, and does not
	 * pay the system call.
	 */
	sp_exporter_family_load(sp_config_names_sink());
	atomic_store_explicit(&sp_lifecycle_state, SP_LIFECYCLE_ASLEEP, memory_order_relaxed);
}

void sp_lifecycle_main(void)
{
	if (atomic_load_explicit(&sp_lifecycle_state, memory_order_relaxed) != SP_LIFECYCLE_ASLEEP)
		return;
	sp_publisher_search();
	/*
	 * No hook sees spans that another library publishes. So if the program, or a library that
	 * it was linked with, defines the variable, sampling begins with the program.
	 */
	if (!sp_config_says(SP_VAR_PROFILE, "always") &&
	    !sp_config_says(SP_VAR_ACTIVE_SPAN, "context") &&
	    !(sp_config_allows_context() && sp_publisher_found()))
		return;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	(void)sp_lifecycle_start();
	sp_reentrancy_guard_exit(g);
}
