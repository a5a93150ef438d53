/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the profiler in one process: asleep until the first recorded span, then active until
 * exit; a forked child starts over.
 */
#ifndef SP_LIFE_H
#define SP_LIFE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "sampler/config.h"

/* INIT. Reads kill switches and remembers the environment. */
void sp_life_load(char *const *envp);

/* INIT, just before the host's main(). Starts when SPANPROF_PROFILE=always. */
void sp_life_main(void);

/*
 * APP, inside the guard, at a recorded span. True when sampling is on; starts it at the first call.
 * False for ever when switched off or broken.
 */
bool sp_life_start(void);

enum sp_life_state {
	SP_LIFE_OFF,      /* kill switch, AT_SECURE, or before our constructor */
	SP_LIFE_ASLEEP,   /* waiting for the first recorded span */
	SP_LIFE_STARTING, /* one thread is setting up */
	SP_LIFE_ACTIVE,
	SP_LIFE_STOPPED, /* sampling was given up; what it has brought is still to be sent */
	SP_LIFE_FAILED,
};
/* Written by life.c alone; every hooked call asks. */
extern _Atomic int sp_life_state;

/* Not switched off and not broken: a recorded span would start or find us. APP. */
static inline bool sp_life_wanted(void)
{
	int now = atomic_load_explicit(&sp_life_state, memory_order_relaxed);

	return now != SP_LIFE_OFF && now != SP_LIFE_STOPPED && now != SP_LIFE_FAILED;
}

/* Sampling is on. Any context. */
static inline bool sp_life_active(void)
{
	/* pairs with start_by_winner(): the tables before "active" */
	return atomic_load_explicit(&sp_life_state, memory_order_acquire) == SP_LIFE_ACTIVE;
}

/* Parsed configuration; valid once sp_life_start() returned true. */
const struct sp_config *sp_life_config(void);

/*
 * The process is about to end: sends what there is, waiting at most the configured flush time. No-op
 * when never active, and in a vfork child that shares our memory. APP.
 */
void sp_life_flush(void);

/* The same, before another program takes the process over. It may still fail to. */
void sp_life_leave(void);

/* The last flush: as sp_life_flush(), which does nothing from then on. At exit. */
void sp_life_end(void);

/*
 * APP, around a call by which the program puts a filter over itself (sampler/seccomp.h), under which
 * signal handlers may return or not. Before it the accounts are brought up to date as long as that can be
 * done, where handlers may not return all timers go, and from then on the filter counts as being there.
 * Afterwards the timers are there again, if it was refused, or sampling is off for good.
 */
void sp_life_before_filter(bool handlers_return);
void sp_life_after_filter(bool handlers_return, bool refused);

/* APP. Turns sampling off for good; what it has brought is still sent, and the host runs on. */
void sp_life_stop(void);

/* APP. The same, with nobody left to send what was sampled. */
void sp_life_fail(void);

#endif
