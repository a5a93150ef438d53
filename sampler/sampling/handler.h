/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampling signal handler. A thread's CPU timer sends our signal to that thread, and the
 * handler writes one sample: the frames of the stack and the label of the active span. Context:
 * SIG.
 */
#ifndef SP_HANDLER_H
#define SP_HANDLER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

struct sp_sample;
struct sp_span_label;
struct sp_thread;

/*
 * The handler's settings. Written at activation, before the first timer starts; read-only
 * afterwards.
 */
struct sp_handler_setup {
	bool always_snapshot; /* never walk here, always copy a snapshot for the exporter */
	uint32_t cookie;      /* upper half of our timers' si_value */
	uint32_t depth;       /* at most this many frames per sample */
	uint64_t period_ns;
	bool thread_name;
	bool note_samples; /* mark in the span table which spans have samples */
	/*
	 * Gives a forked child a region, if that is possible now. The handler calls this function
	 * if there is no region; NULL = there is no such function.
	 */
	void (*begin)(void);
	/*
	 * Scans for threads without timers (SP_WORK_SCAN_NOW), if that is possible now; the calling
	 * thread gets a timer, too. NULL = there is no such function.
	 */
	void (*scan)(void);
};
extern struct sp_handler_setup sp_handler_setup;

SP_SIGSAFE void sp_handler(int signo, siginfo_t *si, void *ucontext);

/* Writes the labels of span and thread into a sample that the calling thread takes of itself. */
SP_SIGSAFE void sp_sample_label(const struct sp_thread *t, struct sp_sample *s,
				struct sp_span_label *label);

/*
 * Free bytes of the calling thread's stack below that frame; SIZE_MAX = the size of the stack is
 * unknown.
 */
SP_SIGSAFE size_t sp_thread_stack_room(const struct sp_thread *t, const void *frame);

#endif
