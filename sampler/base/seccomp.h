/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this process has installed a seccomp filter, or strict mode. From then on a system call
 * that the program itself does not make may kill it, and so may the return from a signal handler.
 * Only the program knows which calls its filter allows, and which a later filter will forbid. So
 * sampling ends for good before the first filter, and we make no system call any more: every
 * function that would make one asks here first. If the program installs its filter by a system call
 * instruction that no hook sees, timers remain, but their signals lead to no sample.
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

#include "sampler/base/compiler.h"
#include "sampler/base/syscall.h"

/*
 * As syscall(3), for all code in a host that may run after a filter was installed. Once a filter is
 * installed, it makes no system call and fails with ENOSYS.
 *
 * Three kinds of code may use sp_syscall_always() and sp_arch_syscall(), because there is no filter
 * or the filter does not matter:
 * - Code after a check of sp_seccomp_is_on() in the same function or in a caller, as at the start
 *   of sampling and of the exporter.
 * - Calls that end the thread or the process anyway.
 * - A child of ours that never runs the program's code, such as the one that becomes the exporter.
 */
#define sp_syscall(...) (sp_seccomp_is_on() ? sp_seccomp_refusal() : sp_syscall_always(__VA_ARGS__))

/* Filters that are installed, or that the program is about to install. */
extern _Atomic uint32_t sp_seccomp_filters;

/* Any context. Makes no system call. */
static inline SP_SIGSAFE bool sp_seccomp_is_on(void)
{
	return atomic_load_explicit(&sp_seccomp_filters, memory_order_relaxed) != 0;
}

static inline SP_SIGSAFE long sp_seccomp_refusal(void)
{
	errno = ENOSYS;
	return -1;
}

/*
 * APP, async-signal-safe. The program is about to install a filter; sp_seccomp_take_back() if the
 * kernel refused it.
 */
void sp_seccomp_begin(void);
void sp_seccomp_take_back(void);

#endif
