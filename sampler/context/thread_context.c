/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the records of the thread context, and decides whether this process publishes
 * (thread_context.h). Context: APP, calling thread.
 *
 * A reader stops the thread between any two instructions. So a record is invalid while its ids
 * change, and only the compiler has to be kept from reordering.
 */
#include "sampler/context/thread_context.h"

#include <errno.h>
#include <string.h>

#include "sampler/base/log.h"
#include "sampler/base/text.h"
#include "sampler/config/config.h"
#include "sampler/context/process_context.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/thread_labels.h"

#define FLAG_SAMPLED 1U /* a span that is not sampled is not recorded, and never gets here */

_Atomic bool sp_thread_context_on;
_Atomic uint32_t sp_thread_context_turn = 1;

static struct {
	const struct sp_config *config;
	_Atomic uint32_t is; /* enum sp_region_context */
	_Atomic bool begun;  /* a thread is publishing the process context, or has */
	_Atomic bool alone;  /* it is the only one of this process, or nobody could tell */
} state;

static void set_state(enum sp_region_context now)
{
	atomic_store_explicit(&state.is, (uint32_t)now, memory_order_relaxed);
}

enum sp_region_context sp_thread_context_state(void)
{
	return (enum sp_region_context)atomic_load_explicit(&state.is, memory_order_relaxed);
}

enum sp_region_context sp_thread_context_told(void)
{
	enum sp_region_context is = sp_thread_context_state();

	return is != SP_CONTEXT_PUBLISHED &&
			       atomic_load_explicit(&sp_foreign_context_seen, memory_order_relaxed)
		       ? SP_CONTEXT_READ
		       : is;
}

/* Each thread looks at the state again, at its next change. */
static void next_turn(void)
{
	if (atomic_fetch_add_explicit(&sp_thread_context_turn, 1, memory_order_relaxed) ==
	    UINT32_MAX)
		atomic_store_explicit(&sp_thread_context_turn, 1, memory_order_relaxed);
}

void sp_thread_context_init(const struct sp_config *config, bool is_programs)
{
	bool wanted = config->thread_context;

	state.config = config;
	set_state(!wanted ? SP_CONTEXT_OFF : is_programs ? SP_CONTEXT_FOREIGN : SP_CONTEXT_WAITING);
	atomic_store_explicit(&state.begun, false, memory_order_relaxed);
	atomic_store_explicit(&state.alone, false, memory_order_relaxed);
	atomic_store_explicit(&sp_thread_context_on, wanted && !is_programs, memory_order_relaxed);
	sp_thread_labels_watch(SP_THREAD_LABELS_CONTEXT, wanted && !is_programs);
	if (wanted && is_programs)
		sp_log(SP_LOG_WARN,
		       "SPANPROF_THREAD_CONTEXT=true: the program defines " SP_CONTEXT_SYMBOL
		       " itself; not publishing");
}

/* Somebody else publishes, or the kernel refuses. */
static void give_up(enum sp_region_context why)
{
	bool published = sp_thread_context_state() == SP_CONTEXT_PUBLISHED;

	set_state(why);
	sp_log(SP_LOG_WARN, "SPANPROF_THREAD_CONTEXT=true: %s; not publishing",
	       why == SP_CONTEXT_FOREIGN ? "another library publishes its own"
					 : "the process context cannot be published");
	if (!published) {
		atomic_store_explicit(&sp_thread_context_on, false, memory_order_relaxed);
		return;
	}
	sp_process_context_withdraw();
	next_turn();
}

/* The thread's variable does not name its record any more. */
static void hide(struct sp_thread_context *c)
{
	void *_Atomic *slot;

	if (c->shown == 0)
		return;
	slot = sp_context_slot();
	c->shown = 0;
	if (atomic_load_explicit(slot, memory_order_relaxed) == &c->record)
		atomic_store_explicit(slot, NULL, memory_order_relaxed);
}

/*
 * The first thread with a span publishes the process context. Another one that comes meanwhile does
 * not wait, and shows its record at its next change.
 */
static bool begin(void)
{
	int err;

	if (sp_thread_context_state() == SP_CONTEXT_PUBLISHED)
		return true;
	if (sp_thread_context_state() != SP_CONTEXT_WAITING ||
	    atomic_exchange_explicit(&state.begun, true, memory_order_relaxed))
		return false;
	err = sp_process_context_publish(state.config);
	if (err == 0)
		set_state(SP_CONTEXT_PUBLISHED);
	else
		give_up(err == -EEXIST ? SP_CONTEXT_FOREIGN : SP_CONTEXT_REFUSED);
	return err == 0;
}

