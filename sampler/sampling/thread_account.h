/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of a thread: its CPU clock compared with the time that its samples stand for. The
 * clock is ahead if the thread lived between two samples, works in step with the kernel's tick, has
 * no timer or lost a sample. A record with the difference goes into the ring, so that the total of
 * a profile is the CPU time of the process.
 *
 * No clock is read when spans start and end, so a record has no label, except for threads that are
 * made for one task (sp_thread_account_end()). Context: APP unless another is named.
 */
#ifndef SP_THREAD_ACCOUNT_H
#define SP_THREAD_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/thread/thread.h"

/*
 * CPU time of all samples and records that found room in a ring, in all threads. The handler adds
 * to it, too.
 */
extern _Atomic uint64_t sp_thread_accounted_ns;

/* For the thread's handler: a sample was put that stands for ns of CPU time. */
static inline SP_SIGSAFE void sp_thread_account_sample(struct sp_thread_account *a, uint64_t ns,
						       bool labelled)
{
	if (!labelled)
		atomic_store_explicit(&a->outside, true, memory_order_relaxed);
	/*
	 * The process's sum is raised first: a thread that compares both sums finds the process's
	 * sum ahead, never behind.
	 */
	atomic_fetch_add_explicit(&sp_thread_accounted_ns, ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&a->settled_ns, ns, memory_order_relaxed);
}

/*
 * For the thread's handler, if its signal came late: how many periods of the sample a record has
 * covered already.
 */
static inline SP_SIGSAFE uint64_t sp_thread_account_recorded(struct sp_thread_account *a,
							     uint64_t period_ns)
{
	if (atomic_load_explicit(&a->told_ns, memory_order_relaxed) == 0)
		return 0;
	return atomic_exchange_explicit(&a->told_ns, 0, memory_order_relaxed) / period_ns;
}

/* For the thread's handler: a sample was lost. */
static inline SP_SIGSAFE void sp_thread_account_lost(struct sp_thread_account *a)
{
	atomic_store_explicit(&a->outside, true, memory_order_relaxed);
}

/* At activation: whether records have the thread's name. */
void sp_thread_account_init(bool thread_name);

/* At activation: excludes the CPU time of the process and of the calling thread up to now. */
void sp_thread_account_start(void);

/* Forked child, its only thread: accounts begin at the fork. */
void sp_thread_account_forked(void);

/*
 * Called by the thread t itself, when the thread or the process is about to end. A thread that
 * lives for a few milliseconds usually ends before its first sample, and its span ends before the
 * thread. If the thread was in just one local root in all its life, and no sample was taken outside
 * of that root, the rest of its CPU time goes to the root.
 */
void sp_thread_account_end(struct sp_thread *t);

/*
 * Called last in a thread: settles its account (but not below a seccomp filter), deletes its timer
 * and frees its block, if it has one. The thread is never enrolled again.
 */
void sp_thread_ended(void);

/*
 * About once a second. Settles threads whose samples are behind their clock by more than sampling
 * explains, some hundreds per call, and asks for a scan (SP_WORK_SCAN) if a thread is gone. After
 * the last block, writes a record for the remaining CPU time of the process: that of threads that
 * ended unseen, and of records that found no room in the ring. Does nothing while another thread
 * settles.
 */
void sp_thread_account_balance(void);

/* Before a flush: settles all threads and the process completely. */
void sp_thread_account_flush(void);

/* CPU time of the process since sp_thread_account_start(); 0 = unknown. */
uint64_t sp_thread_account_process_ns(void);

/* When sampling is given up: settles everything up to now; later time is not accounted for. */
void sp_thread_account_stop(void);

#endif
