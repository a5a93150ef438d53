/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the label of a thread to others: to the exporter, where waiting time is wanted
 * (sampler/region/thread_labels.h), and to profilers outside of the process (sampler/context/). To be called after
 * each change of the thread's active span. APP, the thread itself; errno untouched; no system call, but for a
 * clock of the vDSO where waiting time is wanted.
 */
#ifndef SP_SHOWN_LABEL_H
#define SP_SHOWN_LABEL_H

#include <stddef.h>

#include "sampler/context/thread_context.h"
#include "sampler/region/thread_labels.h"
#include "sampler/thread/thread.h"

void sp_shown_label_put(struct sp_thread *t);

static inline void sp_shown_label_update(struct sp_thread *t)
{
	if (t == NULL)
		return;
	if (sp_thread_labels_now() != NULL)
		sp_shown_label_put(t);
	sp_thread_context_changed(&t->context, &t->spans);
}

#endif
