/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this process has put a seccomp filter over itself, or strict mode. From then on a system call
 * that the program does not make may end it, and nobody but the program knows which ones it foresaw. So
 * we make none any more: whoever would, asks here first and does without. The timers that are there go
 * on, and what they bring is written to memory.
 *
 * A filter may be meant for one thread, and is taken as the whole process's: which threads have it only
 * the kernel knows. Filters that were there before the program began, such as a container's, do not
 * count: they are made for programs that nobody knows.
 */
#ifndef SP_SECCOMP_H
#define SP_SECCOMP_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "sampler/compiler.h"

/*
 * As syscall(3), and the way of every call that we make in a host whose state this is. Below a filter it
 * is refused here, with ENOSYS, as if the filter had done it without harm. (Not a function: the C
 * library's takes "..." and hands on more than it was given.)
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
