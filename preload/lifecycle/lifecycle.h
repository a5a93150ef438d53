/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lifecycle of the profiler in a process: what starts it, what each hook of the C library tells it, and
 * its end.
 */
#ifndef SP_LIFECYCLE_H
#define SP_LIFECYCLE_H

#include <stdbool.h>

#include "preload/lifecycle/deferred_work.h"
#include "preload/lifecycle/state.h"

/* INIT. Reads kill switches and remembers the environment. */
void sp_lifecycle_load(char *const *envp);

/* INIT, just before the host's main(). Starts where profiles are wanted from there on: wants_start(). */
void sp_lifecycle_main(void);

/*
 * APP, while asleep: the C library has made a thread for the program. Starts sampling if that is what a
 * start has waited for (preload/exporter/trial.h). errno preserved.
 */
void sp_lifecycle_made_thread(void);

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

#endif
