/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the label of a thread to others: to the exporter, where waiting time is wanted
 * (sampler/region/thread_labels.h), and to profilers outside of the process (sampler/context/); and to the account
 * of the local root (span_times.h). To be called after each change of the thread's active span. APP, the thread
 * itself; errno untouched; no system call, but for a clock of the vDSO where waiting time is wanted, and where
 * span_times.h makes some.
 */
#ifndef SP_SHOWN_LABEL_H
#define SP_SHOWN_LABEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "sampler/base/compiler.h"
#include "sampler/context/thread_context.h"
#include "sampler/region/thread_labels.h"
#include "sampler/span/span_times.h"
#include "sampler/thread/thread.h"

/* Written at activation: it matters which spans have a wait in a profile (sp_span_table_note_wait()). */
SP_HIDDEN bool sp_shown_label_notes_waits;

/* Shows it to the exporter. */
void sp_shown_label_put(struct sp_thread *t);

/* For the one below: somebody wants to be told. */
void sp_shown_label_changed(struct sp_thread *t);

static inline __attribute__((always_inline)) void sp_shown_label_update(struct sp_thread *t)
{
	if (atomic_load_explicit(&sp_thread_labels_watchers, memory_order_relaxed) != 0 &&
	    t != NULL)
		sp_shown_label_changed(t);
}

#endif
