/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The present label of each thread, for the exporter, which looks at waiting threads
 * (SPANPROF_OFF_CPU, SPANPROF_WALL) and cannot see their span stacks. The labels are a part of the
 * region with a place for each thread block. Without these options the part has no bytes, and a
 * change of the active span costs one load.
 *
 * Only the thread itself writes its label, without waiting, without a system call and, except for
 * the first label, without reading a clock. If another thread ends the label's span, it only
 * strikes the label. The exporter then treats the thread as having no label, although an outer span
 * on its stack may be active again.
 *
 * In the other direction, the exporter writes which span has a wait in a profile, for
 * SPANPROF_ATTRIBUTES=with-samples and for the link; the host checks whether it has such a span.
 *
 * Contexts: APP writes labels, the exporter reads them.
 */
#ifndef SP_THREAD_LABELS_H
#define SP_THREAD_LABELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/* As in a sample; all 0 = none. */
struct sp_thread_label {
	uint64_t span_id;
	uint64_t trace[2];
	uint64_t root_id;
	uint32_t name_id;
	uint32_t unused; /* 0, because labels are compared as bytes */
};

/* All words but the name. */
#define SP_THREAD_LABEL_WORDS (offsetof(struct sp_thread_label, name_id) / sizeof(uint64_t))

struct sp_thread_labels {
	_Atomic uint32_t tid; /* the thread's id; 0 = the thread has ended */
	_Atomic uint32_t n;   /* changes with each label; odd while one is being written */
	/* the number of a label whose span another thread has ended: it counts as no label */
	_Atomic uint32_t struck;
	_Atomic uint32_t name_id; /* name_id and word[] are the label */
	/*
	 * Set at the thread's first label: CLOCK_MONOTONIC minus the thread's CPU clock, at some
	 * time before.
	 */
	_Atomic uint64_t off_ns;
	/* written by the exporter: sp_thread_labels_put_wait(); 0 = none */
	_Atomic uint64_t waited_span;
	_Atomic uint64_t word[SP_THREAD_LABEL_WORDS];
};

_Static_assert(sizeof(struct sp_thread_labels) == 64, "no two threads share a cache line");

struct sp_thread_labels_part {
	_Atomic uint32_t used; /* number of places in use: all block numbers are below */
	uint32_t pad[15];
	struct sp_thread_labels thread[];
};

/* The size of the part for that many threads. */
#define SP_THREAD_LABELS_BYTES(threads)                                                            \
	(sizeof(struct sp_thread_labels_part) +                                                    \
	 (uint64_t)(threads) * sizeof(struct sp_thread_labels))

/*
 * The readers of each change of an active span: a bit for each, so that a start or an end of a span
 * reads one word.
 */
enum sp_thread_labels_watcher {
	SP_THREAD_LABELS_EXPORTER = 1 << 0, /* these labels */
	SP_THREAD_LABELS_CONTEXT = 1 << 1,  /* thread_context.h */
	SP_THREAD_LABELS_TIMES = 1 << 2,    /* span_times.h */
};
SP_HIDDEN _Atomic unsigned sp_thread_labels_watchers;

static inline void sp_thread_labels_watch(enum sp_thread_labels_watcher who, bool wants)
{
	if (wants)
		atomic_fetch_or_explicit(&sp_thread_labels_watchers, who, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&sp_thread_labels_watchers, ~(unsigned)who,
					  memory_order_relaxed);
}

/* The part of this host; NULL = nobody reads labels. Any context. */
SP_HIDDEN _Atomic(struct sp_thread_labels_part *) sp_thread_labels_part;

static inline struct sp_thread_labels_part *sp_thread_labels_now(void)
{
	/* pairs with the release in sp_thread_labels_use() */
	return atomic_load_explicit(&sp_thread_labels_part, memory_order_acquire);
}

/* APP, INIT. Uses that part, all zero at first, from now on; NULL = none. */
void sp_thread_labels_use(void *part, uint64_t bytes);

struct sp_thread_labels_owner {
	uint32_t block;
	uint32_t tid;
	uint64_t cpu_ns; /* its CPU clock at some time before its first label */
};

/* APP, on the thread itself. Sets its label; does nothing if the label is the same. */
void sp_thread_labels_put(const struct sp_thread_labels_owner *who,
			  const struct sp_thread_label *label);

/* APP. Another thread has ended a span of the thread with that block. */
void sp_thread_labels_strike(uint32_t block);

/* APP. The thread with that block has ended. */
void sp_thread_labels_end(uint32_t block);

/*
 * The exporter has put a wait of the thread into a profile, with that span's id and the thread's
 * present label.
 */
void sp_thread_labels_put_wait(struct sp_thread_labels *to, uint64_t span_id);

/*
 * APP. The span id of the last such wait since the previous call; 0 = none. The exporter is not
 * trusted: the id may be any number.
 */
uint64_t sp_thread_labels_take_wait(uint32_t block);

/* The exporter's copy of a place. */
struct sp_thread_labels_copy {
	uint32_t tid;
	uint32_t n; /* as in the place: while it is the same, the label has not changed */
	uint64_t off_ns;
	struct sp_thread_label label;
};

/*
 * The exporter. Copies a place that the host may be writing at this moment, or may never have
 * written. False if the label was being written: the thread runs.
 */
bool sp_thread_labels_copy(const struct sp_thread_labels *from, struct sp_thread_labels_copy *out);

#endif
