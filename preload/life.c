/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting, forking and ending. Contexts: INIT (load, fork handlers), APP (start, flush). The first
 * thread that records a span does the start; others that come while it runs wait for it, shortly.
 */
#include "preload/life.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/background.h"
#include "preload/end_gate.h"
#include "preload/fork_gate.h"
#include "preload/guard.h"
#include "preload/loader_lock.h"
#include "preload/loading.h"
#include "preload/resolve.h"
#include "sampler/counters.h"
#include "sampler/log.h"
#include "sampler/monotonic.h"
#include "sampler/process.h"
#include "sampler/residual.h"
#include "sampler/sampler.h"
#include "sampler/thread.h"

/* The start takes well under a millisecond of CPU time; on a busy machine it may be preempted. */
#define START_WAIT_NS (50 * SP_NS_PER_MS)

_Atomic int sp_life_state = SP_LIFE_OFF;
static struct sp_config config;
static bool prepared;
static _Atomic bool ended; /* what the exporter stands on may be torn down from now on */
static bool stranded;      /* failed because our thread could not come back; a child may have one */
static const char *torn;   /* what a fork came in the middle of: nothing may start here. Or NULL */

/* glibc: nptl/register-atfork.c; what pthread_atfork() calls. Absent from other C libraries. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

/* ThreadSanitizer's runtime has to create every thread itself, or dies in one that it has not. */
void __tsan_init(void) __attribute__((weak));

const struct sp_config *sp_life_config(void)
{
	return &config;
}

static void give_up(enum sp_life_state state)
{
	atomic_store_explicit(&sp_life_state, state, memory_order_relaxed);
	sp_thread_disarm_all();
}

void sp_life_stop(void)
{
	give_up(SP_LIFE_STOPPED);
}

void sp_life_fail(void)
{
	give_up(SP_LIFE_FAILED);
}

/* There may be samples that have not been sent. */
static bool may_flush(void)
{
	int now = atomic_load_explicit(&sp_life_state, memory_order_acquire);

	return now == SP_LIFE_ACTIVE || now == SP_LIFE_STOPPED;
}

static void after_fork_in_child(void);

static int prepare(void)
{
	int err;

	if (prepared)
		return 0;
	sp_config_parse(&config);
	err = sp_sampler_prepare(&config, sp_resolve);
	if (err == -ENOSYS) {
		sp_log(SP_LOG_WARN,
		       "SPANPROF_UNWIND=cfi needs _dl_find_object, which this C library "
		       "does not have (glibc 2.35 does): not profiling this process");
		return err;
	}
	if (err != 0) {
		sp_log(SP_LOG_WARN, "cannot set up sampling (%s): not profiling this process",
		       err == -ENOMEM ? "out of address space" : "system call refused");
		return err;
	}
	if (__register_atfork != NULL)
		(void)__register_atfork(sp_fork_gate_close, sp_fork_gate_open, after_fork_in_child,
					&__dso_handle);
	prepared = true;
	return 0;
}

/* 0, or -EDEADLK: rather an unprofiled child than one that waits for a lock which nobody holds. */
static int may_begin(void)
{
	if (torn == NULL)
		return 0;
	sp_log(SP_LOG_WARN, "forked in the middle of %s: not profiling this process", torn);
	return -EDEADLK;
}

static bool start_by_winner(void)
{
	int err = may_begin();
	int starting = SP_LIFE_STARTING;

	if (err == 0)
		err = prepare();
	if (err == 0) {
		/* Before there is that thread: its CPU time is taken off what the process used since. */
		sp_residual_start();
		err = sp_background_start(&config);
		if (err != 0)
			sp_log(SP_LOG_WARN, "cannot create the background thread: "
					    "not profiling this process");
	}
	if (err != 0) {
		atomic_store_explicit(&sp_life_state, SP_LIFE_FAILED, memory_order_relaxed);
		return false;
	}
	sp_thread_rearm();
	/*
	 * pairs with the acquire in sp_life_start(): tables before "active". Not when the background
	 * thread has failed meanwhile.
	 */
	return atomic_compare_exchange_strong_explicit(&sp_life_state, &starting, SP_LIFE_ACTIVE,
						       memory_order_release, memory_order_relaxed);
}

/*
 * Another thread is starting: short work, once in a process. Without the wait the first spans of all
 * other threads would go unrecorded where a program starts its threads together.
 */