/*
 * Reading all mappings takes longer than all else at a first span, so it is done later: until then two
 * may be published where a program makes its own without the C library.
 */
void sp_thread_context_look(void)
{
	uintptr_t at = 0;

	if (sp_thread_context_state() != SP_CONTEXT_PUBLISHED ||
	    atomic_exchange_explicit(&state.alone, true, memory_order_relaxed))
		return;
	if (sp_process_context_find_other(&at))
		give_up(SP_CONTEXT_FOREIGN);
}

/* Makes the thread's variable name its record. False if it does not, or not yet. */
static bool show(struct sp_thread_context *c, uint32_t turn)
{
	struct sp_context_record *r = &c->record;
	void *_Atomic *slot = sp_context_slot();
	const void *has = atomic_load_explicit(slot, memory_order_relaxed);
	int saved = errno;
	bool ok = has == NULL || has == r;

	if (!ok && sp_thread_context_state() <= SP_CONTEXT_PUBLISHED)
		give_up(SP_CONTEXT_FOREIGN);
	ok = ok && begin();
	errno = saved;
	if (!ok) {
		hide(c);
		return false;
	}
	r->flags = FLAG_SAMPLED;
	r->attributes = sizeof(*r) - offsetof(struct sp_context_record, key);
	r->key = SP_PROCESS_CONTEXT_ROOT_KEY;
	r->len = sizeof(r->root_id);
	atomic_signal_fence(memory_order_release);
	atomic_store_explicit(slot, r, memory_order_relaxed);
	c->shown = turn;
	return true;
}

void sp_thread_context_write(struct sp_thread_context *c, const struct sp_span_stack *s)
{
	uint32_t turn = atomic_load_explicit(&sp_thread_context_turn, memory_order_relaxed);
	struct sp_span_record span;
	bool active = sp_span_stack_peek_span(s, &span) == SP_SPAN_KNOWN;
	struct sp_context_record *r = &c->record;
	char root_id[SP_TEXT_ID_SIZE];

	atomic_store_explicit(&r->valid, 0, memory_order_relaxed);
	if (c->shown != turn && (active || c->shown != 0) && !show(c, turn))
		return;
	if (!active)
		return;
	atomic_signal_fence(memory_order_seq_cst);
	memcpy(r->trace_id, span.trace, sizeof(r->trace_id));
	memcpy(r->span_id, &span.span_id, sizeof(r->span_id));
	if (c->root_id != span.root_id) {
		c->root_id = span.root_id;
		sp_text_id(root_id, span.root_id);
		memcpy(r->root_id, root_id, sizeof(r->root_id));
	}
	atomic_signal_fence(memory_order_seq_cst);
	/*
	 * Another thread may end all this just now (sp_thread_context_stop()), and the record would be
	 * valid for ever. Either it comes to this record after us, or we see here that it began.
	 */
	atomic_store_explicit(&r->valid, 1, memory_order_seq_cst);
	if (!atomic_load_explicit(&sp_thread_context_on, memory_order_seq_cst))
		sp_thread_context_invalidate(c);
}

void sp_thread_context_ended(struct sp_thread_context *c)
{
	sp_thread_context_invalidate(c);
	hide(c);
}

void sp_thread_context_clean(struct sp_thread_context *c)
{
	sp_thread_context_invalidate(c);
	c->shown = 0;
}

void sp_thread_context_forked(struct sp_thread_context *c)
{
	sp_process_context_forked();
	if (c != NULL)
		sp_thread_context_ended(c);
	next_turn();
	atomic_store_explicit(&state.begun, false, memory_order_relaxed);
	atomic_store_explicit(&state.alone, false, memory_order_relaxed);
	if (sp_thread_context_state() == SP_CONTEXT_PUBLISHED)
		set_state(SP_CONTEXT_WAITING);
}

bool sp_thread_context_stop(void)
{
	/* pairs with sp_thread_context_write(), as the next one does */
	if (!atomic_exchange_explicit(&sp_thread_context_on, false, memory_order_seq_cst))
		return false;
	if (sp_thread_context_state() <= SP_CONTEXT_PUBLISHED)
		set_state(SP_CONTEXT_OFF);
	sp_process_context_withdraw();
	return true;
}

void sp_thread_context_invalidate(struct sp_thread_context *c)
{
	atomic_store_explicit(&c->record.valid, 0, memory_order_seq_cst);
}
