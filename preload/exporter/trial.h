/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process may run below a seccomp filter that was installed before the program began, as in a
 * container or a systemd unit. A system call that this filter does not allow may kill the process,
 * and the kernel cannot be asked which calls these are. So before we make our first system call, a
 * short-lived child makes them all, with arguments for which they do nothing.
 */
#ifndef SP_TRIAL_H
#define SP_TRIAL_H

#include <stdbool.h>

/*
 * APP, once in a process, before sampling starts. True if there is no such filter, or it kills for
 * none of our calls (it may refuse them), or that cannot be tried. False after a message, if that
 * can be written: then the process must make none of our calls (sampler/base/seccomp.h). errno is not
 * preserved.
 */
bool sp_trial_passes(void);

#endif
