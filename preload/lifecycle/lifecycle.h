/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lifecycle of the profiler in a process: its start, the functions that hooks of the C library
 * call, and its end.
 */
#ifndef SP_LIFECYCLE_H
#define SP_LIFECYCLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/lifecycle/state.h"
#include "sampler/region/region.h"

/*
 * INIT. Reads the kill switches and copies the settings. object: the path of our object, as the
 * loader has it.
 */
void sp_lifecycle_load(char *const *envp, const char *object);

/*
 * INIT, just before the host's main(). Starts sampling if the configuration wants profiles from the
 * beginning.
 */
void sp_lifecycle_main(void);

/*
 * APP, before and after a call by which the C library makes a thread for the program. A start may
 * wait for the first thread (preload/exporter/trial.c), and sampling begins then. The first thread
 * is noted before the call, because it may record a span before the call returns. errno preserved.
 */
bool sp_lifecycle_before_thread(void);
void sp_lifecycle_after_thread(bool is_first, bool is_made);

/*
 * Deferred work: enrol threads that no hook saw being created, settle CPU accounts, give up old
 * spans, check the sampling signal. Only the process itself can do this, and it has no thread of
 * ours. So the exporter asks for it by the work bits of the region, and the next hook of any thread
 * does it.
 */

/*
 * For sp_deferred_work_is_due(). False if an exporter that does not work yet was checked just
 * before.
 */
bool sp_deferred_work_may_check(void);

/*
 * APP, while sampling is on. Whether the exporter has asked for work, or does not work and it is
 * time to find out why.
 */
static inline bool sp_deferred_work_is_due(void)
{
	struct sp_region *r = sp_region_now();

	return atomic_load_explicit(&r->deferred_work, memory_order_relaxed) != 0 ||
	       (atomic_load_explicit(&r->exporter, memory_order_relaxed) != SP_EXPORTER_WORKING &&
		sp_deferred_work_may_check());
}

/*
 * APP, inside the reentrancy guard. Does the work that was asked for, unless another thread is
 * doing it. errno preserved.
 */
void sp_deferred_work_run(void);

/*
 * The slow part of sp_lifecycle_start(): starts sampling, gives a forked child its region, or does
 * deferred work.
 */
bool sp_lifecycle_start_or_work(void);

/*
 * APP, inside the reentrancy guard, at a recorded span. True when sampling is on; the first call
 * starts it. Always false if the profiler is switched off or has failed.
 */
static inline bool sp_lifecycle_start(void)
{
	return (sp_lifecycle_active() && !sp_deferred_work_is_due()) ||
	       sp_lifecycle_start_or_work();
}

/*
 * APP, inside the reentrancy guard, while active, in a call that records no span: does deferred
 * work. True while sampling is still on.
 */
static inline bool sp_lifecycle_work(void)
{
	if (sp_region_is_there() && sp_deferred_work_is_due())
		sp_deferred_work_run();
	return sp_lifecycle_active();
}

/*
 * The process is about to end: sends the remaining samples, waiting at most the configured flush
 * time, and ends the processes that this one has started (sp_exporter_finish()). From then on
 * nothing is started. Does nothing if the profiler was never active, at a second call, and in a
 * vfork child that shares our memory. APP, any thread, also several at once.
 */
void sp_lifecycle_end(void);

/*
 * As sp_lifecycle_end(), before the process executes another program. The execution may fail, and
 * then the process continues.
 */
void sp_lifecycle_before_exec(void);

/*
 * APP, before and after a call by which the program installs a seccomp filter
 * (sampler/base/seccomp.h). Before it, all timers are deleted, the accounts are brought up to date
 * while that is still possible, and the filter counts as installed. After it, the timers are made
 * again if the kernel refused the filter; otherwise sampling is off for good.
 */
void sp_lifecycle_before_filter(void);
void sp_lifecycle_after_filter(bool refused);

/*
 * APP. The program is about to trace another process, and then waits for children of any kind, as
 * debuggers do: its wait would find the keeper. So profiling ends for good, as at the end of the
 * process, and nothing is started later. The first call logs this. errno preserved.
 */
void sp_lifecycle_trace(void);

/*
 * APP, before a fork by the C library. Starts an exporter if a child that has ended has asked this
 * process for one. errno preserved.
 */
void sp_lifecycle_before_fork(void);

/*
 * APP, before a call after which this process may be unable to start an exporter. A forked child
 * without its own exporter starts one, and no longer depends on that of its parent. errno
 * preserved.
 */
void sp_lifecycle_before_confinement(void);

/* Functions of deferred_work.c for lifecycle.c. */

/*
 * The same contexts as sp_lifecycle_put_off(). The exporter of the current region could not be
 * started. True if another one will be started, and sampling goes on until then; false after a
 * message.
 */
bool sp_deferred_work_unborn(int err);

/* APP, before a flush: collects the records that former exporters left in their regions. */
void sp_deferred_work_account(void);

/*
 * APP, after a flush: writes the messages that the exporter may not write itself, because there may
 * be no later hook that does it.
 */
void sp_deferred_work_log(void);

/*
 * APP, inside the reentrancy guard, after a flush that no exporter answered. True if there is
 * another exporter now, which can be asked. If there is none, this is logged.
 */
bool sp_deferred_work_revive(void);

/*
 * APP. Waits until no thread does deferred work or starts another exporter. Then no thread does
 * either before sp_deferred_work_unlock(). False if the wait took longer than most_ns; the caller
 * then must not call sp_deferred_work_unlock().
 */
bool sp_deferred_work_lock(uint64_t most_ns);
void sp_deferred_work_unlock(void);

/*
 * APP, one thread at a time. Enrols threads that no hook saw; if there are many, the next hook of
 * any thread goes on.
 */
void sp_deferred_work_scan(void);

/*
 * APP. The program has installed a seccomp filter: sampling is off for good, and the log says so.
 */
void sp_deferred_work_filtered(void);

/*
 * APP, one thread at a time. The exporter that this process has joined first takes the records in
 * the rings. Then the process continues in a new region, with its own exporter.
 */
void sp_deferred_work_part(void);

/* In a forked child: resets the count of restarts. */
void sp_deferred_work_forked(void);

/*
 * APP. Writes the current state of this process into the region. all: counts all threads and open
 * spans now, because no later call follows; otherwise each call counts some of them.
 */
void sp_deferred_work_publish(bool all);

/*
 * Any context. Writes into the region whether other processes of our user may read this process;
 * the exporter then allows the same for itself. errno preserved.
 */
void sp_deferred_work_dumpable(void);

#endif
