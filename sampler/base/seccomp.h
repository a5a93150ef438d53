/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this process has put a seccomp filter over itself, or strict mode. From then on a system
 * call that the program does not make itself may kill it, the return from a signal handler included,
 * and only the program knows which calls it allows, and which a later filter will forbid. So sampling
 * ends for good before the first filter, and we make no system call any more: every place that would
 * make one asks here first and does without. A timer that is there nevertheless, because the program
 * installed its filter by a system call instruction that no hook saw, leads to no sample.
 *
 * A filter may be meant for one thread, but counts for the whole process here, because only the
 * kernel knows which threads have it. Filters that existed before the program began, such as a
 * container's, do not count: they are made for arbitrary programs.
 */
#ifndef SP_SECCOMP_H
#define SP_SECCOMP_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "sampler/base/compiler.h"

/*
 * As syscall(3), for every place in a host that may run while a filter is in: below a filter the call
 * fails here with ENOSYS, as if the filter had refused it harmlessly. (Not a function, because the C
 * library's takes "..." and passes on more arguments than it was given.)
 *
 * A system call may be made without this macro only where no filter can be in or none matters any
 * more: where sp_seccomp_is_on() was asked on the way there, in the same function or by a caller, as
 * at the start of sampling and of the exporter; where the call ends the thread or the process anyway;
 * and in a child of ours that never runs the program's code, such as the one that becomes the exporter.
 */
#define sp_syscall(...) (sp_seccomp_is_on() ? sp_seccomp_refusal() : syscall(__VA_ARGS__))

/* Filters that are in, or about to go in. */
extern _Atomic uint32_t sp_seccomp_filters;

/* Any context. No system call of ours. */
static inline SP_SIGSAFE bool sp_seccomp_is_on(void)
{
	return atomic_load_explicit(&sp_seccomp_filters, memory_order_relaxed) != 0;
}

static inline SP_SIGSAFE long sp_seccomp_refusal(void)
{
	errno = ENOSYS;
	return -1;
}

/* APP, async-signal-safe. A filter is about to go in; taken back if the kernel refuses it. */
void sp_seccomp_begin(void);
void sp_seccomp_take_back(void);

#endif
