/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lifecycle of the profiler in a process: what starts it, what each hook of the C library tells it, and
 * its end.
 */
#ifndef SP_LIFECYCLE_H
#define SP_LIFECYCLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/lifecycle/state.h"
#include "sampler/region/region.h"

/* INIT. Reads kill switches and remembers the environment. */
void sp_lifecycle_load(char *const *envp);

/* INIT, just before the host's main(). Starts where profiles are wanted from there on. */
void sp_lifecycle_main(void);

/*
 * APP, around a call by which the C library makes a thread for the program. A start may wait for the first one
 * (preload/exporter/trial.c), and sampling begins then. That it is made is noted before, because the new thread
 * may record a span before the call returns. errno preserved.
 */
bool sp_lifecycle_before_thread(void);
void sp_lifecycle_after_thread(bool is_first, bool is_made);

/*
 * Deferred work: what only a process itself can do, although it has no thread of ours: enrol threads that
 * no hook saw being created, settle CPU accounts, give up old spans, check the sampling signal. The
 * exporter asks for it by the work bits of the region, and the next hook of any thread does it.
 */

/* For the one below: an exporter that does not work yet was not checked just before. */
bool sp_deferred_work_may_check(void);

/*
 * APP, while sampling is on. Something is asked for, or the exporter does not work, and it is time
 * to see why.
 */
static inline bool sp_deferred_work_is_due(void)
{
	struct sp_region *r = sp_region_now();

	return atomic_load_explicit(&r->deferred_work, memory_order_relaxed) != 0 ||
	       (atomic_load_explicit(&r->exporter, memory_order_relaxed) != SP_EXPORTER_WORKING &&
		sp_deferred_work_may_check());
}

/*
 * APP, inside the reentrancy guard. Does what is asked for, unless another thread is doing it.
 * errno preserved.
 */
void sp_deferred_work_run(void);

/* For sp_lifecycle_start(): starts sampling, gives a forked child its region, or does deferred work. */
bool sp_lifecycle_start_or_work(void);

/*
 * APP, inside the reentrancy guard, at a recorded span. True when sampling is on; starts it at the first
 * call. False for ever when switched off or broken.
 */
static inline bool sp_lifecycle_start(void)
{
	return (sp_lifecycle_active() && !sp_deferred_work_is_due()) ||
	       sp_lifecycle_start_or_work();
}

/*
 * APP, inside the reentrancy guard, while active, in a call that records no span: does deferred work. True
 * while sampling is still on.
 */
static inline bool sp_lifecycle_work(void)
{
	if (sp_region_is_there() && sp_deferred_work_is_due())
		sp_deferred_work_run();
	return sp_lifecycle_active();
}

/*
 * The process is about to end: sends what there is, waiting at most the configured flush time, and
 * ends what this process has started (sp_exporter_finish()). From then on nothing is started. No-op
 * when never active, when it has been called before, and in a vfork child that shares our memory.
 * APP, any thread, also several at once.
 */
void sp_lifecycle_end(void);

/* The same, before the process executes another program. That may still fail. */
void sp_lifecycle_leave(void);

/*
 * APP, around a call by which the program installs a seccomp filter (sampler/base/seccomp.h). Before
 * it, all timers are deleted, the accounts are brought up to date while that is still possible, and
 * the filter counts as installed. After it, the timers are made again if the kernel refused the
 * filter; otherwise sampling is off for good.
 */
void sp_lifecycle_before_filter(void);
void sp_lifecycle_after_filter(bool refused);

/*
 * APP. The program is about to trace another process, and then waits for children of any kind, as debuggers do:
 * it would find the keeper. Profiling ends for good, as at the end of the process, and nothing is started
 * later. The first time it is told. errno preserved.
 */
void sp_lifecycle_trace(void);

/*
 * APP, and SIG at the first sample of a forked child; one thread at a time. A start of any kind has failed: of
 * sampling, of a forked child, of an exporter. True if it is to be tried again once sp_lifecycle_is_put_off() is
 * false; that is told the first time. False for an errno that does not pass, and after too many tries.
 */
bool sp_lifecycle_put_off(int err);

/* APP. It is too early to try again; a comparison of times. */
bool sp_lifecycle_is_put_off(void);

/* APP. The exporter works: what fails from now on has all tries. */
void sp_lifecycle_has_started(void);

/* What lifecycle.c asks of deferred_work.c besides. */

/*
 * The same contexts as sp_lifecycle_put_off(). The exporter of the region that is in use could not be started. True if
 * there will be another one, and sampling goes on until then; false after a message.
 */
bool sp_deferred_work_unborn(int err);

/* APP, before a flush: collects what was still written to the regions of former exporters. */
void sp_deferred_work_account(void);

/*
 * APP, after a flush: writes what the exporter has to tell and may not write itself. There may be no
 * later hook that could.
 */
void sp_deferred_work_tell(void);

/*
 * APP, inside the reentrancy guard, after a flush that no exporter answered. True if there is
 * another exporter now, which can be asked. If not, that is logged.
 */
bool sp_deferred_work_revive(void);

/*
 * APP. Waits until no thread does any of this, the start of another exporter included, and lets
 * none begin before sp_deferred_work_leave(). False if that took too long; then there is nothing to
 * leave.
 */
bool sp_deferred_work_keep_off(uint64_t most_ns);
void sp_deferred_work_leave(void);

/*
 * APP, one thread at a time. Enrols threads that no hook saw; if there are many, the next hook of any
 * thread goes on.
 */
void sp_deferred_work_scan(void);

/* APP. A seccomp filter of the program is in: sampling is off for good, and that is told. */
void sp_deferred_work_filtered(void);

/* Forked child: it has had no restart of its exporter. */
void sp_deferred_work_forked(void);

/* APP. Writes the current state of this process into the region, also before a flush. */
void sp_deferred_work_publish(void);

#endif
