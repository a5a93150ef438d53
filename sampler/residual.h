/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time that no sample stands for: a thread that lived between two samples, bursts in step with
 * the kernel's tick, a thread that blocks our signal, a sample that was dropped. What a thread's CPU
 * clock says and its samples do not goes into the ring as a record of its own, so that a profile's
 * total is the process's CPU time. Context: APP.
 */
#ifndef SP_RESIDUAL_H
#define SP_RESIDUAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/compiler.h"

struct sp_thread;

/* Part of a thread's block. */
struct sp_residual {
	_Atomic uint64_t since_ns;   /* the thread's CPU clock when counting began */
	_Atomic uint64_t settled_ns; /* what its samples and records stand for; also the handler */
	/* The span stack's version when the samples were last known not to be behind the clock. */
	_Atomic uint64_t even_version;
	_Atomic bool gap; /* since the last settlement */
};

/*
 * Any context: a sample was lost, or there is no timer. Some of what the thread lacks then lies before
 * its last sample, and nobody can tell in which span.
 */
static inline SP_SIGSAFE void sp_residual_gap(struct sp_residual *r)
{
	atomic_store_explicit(&r->gap, true, memory_order_relaxed);
}

/*
 * APP, at activation, a forked child's included: the CPU time of the process and of the calling
 * thread up to now is not ours to account for.
 */
void sp_residual_start(void);

/* APP: a block was bound to that thread. */
void sp_residual_begin(struct sp_thread *t, uint32_t tid);

/*
 * APP, calling thread: it or the process is about to end. What is its own goes under the spans that it
 * was used in, if that is known.
 */
void sp_residual_end(struct sp_thread *t);

/*
 * APP, about once a second: threads whose samples have fallen behind by more than sampling's own
 * uncertainty, some hundred at a time. No-op while another thread settles.
 */
void sp_residual_look(void);

/* APP, before a flush: everything, threads that ended without telling us included. */
void sp_residual_flush(void);

/* APP. CPU time of the process since sp_residual_start(); 0 if it cannot be told. */
uint64_t sp_residual_process_ns(void);

/* Forked child: whoever was settling is not here. */
void sp_residual_forked(void);

/* APP: sampling was given up. Settles everything up to now; what follows is nobody's to account for. */
void sp_residual_stop(void);

#endif
