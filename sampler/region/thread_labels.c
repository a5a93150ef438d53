/* SPDX-License-Identifier: Apache-2.0 */
/* The labels of threads over time, and what they wait for (thread_labels.h). Contexts: APP, the exporter. */
#include "sampler/region/thread_labels.h"

#include <stddef.h>
#include <string.h>

#include "sampler/base/monotonic.h"

#define KEPT SP_THREAD_LABELS_KEPT
#define WORDS SP_THREAD_LABEL_WORDS

_Atomic(struct sp_thread_labels_part *) sp_thread_labels_part;
_Atomic unsigned sp_thread_labels_watchers;
static _Atomic uint32_t places; /* that the part has room for */

void sp_thread_labels_use(void *part, uint64_t bytes)
{
	uint64_t room = 0;

	if (part != NULL && bytes > sizeof(struct sp_thread_labels_part))
		room = (bytes - sizeof(struct sp_thread_labels_part)) /
		       sizeof(struct sp_thread_labels);
	atomic_store_explicit(&places, room < UINT32_MAX ? (uint32_t)room : UINT32_MAX,
			      memory_order_relaxed);
	/* pairs with the acquire in sp_thread_labels_now() */
	atomic_store_explicit(&sp_thread_labels_part, room != 0 ? part : NULL,
			      memory_order_release);
	sp_thread_labels_watch(SP_THREAD_LABELS_EXPORTER, room != 0);
}

static struct sp_thread_labels *place_of(struct sp_thread_labels_part *p, uint32_t block)
{
	return p != NULL && block < atomic_load_explicit(&places, memory_order_relaxed)
		       ? &p->thread[block]
		       : NULL;
}

static void read_words(const struct sp_thread_labels *t, uint32_t i, struct sp_thread_label *out)
{
	uint64_t word[WORDS];

	for (unsigned w = 0; w < WORDS; w++)
		word[w] = atomic_load_explicit(&t->word[i % KEPT][w], memory_order_relaxed);
	memcpy(out, word, sizeof(word));
}

static void write_words(struct sp_thread_labels *t, uint32_t i, const struct sp_thread_label *l)
{
	uint64_t word[WORDS];

	memcpy(word, l, sizeof(word));
	for (unsigned w = 0; w < WORDS; w++)
		atomic_store_explicit(&t->word[i % KEPT][w], word[w], memory_order_relaxed);
}

/* Whether the last label is this one, and still counts. */
static bool goes_on(const struct sp_thread_labels *t, uint32_t n, const struct sp_thread_label *l)
{
	struct sp_thread_label last;

	if (n == 0)
		return l->span_id == 0 && l->name_id == 0;
	read_words(t, n - 1, &last);
	return last.span_id == l->span_id && last.name_id == l->name_id &&
	       last.trace[0] == l->trace[0] && last.trace[1] == l->trace[1] &&
	       last.part == l->part &&
	       atomic_load_explicit(&t->struck_ns, memory_order_relaxed) < last.since_ns;
}

static void show(struct sp_thread_labels_part *p, uint32_t block)
{
	uint32_t used = atomic_load_explicit(&p->used, memory_order_relaxed);

	while (used <= block &&
	       !atomic_compare_exchange_weak_explicit(&p->used, &used, block + 1,
						      memory_order_release, memory_order_relaxed))
		;
}

void sp_thread_labels_put(const struct sp_thread_labels_owner *who, struct sp_thread_label *label)
{
	struct sp_thread_labels_part *p = sp_thread_labels_now();
	struct sp_thread_labels *t = place_of(p, who->block);
	bool is_mine = t != NULL && atomic_load_explicit(&t->tid, memory_order_relaxed) == who->tid;
	uint32_t n;

	if (t == NULL)
		return;
	n = atomic_load_explicit(&t->n, memory_order_relaxed);
	if (is_mine && goes_on(t, n, label))
		return;
	label->since_ns = sp_monotonic_ns();
	/*
	 * A reader that sees a word of this label sees that the number before it is gone: the number was
	 * stored as a release when the label before this one began.
	 */
	atomic_thread_fence(memory_order_release);
	write_words(t, n, label);
	atomic_store_explicit(&t->n, n + 1, memory_order_release);
	if (is_mine)
		return;
	atomic_store_explicit(&t->cpu_ns, who->cpu_ns, memory_order_relaxed);
	atomic_store_explicit(&t->first, n, memory_order_relaxed);
	atomic_store_explicit(&t->tid, who->tid, memory_order_release);
	show(p, who->block);
}