static bool wait_for_winner(void)
{
	uint64_t end = sp_monotonic_ns() + START_WAIT_NS;
	int state_now;

	do {
		(void)syscall(SYS_sched_yield);
		state_now = atomic_load_explicit(&sp_life_state, memory_order_acquire);
	} while (state_now == SP_LIFE_STARTING && sp_monotonic_ns() < end);
	if (state_now == SP_LIFE_STARTING)
		sp_count(SP_COUNT_SPAN_NO_THREAD);
	return state_now == SP_LIFE_ACTIVE;
}

bool sp_life_start(void)
{
	int now = atomic_load_explicit(&sp_life_state, memory_order_acquire);
	int saved = errno;
	bool ok;

	if (now == SP_LIFE_ACTIVE)
		return true;
	if (now != SP_LIFE_ASLEEP && now != SP_LIFE_STARTING)
		return false;
	if (now == SP_LIFE_STARTING ||
	    !atomic_compare_exchange_strong_explicit(&sp_life_state, &now, SP_LIFE_STARTING,
						     memory_order_acq_rel, memory_order_acquire)) {
		ok = wait_for_winner();
		errno = saved;
		return ok;
	}
	ok = start_by_winner();
	errno = saved;
	return ok;
}

static void after_fork_in_child(void)
{
	int was = atomic_load_explicit(&sp_life_state, memory_order_relaxed);
	bool clean = sp_fork_gate_forked();
	bool whole = sp_loader_lock_forked();
	int saved = errno;
	bool has_span;

	if (was == SP_LIFE_STOPPED)
		atomic_store_explicit(&sp_life_state, SP_LIFE_FAILED, memory_order_relaxed);
	if (was == SP_LIFE_OFF || was == SP_LIFE_STOPPED || (was == SP_LIFE_FAILED && !stranded))
		return;
	stranded = false;
	/* Without the guard our own thread creation would be taken for the host's. */
	struct sp_guard g = sp_guard_enter();

	sp_background_forked();
	has_span = sp_sampler_forked();
	/* Told of where it would have started, so not by a child that only calls exec. */
	if (!clean)
		torn = "the exporter's work";
	else if (!whole)
		torn = "a change of the loaded objects";
	atomic_store_explicit(&sp_life_state, SP_LIFE_ASLEEP, memory_order_relaxed);
	if (has_span || config.profile == SP_PROFILE_ALWAYS)
		(void)sp_life_start();
	sp_guard_leave(g);
	errno = saved;
}

void sp_life_flush(void)
{
	int saved = errno;

	if (!may_flush() || sp_guard_frame == UINTPTR_MAX || !sp_process_is_ours() ||
	    atomic_load_explicit(&ended, memory_order_relaxed))
		return;
	/* Whose its time was only the thread itself can tell; of the others the clocks alone speak. */
	if (sp_thread_own != NULL)
		sp_residual_end(sp_thread_own);
	sp_background_flush(config.flush_timeout_ms);
	errno = saved;
}

void sp_life_end(void)
{
	if (!may_flush())
		return;
	sp_life_flush();
	if (!sp_process_is_ours() || sp_guard_frame == UINTPTR_MAX)
		return;
	atomic_store_explicit(&ended, true, memory_order_relaxed);
	sp_end_gate_close();
}

bool sp_life_step_aside(bool for_good)
{
	int saved = errno;

	/* In a child of vfork the thread is its parent's. */
	if (!sp_background_present() || sp_guard_frame == UINTPTR_MAX || !sp_process_is_ours() ||
	    atomic_load_explicit(&ended, memory_order_relaxed))
		return false;
	if (for_good)
		sp_life_flush();
	sp_background_leave();
	errno = saved;
	return true;
}

void sp_life_step_back(bool for_good)
{
	int saved = errno;

	if (sp_background_return() != 0) {
		stranded = sp_life_active();
		sp_life_fail();
		sp_log(for_good ? SP_LOG_INFO : SP_LOG_WARN,
		       "the background thread cannot come back after the program has changed its "
		       "user or "
		       "namespace: no more profiles of this process");
	}
	errno = saved;
}

void sp_life_load(char *const *envp)
{
	sp_config_capture(envp);
	if (sp_config_disabled() || __tsan_init != NULL)
		return;
	sp_loading_start(sp_config_wants_hook_dlsym(), sp_config_wants_deepbind());
	atomic_store_explicit(&sp_life_state, SP_LIFE_ASLEEP, memory_order_relaxed);
}

void sp_life_main(void)
{
	if (atomic_load_explicit(&sp_life_state, memory_order_relaxed) != SP_LIFE_ASLEEP ||
	    !sp_config_wants_start())
		return;
	struct sp_guard g = sp_guard_enter();

	(void)sp_life_start();
	sp_guard_leave(g);
}
