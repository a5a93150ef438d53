/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Below a seccomp filter from before the program, as in a container or a systemd unit, a system call that
 * it does not foresee may be the end of the process, and nobody can ask which ones those are. So before
 * the first of ours a child of one moment makes them all, in ways that do nothing.
 */
#ifndef SP_TRIAL_H
#define SP_TRIAL_H

#include <stdbool.h>

/*
 * APP, once a process, before sampling starts. True if there is no such filter, or it ends nobody for
 * our calls (it may refuse them), or that cannot be tried. False after a message, where that can be
 * written: then the process must make no call of ours (sampler/seccomp.h). errno is not preserved.
 */
bool sp_trial_passes(void);

#endif
