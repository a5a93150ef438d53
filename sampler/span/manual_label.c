/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manual labels of the calling thread. Each push of the program enters a level, with a label or
 * without, so that every pop leaves the level of its own push. Context: APP.
 */
#include "sampler/span/manual_label.h"

#include <errno.h>

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
	bool fits;

	if (t == NULL) {
		sp_thread_count_missing();
		return -ENOSPC;
	}
	if (level > SP_MANUAL_LABEL_DEPTH_MAX) {
		sp_count(SP_COUNT_SPAN_STACK_FULL);
		return -ENOSPC;
	}
	labelled |= bit_of_level();
	/* If it does not fit, the enclosing span does not get the samples of the label either. */
	fits = sp_span_stack_push(&t->spans, id, sp_span_token_of_label(level, name_id));
	sp_span_stack_meet_root(&t->spans);
	sp_shown_label_update(t);
	if (!fits)
		sp_count(SP_COUNT_SPAN_STACK_FULL);
	return fits ? 0 : -ENOSPC;
}

bool sp_manual_label_leave(void)
{
	struct sp_thread *t = sp_thread_own;

	if (level == 0)
		return false;
	if (t != NULL && level <= SP_MANUAL_LABEL_DEPTH_MAX && (labelled & bit_of_level()) != 0) {
		labelled &= ~bit_of_level();
		(void)sp_span_stack_pop(&t->spans, sp_span_token_of_label(level, 0), false);
		sp_shown_label_update(t);
	}
	level--;
	return true;
}
