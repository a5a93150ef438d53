/* SPDX-License-Identifier: Apache-2.0 */
/* See shown_label.h. Context: APP. */
#include "sampler/span/shown_label.h"

#include <string.h>

#include "sampler/open_spans/span_table.h"
#include "sampler/region/channel.h"
#include "sampler/region/names.h"
#include "sampler/span/active_span.h"

bool sp_shown_label_parts_only;
bool sp_shown_label_notes_waits;

void sp_shown_label_note_wait(uint32_t block)
{
	uint64_t id = sp_thread_labels_take_note(block);
	struct sp_span_record r;

	if (id != 0 && sp_span_table_by_id(id, &r))
		sp_span_table_note_wait(r.ref, id);
}

void sp_shown_label_put(struct sp_thread *t)
{
	struct sp_thread_label shown = {0};
	struct sp_span_label label;
	const struct sp_thread_labels_owner owner = {
		.block = t->index,
		.tid = atomic_load_explicit(&t->tid, memory_order_relaxed),
		.cpu_ns = atomic_load_explicit(&t->account.since_ns, memory_order_relaxed),
	};

	/* Before another label begins, of which the exporter may put down a wait, too. */
	if (sp_shown_label_notes_waits)
		sp_shown_label_note_wait(t->index);
	/* First: a span that another thread ends from now on makes the next call show the label again. */
	t->part.struck = atomic_load_explicit(&t->spans.struck, memory_order_relaxed);
	t->part.shown = t->part.root_id != 0 ? t->part.number : 0;
	sp_active_span_label(&t->spans, &label);
	shown.span_id = label.span_id;
	memcpy(shown.trace, label.trace_id, sizeof(shown.trace));
	shown.name_id = label.name_id;
	/* A trace alone is no label. */
	if (label.span_id == 0 && label.name_id == 0)
		shown = (struct sp_thread_label){0};
	else
		shown.part = t->part.shown;
	/* Where there is no room the exporter shows "(other)", and counts that, until a later label or sample tells it. */
	(void)sp_names_tell(sp_channel_now(), label.name_id);
	sp_thread_labels_put(&owner, &shown);
}
