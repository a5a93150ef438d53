/* SPDX-License-Identifier: Apache-2.0 */
/* The labels of threads (thread_labels.h). Contexts: APP, the exporter. */
#include "sampler/region/thread_labels.h"

#include <stddef.h>
#include <string.h>

#include "sampler/base/monotonic.h"

#define WORDS SP_THREAD_LABEL_WORDS

_Atomic(struct sp_thread_labels_part *) sp_thread_labels_part;
_Atomic unsigned sp_thread_labels_watchers;
static _Atomic uint32_t places; /* number of places in the part */

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

static void read_words(const struct sp_thread_labels *t, struct sp_thread_label *out)
{
	uint64_t word[WORDS];

	for (unsigned w = 0; w < WORDS; w++)
		word[w] = atomic_load_explicit(&t->word[w], memory_order_relaxed);
	*out = (struct sp_thread_label){
		.name_id = atomic_load_explicit(&t->name_id, memory_order_relaxed)};
	memcpy(out, word, sizeof(word));
}

static void write_words(struct sp_thread_labels *t, const struct sp_thread_label *l)
{
	uint64_t word[WORDS];

	memcpy(word, l, sizeof(word));
	for (unsigned w = 0; w < WORDS; w++)
		atomic_store_explicit(&t->word[w], word[w], memory_order_relaxed);
	atomic_store_explicit(&t->name_id, l->name_id, memory_order_relaxed);
}

static void show(struct sp_thread_labels_part *p, uint32_t block)
{
	uint32_t used = atomic_load_explicit(&p->used, memory_order_relaxed);

	while (used <= block &&
	       !atomic_compare_exchange_weak_explicit(&p->used, &used, block + 1,
						      memory_order_release, memory_order_relaxed))
		;
}

void sp_thread_labels_put(const struct sp_thread_labels_owner *who,
			  const struct sp_thread_label *label)
{
	struct sp_thread_labels_part *p = sp_thread_labels_now();
	struct sp_thread_labels *t = place_of(p, who->block);
	bool is_mine = t != NULL && atomic_load_explicit(&t->tid, memory_order_relaxed) == who->tid;
	struct sp_thread_label last;
	uint32_t n;

	if (t == NULL)
		return;
	n = atomic_load_explicit(&t->n, memory_order_relaxed);
	read_words(t, &last);
	if (is_mine && memcmp(&last, label, sizeof(last)) == 0 &&
	    atomic_load_explicit(&t->struck, memory_order_relaxed) != n)
		return;
	/* The number is odd if this process was forked while its parent was writing. */
	n |= 1;
	atomic_store_explicit(&t->n, n, memory_order_relaxed);
	/*
	 * pairs with the fence in sp_thread_labels_copy(): a reader of a new word finds another
	 * number after it
	 */
	atomic_thread_fence(memory_order_release);
	write_words(t, label);
	if (!is_mine)
		atomic_store_explicit(&t->off_ns, sp_monotonic_ns() - who->cpu_ns,
				      memory_order_relaxed);
	atomic_store_explicit(&t->n, n + 1, memory_order_release);
	if (is_mine)
		return;
	atomic_store_explicit(&t->tid, who->tid, memory_order_release);
	show(p, who->block);
}

void sp_thread_labels_strike(uint32_t block)
{
	struct sp_thread_labels *t = place_of(sp_thread_labels_now(), block);

	uint32_t n;

	if (t == NULL)
		return;
	n = atomic_load_explicit(&t->n, memory_order_relaxed);
	/*
	 * An odd n: the thread is writing a label now, which will get the number n + 1. That label
	 * is struck, because its span has ended.
	 */
	atomic_store_explicit(&t->struck, n + (n & 1), memory_order_relaxed);
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

void sp_thread_labels_put_wait(struct sp_thread_labels *to, uint64_t span_id)
{
	atomic_store_explicit(&to->waited_span, span_id, memory_order_relaxed);
}

uint64_t sp_thread_labels_take_wait(uint32_t block)
{
	struct sp_thread_labels *t = place_of(sp_thread_labels_now(), block);

	if (t == NULL || atomic_load_explicit(&t->waited_span, memory_order_relaxed) == 0)
		return 0;
	return atomic_exchange_explicit(&t->waited_span, 0, memory_order_relaxed);
}

bool sp_thread_labels_copy(const struct sp_thread_labels *from, struct sp_thread_labels_copy *out)
{
	/* Between two of these reads the thread may end, and another thread may get the place. */
	out->tid = atomic_load_explicit(&from->tid, memory_order_acquire);
	out->n = atomic_load_explicit(&from->n, memory_order_acquire);
	read_words(from, &out->label);
	out->off_ns = atomic_load_explicit(&from->off_ns, memory_order_relaxed);
	if (atomic_load_explicit(&from->struck, memory_order_relaxed) == out->n ||
	    (out->label.span_id == 0 && out->label.name_id == 0))
		memset(&out->label, 0, sizeof(out->label));
	/* pairs with the fence in sp_thread_labels_put() */
	atomic_thread_fence(memory_order_acquire);
	return out->n % 2 == 0 && atomic_load_explicit(&from->n, memory_order_relaxed) == out->n &&
	       atomic_load_explicit(&from->tid, memory_order_relaxed) == out->tid;
}
