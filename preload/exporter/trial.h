/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process may run below a seccomp filter that was installed before the program began, as in a
 * container or a systemd unit. A system call that this filter does not allow may kill the process,
 * and the kernel cannot be asked which calls these are. So before we make our first system call, a
 * short-lived child makes them all, with arguments for which they do nothing.
 *
 * The call that makes the child cannot be tried like that. So nothing is started before the process
 * itself has made a thread or a fork, which shows that the filter lets it pass: glibc makes threads
 * by clone3(2) where it knows that, and forks by clone(2), and the child is made by the same call. A
 * filter that judges clone(2) by its flags may still answer ours in another way.
 */
#ifndef SP_TRIAL_H
#define SP_TRIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the process, or one that it was forked from, was seen to make. */
#define SP_TRIAL_THREAD 1U /* by the C library, see above */
#define SP_TRIAL_CLONE 2U  /* a fork, or a thread in another way: by clone(2) */
extern _Atomic uint32_t sp_trial_seen;

/* Any context. */
static inline void sp_trial_saw(uint32_t what)
{
	if ((atomic_load_explicit(&sp_trial_seen, memory_order_relaxed) & what) == 0)
		atomic_fetch_or_explicit(&sp_trial_seen, what, memory_order_relaxed);
}

enum sp_trial {
	/* There is no filter, or it kills for none of our calls (it may refuse them). */
	SP_TRIAL_PASSED,
	/* It would; told, if that can be. None of our calls may be made (sampler/base/seccomp.h). */
	SP_TRIAL_FAILED,
	/* Whether it kills for a clone is not known yet. To be asked again. */
	SP_TRIAL_UNKNOWN,
};

/* APP, one thread at a time, before sampling starts. errno is not preserved. */
enum sp_trial sp_trial_run(void);

/* APP. The last answer was SP_TRIAL_UNKNOWN, and nothing was seen since. */
bool sp_trial_is_unknown(void);

/* APP. The same, and it is too early to look again. */
bool sp_trial_is_put_off(void);

/* APP, at the end of the process: says that it was not profiled for that. */
void sp_trial_tell_unknown(void);

#endif