void sp_thread_labels_strike(uint32_t block)
{
	struct sp_thread_labels *t = place_of(sp_thread_labels_now(), block);

	if (t != NULL)
		atomic_store_explicit(&t->struck_ns, sp_monotonic_ns(), memory_order_relaxed);
}

void sp_thread_labels_end(uint32_t block)
{
	struct sp_thread_labels *t = place_of(sp_thread_labels_now(), block);

	/* Threads that never had a label have touched no memory of the part. */
	if (t == NULL ||
	    block >= atomic_load_explicit(&sp_thread_labels_now()->used, memory_order_relaxed))
		return;
	sp_thread_labels_strike(block);
	atomic_store_explicit(&t->tid, 0, memory_order_release);
}

/*
 * Numbers of a part only grow, so it does no harm if some of them are a look older than others. Those of another
 * part are not taken for them, because the part is read before and after.
 */
bool sp_thread_labels_waited(uint32_t block, uint32_t part, struct sp_thread_waited *out)
{
	const struct sp_thread_labels *t = place_of(sp_thread_labels_now(), block);

	/* pairs with the release in sp_thread_labels_tell() */
	if (t == NULL || part == 0 ||
	    atomic_load_explicit(&t->waited_part, memory_order_acquire) != part)
		return false;
	out->part = part;
	out->last = atomic_load_explicit(&t->waited_last, memory_order_relaxed);
	for (unsigned i = 0; i < SP_WAITED_N; i++)
		out->ns[i] = atomic_load_explicit(&t->waited_ns[i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&t->waited_part, memory_order_relaxed) == part;
}

void sp_thread_labels_tell(struct sp_thread_labels *to, const struct sp_thread_waited *w)
{
	if (atomic_load_explicit(&to->waited_part, memory_order_relaxed) != w->part) {
		atomic_store_explicit(&to->waited_part, 0, memory_order_relaxed);
		/* pairs with the fence of the reader */
		atomic_thread_fence(memory_order_release);
	}
	atomic_store_explicit(&to->waited_last, w->last, memory_order_relaxed);
	for (unsigned i = 0; i < SP_WAITED_N; i++)
		atomic_store_explicit(&to->waited_ns[i], w->ns[i], memory_order_relaxed);
	atomic_store_explicit(&to->waited_part, w->part, memory_order_release);
}

void sp_thread_labels_note_wait(struct sp_thread_labels *to, uint64_t span_id)
{
	atomic_store_explicit(&to->waited_span, span_id, memory_order_relaxed);
}

uint64_t sp_thread_labels_take_note(uint32_t block)
{
	struct sp_thread_labels *t = place_of(sp_thread_labels_now(), block);

	if (t == NULL || atomic_load_explicit(&t->waited_span, memory_order_relaxed) == 0)
		return 0;
	return atomic_exchange_explicit(&t->waited_span, 0, memory_order_relaxed);
}

void sp_thread_labels_copy(const struct sp_thread_labels *from, struct sp_thread_labels_copy *out)
{
	uint32_t tid = atomic_load_explicit(&from->tid, memory_order_acquire);
	uint32_t before = atomic_load_explicit(&from->n, memory_order_acquire);
	uint32_t own = before - atomic_load_explicit(&from->first, memory_order_relaxed);
	uint32_t after;

	out->tid = tid;
	/* Numbers may wrap. */
	out->labels = own < KEPT ? own : KEPT;
	out->first = before - out->labels;
	for (uint32_t i = 0; i < out->labels; i++)
		read_words(from, out->first + i, &out->label[i]);
	out->cpu_ns = atomic_load_explicit(&from->cpu_ns, memory_order_relaxed);
	out->struck_ns = atomic_load_explicit(&from->struck_ns, memory_order_relaxed);
	/* pairs with the fence of the writer */
	atomic_thread_fence(memory_order_acquire);
	after = atomic_load_explicit(&from->n, memory_order_relaxed);
	out->n = before;
	/* The place of number `after` may be half written, so number after - KEPT is gone. */
	while (out->labels != 0 && (uint32_t)(after - out->first) >= KEPT) {
		out->labels--;
		out->first++;
		memmove(out->label, out->label + 1, out->labels * sizeof(out->label[0]));
	}
}
