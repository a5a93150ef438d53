/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before a thread's active span changes: whoever keeps account of what it was, while it can still be
 * told. Here, because most changes need nobody: time by span is kept only where it is asked for, and
 * turns only until there are too many since the last sample. APP context, calling thread.
 */
#ifndef SP_ACTIVE_CHANGE_H
#define SP_ACTIVE_CHANGE_H

#include <stdatomic.h>
#include <stddef.h>

#include "sampler/span_cpu.h"
#include "sampler/thread.h"
#include "sampler/turns.h"

/* t: the calling thread's block, or NULL if it has none. */
static inline void sp_active_change(struct sp_thread *t)
{
	if (t == NULL)
		return;
	if (atomic_load_explicit(&sp_span_cpu_on, memory_order_relaxed))
		sp_span_cpu_change(t);
	if (atomic_load_explicit(&t->turns.n, memory_order_relaxed) <= SP_TURNS_MAX)
		sp_turns_change(t);
}

#endif
