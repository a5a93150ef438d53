/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the exporter the label of a thread (sampler/region/thread_labels.h). To be called after each change of
 * the thread's active span. APP, the thread itself; errno untouched; no system call, but for a clock of the
 * vDSO where the label has changed.
 */
#ifndef SP_SHOWN_LABEL_H
#define SP_SHOWN_LABEL_H

#include <stddef.h>

#include "sampler/region/thread_labels.h"
#include "sampler/thread/thread.h"

void sp_shown_label_put(struct sp_thread *t);

static inline void sp_shown_label_update(struct sp_thread *t)
{
	if (sp_thread_labels_now() != NULL && t != NULL)
		sp_shown_label_put(t);
}

#endif
