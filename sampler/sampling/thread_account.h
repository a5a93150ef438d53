/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of a thread: its CPU clock compared with the time that its samples stand for. The
 * clock is ahead if the thread lived between two samples, works in step with the kernel's tick,
 * has no timer or lost a sample. The difference goes into the ring as a record of its own, so
 * that the total of a profile is the CPU time of the process.
 *
 * No clock is read where spans start and end, so a record has no label, except for threads that are
 * made for one task (sp_thread_account_end()). Context: APP unless it says otherwise.
 */
#ifndef SP_THREAD_ACCOUNT_H
#define SP_THREAD_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/thread/thread.h"

/*
 * CPU time of all samples and records that found room in a ring, of all threads. Also written by
 * the handler.
 */
extern _Atomic uint64_t sp_thread_accounted_ns;

/* The thread's handler: a sample that stands for so much CPU time was put, with a label or without. */
static inline SP_SIGSAFE void sp_thread_account_sample(struct sp_thread_account *a, uint64_t ns,
						       bool labelled)
{
	if (!labelled)
		atomic_store_explicit(&a->outside, true, memory_order_relaxed);
	/* In this order another thread that compares them finds the process's account ahead, not behind. */
	atomic_fetch_add_explicit(&sp_thread_accounted_ns, ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&a->settled_ns, ns, memory_order_relaxed);
}

/*
 * The thread's handler: how many of the periods that a sample stands for were told meanwhile, because its signal came
 * late.
 */
static inline SP_SIGSAFE uint64_t sp_thread_account_told(struct sp_thread_account *a,
							 uint64_t period_ns)
{
	if (atomic_load_explicit(&a->told_ns, memory_order_relaxed) == 0)
		return 0;
	return atomic_exchange_explicit(&a->told_ns, 0, memory_order_relaxed) / period_ns;
}

/* The thread's handler: a sample was lost. */
static inline SP_SIGSAFE void sp_thread_account_lost(struct sp_thread_account *a)
{
	atomic_store_explicit(&a->outside, true, memory_order_relaxed);
}

/* At activation: whether records carry the thread's name. */
void sp_thread_account_init(bool thread_name);

/*
 * At activation: the CPU time of the process and of the calling thread up to now is not ours to
 * account for.
 */
void sp_thread_account_start(void);

/* Forked child, its only thread: all of its CPU time is, from the fork on. */
void sp_thread_account_forked(void);

/*
 * About once a second: settles threads whose samples have fallen behind their clock by more than
 * sampling explains, at most some hundreds at a time, and asks for a scan (SP_WORK_SCAN) where one of them
 * is gone. Once all were looked at, the process is settled: threads that ended unseen, and what found no room in the
 * ring. Does nothing while another thread settles.
 */
void sp_thread_account_look(void);

/* Before a flush: settles all threads, and the process, to the last nanosecond. */
void sp_thread_account_flush(void);

/* CPU time of the process since sp_thread_account_start(); 0 if it cannot be told. */
uint64_t sp_thread_account_process_ns(void);

/* Sampling was given up. Settles everything up to now; what follows is nobody's to account for. */
void sp_thread_account_stop(void);

#endif
