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

void sp_shown_label_put(struct sp_thread *t);

/* Written at activation: it matters which spans have a wait in a profile (sp_span_table_note_wait()). */
SP_HIDDEN bool sp_shown_label_notes_waits;

/*
 * Written at activation: nobody wants the labels but for the part of a root's time that is in them. Spans below the
 * root then change nothing.
 */
SP_HIDDEN bool sp_shown_label_parts_only;

/* The exporter knows already which part the thread is in. */
static inline bool sp_shown_label_goes_on(const struct sp_thread *t)
{
	return sp_shown_label_parts_only && t->part.root_id != 0 &&
	       t->part.shown == t->part.number &&
	       t->part.struck == atomic_load_explicit(&t->spans.struck, memory_order_relaxed);
}

static inline void sp_shown_label_update(struct sp_thread *t)
{
	if (t == NULL)
		return;
	/* First, because the label says which part of a root's time it is in. */
	sp_span_times_change(t);
	if (sp_thread_labels_now() != NULL && !sp_shown_label_goes_on(t))
		sp_shown_label_put(t);
	sp_thread_context_changed(&t->context, &t->spans);
}

#endif
