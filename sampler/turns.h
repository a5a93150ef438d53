/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it was on a thread since its last sample: the CPU clock at the first changes of the
 * active span after it. What no sample stands for (residual.h) is told by this to which span it
 * belongs. A sample makes it start over, so that the system calls it takes are few, however many
 * spans there are. Written by the owning thread and, for the start over, by its handler.
 */
#ifndef SP_TURNS_H
#define SP_TURNS_H

#include <stdatomic.h>
#include <stdint.h>

/* A root span with a child is four changes. */
#define SP_TURNS_MAX 4U

/* What a sample is labelled with; all 0 = nothing. */
struct sp_turn_label {
	uint64_t span_id;
	uint8_t trace_id[16];
	uint32_t name_id;
};

struct sp_turn {
	uint64_t until_ns; /* the thread's CPU clock when it was over */
	struct sp_turn_label label;
};

/* Part of a thread's block. */
struct sp_turns {
	_Atomic uint32_t n; /* SP_TURNS_MAX + 1: there were more */
	struct sp_turn turn[SP_TURNS_MAX];
};

struct sp_thread;

/* The handler, or whoever binds a block. */
static inline void sp_turns_restart(struct sp_turns *s)
{
	atomic_store_explicit(&s->n, 0, memory_order_relaxed);
}

/* APP, calling thread, which may have no block: its active span is about to change. */
void sp_turns_change(struct sp_thread *t);

/*
 * APP, calling thread, its handler kept out. Shares ns, the last that the thread used before now,
 * out to whose turn it was; what was nobody's, or is not known, comes with an empty label.
 */
void sp_turns_share(const struct sp_thread *t, uint64_t now, uint64_t ns,
		    void (*give)(void *arg, const struct sp_turn_label *label, uint64_t ns),
		    void *arg);

#endif
