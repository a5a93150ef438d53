/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which label each thread had when, for the exporter, which looks at waiting threads (SPANPROF_OFF_CPU,
 * SPANPROF_WALL, SPANPROF_SPAN_TIMES) and cannot see their span stacks. A part of the region with a place for
 * each thread block. Without these options the part has no bytes, and a change of the active span costs one
 * load.
 *
 * A place keeps the thread's last labels, each with the moment at which it began. Only the thread itself
 * adds to them, without waiting and without a system call. Another thread that ends a span here notes just
 * when it did so: the exporter then takes that label for ended, though what lies below it on the stack may
 * be active again.
 *
 * The other way round, the exporter tells a thread what it has waited for since its present local root became
 * active there, as far as that was seen (struct sp_thread_waited). The host believes it only as far as it can
 * do no harm: as parts of a time that the thread has measured itself. And it tells which span has a wait in a
 * profile, for SPANPROF_ATTRIBUTES=with-samples; the host looks whether it has such a span.
 *
 * Contexts: APP writes labels and reads what was waited for, the exporter does the opposite. Times are
 * CLOCK_MONOTONIC in nanoseconds.
 */
#ifndef SP_THREAD_LABELS_H
#define SP_THREAD_LABELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/* One of them may be half written while it is read, so one less is known. */
#define SP_THREAD_LABELS_KEPT 16U

struct sp_thread_label {
	uint64_t since_ns;
	uint64_t span_id; /* this, trace_id and name_id as in a sample; all 0 = none */
	uint64_t trace[2];
	uint64_t name_id;
	/* The number of the part of a local root's time on this thread (span_times.h); 0 = none. */
	uint64_t part;
};

#define SP_THREAD_LABEL_WORDS (sizeof(struct sp_thread_label) / sizeof(uint64_t))

/* What a thread waited for. */
enum sp_waited {
	SP_WAITED_CPU,
	SP_WAITED_LOCK, /* mutexes, condition variables, semaphores, locks on files */
	SP_WAITED_IO,   /* sockets, pipes, files, and events of them */
	SP_WAITED_OTHER,
	SP_WAITED_UNKNOWN, /* not for a processor, and for what was not seen */
	SP_WAITED_N
};

/* In one part of a local root's time, which lies on one thread. */
struct sp_thread_waited {
	uint32_t part;
	/* enum sp_waited: what it was in when it was last seen; SP_WAITED_N = in no wait. */
	uint32_t last;
	uint64_t ns[SP_WAITED_N];
};

struct sp_thread_labels {
	_Atomic uint32_t tid;   /* whose labels these are; 0 = the thread has ended */
	_Atomic uint32_t n;     /* labels ever begun; number i lies at i % SP_THREAD_LABELS_KEPT */
	_Atomic uint32_t first; /* number of this thread's first label */
	uint32_t unused;
	_Atomic uint64_t struck_ns; /* when another thread last ended a span of this one */
	_Atomic uint64_t cpu_ns;    /* the thread's CPU clock at some time before its first label */
	_Atomic uint64_t word[SP_THREAD_LABELS_KEPT][SP_THREAD_LABEL_WORDS];
	uint64_t pad[4];

	/* Written by the exporter. */
	_Atomic uint32_t waited_part; /* what follows is of this part; 0 = it is being written */
	_Atomic uint32_t waited_last; /* enum sp_waited, of the last wait */
	_Atomic uint64_t waited_ns[SP_WAITED_N];
	_Atomic uint64_t waited_span; /* see sp_thread_labels_note_wait(); 0 = none */
	uint64_t waited_pad;
};

_Static_assert(sizeof(struct sp_thread_labels) % 64 == 0, "no two threads share a cache line");

struct sp_thread_labels_part {
	_Atomic uint32_t used; /* places in use: all numbers are below */
	uint32_t pad[15];
	struct sp_thread_labels thread[];
};

/* The size of the part for so many threads. */
#define SP_THREAD_LABELS_BYTES(threads)                                                            \
	(sizeof(struct sp_thread_labels_part) +                                                    \
	 (uint64_t)(threads) * sizeof(struct sp_thread_labels))

/*
 * Who has to be told of each change of an active span: a bit for each, so that a start or an end of a span looks at
 * one word.
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

/* The host's part; NULL = nobody wants to know. Any context. */
SP_HIDDEN _Atomic(struct sp_thread_labels_part *) sp_thread_labels_part;

static inline struct sp_thread_labels_part *sp_thread_labels_now(void)
{
	/* pairs with the release in sp_thread_labels_use() */
	return atomic_load_explicit(&sp_thread_labels_part, memory_order_acquire);
}

/* APP, INIT. That part is used from now on, which is all zero at first; NULL = none. */
void sp_thread_labels_use(void *part, uint64_t bytes);

struct sp_thread_labels_owner {
	uint32_t block;
	uint32_t tid;
	uint64_t cpu_ns; /* as in struct sp_thread_labels */
};

/* APP, the thread itself. Its label is this from now on; since_ns is filled in. No-op if it was so before. */
void sp_thread_labels_put(const struct sp_thread_labels_owner *who, struct sp_thread_label *label);

/* APP. Another thread has ended a span of the thread with that block. */
void sp_thread_labels_strike(uint32_t block);

/* APP. The thread with that block has ended. */
void sp_thread_labels_end(uint32_t block);

/*
 * APP, the thread itself: what the exporter has told about that part. False if it has told nothing yet. Any
 * numbers, but for *out->part.
 */
bool sp_thread_labels_waited(uint32_t block, uint32_t part, struct sp_thread_waited *out);

/* The exporter. Tells it. */
void sp_thread_labels_tell(struct sp_thread_labels *to, const struct sp_thread_waited *w);

/* The exporter: a wait of the thread, under the label that it has now, was put into a profile with that span's id. */
void sp_thread_labels_note_wait(struct sp_thread_labels *to, uint64_t span_id);

/* APP. The id of the span that such a wait was last noted of since the last call, 0 = none. Any number. */
uint64_t sp_thread_labels_take_note(uint32_t block);

/* What the exporter makes of a place. */
struct sp_thread_labels_copy {
	uint32_t tid;
	uint32_t n;     /* as in the place */
	uint32_t first; /* number of label[0]; those before are forgotten */
	uint32_t labels;
	uint64_t struck_ns;
	uint64_t cpu_ns;
	struct sp_thread_label label[SP_THREAD_LABELS_KEPT];
};

/* The exporter. Copies what the host may be writing at this moment, or may never have written. */
void sp_thread_labels_copy(const struct sp_thread_labels *from, struct sp_thread_labels_copy *out);

#endif
