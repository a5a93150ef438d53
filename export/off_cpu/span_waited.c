/* SPDX-License-Identifier: Apache-2.0 */
/* See span_waited.h. Context: the exporter. */
#include "export/off_cpu/span_waited.h"

void sp_span_waited_begin(struct sp_thread_waited *w, uint64_t part)
{
	if (part != w->part)
		*w = (struct sp_thread_waited){.part = part <= UINT32_MAX ? (uint32_t)part : 0};
}

void sp_span_waited_add(struct sp_thread_waited *w, const struct sp_thread_label *label,
			enum sp_waited what, uint64_t ns)
{
	if (label->part == w->part)
		w->ns[what] += ns;
}

void sp_span_waited_tell(struct sp_thread_waited *w, enum sp_waited last,
			 struct sp_thread_labels *labels)
{
	if (w->part == 0)
		return;
	w->last = last;
	sp_thread_labels_tell(labels, w);
}
