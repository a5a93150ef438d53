/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps forks and sections that they must not divide apart (fork_barrier.h). APP context. */
#define _GNU_SOURCE
#include "preload/elf/fork_barrier.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "sampler/base/compiler.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/seccomp.h"

#define WAIT_NS SP_NS_PER_S

/* glibc: nptl/register-atfork.c; what pthread_atfork() calls. Absent from other C libraries. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static _Atomic unsigned inside;  /* sections of all threads */
static _Atomic unsigned forking; /* threads between prepare and the end of their fork */
/*
 * Sections that will never end, because their thread was cancelled in it, or has jumped out of a
 * signal handler. Each of them holds up one fork, not all that follow.
 */
static _Atomic unsigned lost;

/* A signal handler of the host may interrupt a section, or a fork, and call us. */
static SP_TLS unsigned own_sections;
static SP_TLS unsigned own_forks;

static bool is_over(uint64_t end)
{
	(void)sp_syscall(SYS_sched_yield);
	return sp_monotonic_ns() >= end;
}

/* seq_cst, as in before_fork(): either the fork sees that we are inside, or we see that it is coming. */
static bool begin(void)
{
	atomic_fetch_add_explicit(&inside, 1, memory_order_seq_cst);
	if (own_forks != 0 || atomic_load_explicit(&forking, memory_order_seq_cst) == 0)
		return true;
	atomic_fetch_sub_explicit(&inside, 1, memory_order_release);
	return false;
}

static __attribute__((noinline, cold)) void begin_after_forks(void)
{
	uint64_t end = sp_monotonic_ns() + WAIT_NS;

	while (!is_over(end)) {
		if (begin())
			return;
	}
	atomic_fetch_add_explicit(&inside, 1, memory_order_seq_cst);
}

void sp_fork_barrier_enter(void)
{
	if (own_sections == 0 && !begin())
		begin_after_forks();
	own_sections++;
}

void sp_fork_barrier_leave(void)
{
	if (--own_sections == 0)
		atomic_fetch_sub_explicit(&inside, 1, memory_order_release);
}

int sp_fork_barrier_walk(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg)
{
	int result;

	sp_fork_barrier_enter();
	result = dl_iterate_phdr(visit, arg);
	sp_fork_barrier_leave();
	return result;
}

static void before_fork(void)
{
	uint64_t end = sp_monotonic_ns() + WAIT_NS;
	unsigned own = own_sections != 0;
	unsigned now;
	int saved = errno;

	own_forks++;
	own += atomic_load_explicit(&lost, memory_order_relaxed);
	atomic_fetch_add_explicit(&forking, 1, memory_order_seq_cst);
	while ((now = atomic_load_explicit(&inside, memory_order_seq_cst)) > own) {
		if (is_over(end)) {
			atomic_store_explicit(&lost, now - (own_sections != 0),
					      memory_order_relaxed);
			break;
		}
	}
	errno = saved;
}

static void after_fork(void)
{
	own_forks--;
	atomic_fetch_sub_explicit(&forking, 1, memory_order_release);
}

/* There is one thread. */
static void after_fork_in_child(void)
{
	own_forks = 0;
	atomic_store_explicit(&forking, 0, memory_order_relaxed);
	atomic_store_explicit(&inside, own_sections != 0, memory_order_relaxed);
	atomic_store_explicit(&lost, 0, memory_order_relaxed);
}

void sp_fork_barrier_start(void)
{
	static _Atomic bool started;

	if (__register_atfork == NULL || atomic_load_explicit(&started, memory_order_relaxed) ||
	    atomic_exchange_explicit(&started, true, memory_order_relaxed))
		return;
	(void)__register_atfork(before_fork, after_fork, after_fork_in_child, &__dso_handle);
}
