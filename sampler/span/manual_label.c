/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manual labels of the calling thread. Each push of the program enters a level, with a label or
 * without, so that every pop leaves the level of its own push. Context: APP.
 */
#include "sampler/span/manual_label.h"

#include <errno.h>
#include <string.h>

#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/span/shown_label.h"
#include "sampler/thread/thread.h"

static SP_TLS uint32_t level;
/*
 * Which levels have a label. The pop of a level without one must not remove the frame of a scope.
 */
static SP_TLS uint32_t labelled;
_Static_assert(SP_MANUAL_LABEL_DEPTH_MAX <= 32, "a bit for each");

static uint32_t bit_of_level(void)
{
	return UINT32_C(1) << (level - 1);
}

void sp_manual_label_enter(void)
{
	if (level < UINT32_MAX)
		level++;
}

int sp_manual_label_show(uint64_t id, uint32_t name_id)
{
	struct sp_thread *t = sp_thread_self();
	struct sp_span_entry e;
	struct sp_span_entry around;

	if (t == NULL) {
		sp_thread_count_missing();
		return -ENOSPC;
	}
	memset(&e, 0, sizeof(e));
	e.span_id = id;
	e.root_id = id;
	e.name_id = name_id;
	e.root_name_id = name_id;
	e.token = SP_MANUAL_LABEL_TOKEN + level;
	/* it is still work for the same trace */
	if (sp_span_stack_peek(&t->spans, &around))
		memcpy(e.trace_id, around.trace_id, sizeof(e.trace_id));
	if (level > SP_MANUAL_LABEL_DEPTH_MAX) {
		sp_count(SP_COUNT_SPAN_STACK_FULL);
		return -ENOSPC;
	}
	labelled |= bit_of_level();
	if (!sp_span_slot_is_deep(sp_span_stack_room(&t->spans))) {
		(void)sp_span_stack_push(&t->spans, &e);
		sp_shown_label_update(t);
		return 0;
	}
	/* The enclosing span must not get the samples of the label. */
	e.span_id = SP_SPAN_BLANK;
	(void)sp_span_stack_push(&t->spans, &e);
	sp_shown_label_update(t);
	sp_count(SP_COUNT_SPAN_STACK_FULL);
	return -ENOSPC;
}

bool sp_manual_label_leave(void)
{
	struct sp_thread *t = sp_thread_own;

	if (level == 0)
		return false;
	if (t != NULL && level <= SP_MANUAL_LABEL_DEPTH_MAX && (labelled & bit_of_level()) != 0) {
		labelled &= ~bit_of_level();
		(void)sp_span_stack_pop_token(&t->spans, SP_MANUAL_LABEL_TOKEN + level, false);
		sp_shown_label_update(t);
	}
	level--;
	return true;
}

uint64_t sp_manual_label_enclosing(const struct sp_span_stack *s)
{
	uint32_t d = atomic_load_explicit(&s->depth, memory_order_relaxed);

	while (d > 0) {
		const struct sp_span_frame *f = &s->frame[--d];
		uint64_t id = atomic_load_explicit(&f->span_id, memory_order_relaxed);

		if (id == SP_SPAN_BLANK)
			return 0;
		if (id != 0 &&
		    !sp_manual_label_is(atomic_load_explicit(&f->token, memory_order_relaxed)))
			return id;
	}
	return 0;
}
