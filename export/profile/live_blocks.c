/* SPDX-License-Identifier: Apache-2.0 */
/* Follows sampled blocks from their allocation until they are freed (live_blocks.h). Context: the exporter. */
#include "export/profile/live_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "export/util/containers.h"

#define BUCKETS 16384U
/* A longer bucket exists only if an attacker has chosen the numbers. */
#define BUCKET_MAX 64U

struct block {
	struct block *next;
	uint32_t epoch;
	uint32_t thread;
	bool is_early;           /* it was freed before its sample came: only its number is known */
	struct sp_sample sample; /* only depth addresses are allocated */
};

struct sp_live_blocks {
	const struct sp_core_ops *ops;
	struct block *bucket[BUCKETS];
	uint32_t n;
	uint32_t early;
	size_t bytes;
	bool changed;
	bool is_settled; /* all samples of freed blocks and ended spans have come */
	/* Spans that ended in this interval, or earlier if samples of them may still come. */
	struct sp_hash_index by_span;
	uint64_t *ended;
	uint32_t ended_n;
	size_t ended_cap;
};

static size_t bytes_of(uint32_t depth)
{
	return offsetof(struct block, sample) + sp_sample_bytes(depth);
}

/* The pointer to the block of that number, or to the end of its bucket. NULL: the bucket is full. */
static struct block **find(struct sp_live_blocks *l, uint64_t number)
{
	struct block **at = &l->bucket[sp_hash_add(0, number) % BUCKETS];

	for (unsigned i = 0; i < BUCKET_MAX; i++, at = &(*at)->next)
		if (*at == NULL || (*at)->sample.block == number)
			return at;
	return NULL;
}

static struct block *add(struct sp_live_blocks *l, struct block **at, uint32_t depth)
{
	size_t bytes = bytes_of(depth);
	struct block *b = NULL;

	if (at != NULL && l->n < SP_LIVE_BLOCKS_MAX && bytes <= SP_LIVE_BLOCKS_BYTES - l->bytes)
		b = malloc(bytes);
	if (b == NULL) {
		l->ops->counter_add(l->ops->arg, SP_COUNT_BLOCKS_NO_ROOM, 1);
		return NULL;
	}
	b->next = NULL;
	*at = b;
	l->n++;
	l->bytes += bytes;
	return b;
}

static void drop(struct sp_live_blocks *l, struct block **at)
{
	struct block *b = *at;

	*at = b->next;
	l->n--;
	l->early -= b->is_early;
	l->bytes -= bytes_of(b->sample.depth);
	free(b);
}

void sp_live_blocks_put(struct sp_live_blocks *l, const struct sp_sample *s, uint32_t epoch,
			uint32_t thread)
{
	struct block **at;
	struct block *b;

	if (l == NULL || s->block == 0)
		return;
	at = find(l, s->block);
	if (at != NULL && *at != NULL) {
		/* Only a host that writes nonsense uses a number twice. */
		if ((*at)->is_early)
			drop(l, at);
		return;
	}
	b = add(l, at, s->depth);
	if (b == NULL)
		return;
	b->epoch = epoch;
	b->thread = thread;
	b->is_early = false;
	memcpy(&b->sample, s, sp_sample_bytes(s->depth));
	/* The attributes of its root are known for two intervals only. */
	b->sample.root_id = 0;
	l->changed = true;
}

void sp_live_blocks_freed(struct sp_live_blocks *l, uint64_t number)
{
	struct block **at;
	struct block *b;

	if (l == NULL)
		return;
	at = find(l, number);
	if (at != NULL && *at != NULL) {
		if (!(*at)->is_early) {
			drop(l, at);
			l->changed = true;
		}
		return;
	}
	b = add(l, at, 0);
	if (b == NULL)
		return;
	b->is_early = true;
	b->epoch = UINT32_MAX;
	b->sample.block = number;
	b->sample.depth = 0;
	l->early++;
	l->is_settled = false;
}

static void forget_ended(struct sp_live_blocks *l)
{
	sp_hash_index_clear(&l->by_span);
	l->ended_n = 0;
}

void sp_live_blocks_snapshots_read(struct sp_live_blocks *l)
{
	for (uint32_t i = 0; l != NULL && l->early != 0 && i < BUCKETS; i++)
		for (struct block **at = &l->bucket[i]; *at != NULL;)
			if ((*at)->is_early)
				drop(l, at);
			else
				at = &(*at)->next;
	if (l != NULL)
		l->is_settled = true;
	if (l != NULL && l->n == 0 && l->ended_n != 0)
		forget_ended(l);
}

static bool has_ended(const struct sp_live_blocks *l, uint64_t span_id)
{
	uint32_t i;

	for (uint32_t step = 0;
	     sp_hash_index_next(&l->by_span, (uint32_t)sp_hash_add(0, span_id), &step, &i);)
		if (l->ended[i] == span_id)
			return true;
	return false;
}

void sp_live_blocks_span_ended(struct sp_live_blocks *l, uint64_t span_id)
{
	if (l == NULL || has_ended(l, span_id))
		return;
	if (!SP_GROW(l->ended, l->ended_cap, l->ended_n + 1, SP_LIVE_SPANS_MAX) ||
	    !sp_hash_index_put(&l->by_span, (uint32_t)sp_hash_add(0, span_id), l->ended_n)) {
		l->ops->counter_add(l->ops->arg, SP_COUNT_DROP_SPAN_ENDS, 1);
		return;
	}
	l->ended[l->ended_n++] = span_id;
	l->is_settled = false;
	l->changed = l->changed || l->n != l->early;
}

bool sp_live_blocks_changed(const struct sp_live_blocks *l)
{
	return l != NULL && l->changed;
}

uint32_t sp_live_blocks_count(const struct sp_live_blocks *l)
{
	return l != NULL ? l->n - l->early : 0;
}

uint32_t sp_live_blocks_epoch(const struct sp_live_blocks *l, uint32_t epoch)
{
	for (uint32_t i = 0; l != NULL && l->n != 0 && i < BUCKETS; i++)
		for (const struct block *b = l->bucket[i]; b != NULL; b = b->next)
			if (b->epoch < epoch)
				epoch = b->epoch;
	return epoch;
}

void sp_live_blocks_forget_stacks(struct sp_live_blocks *l, uint32_t epoch)
{
	for (uint32_t i = 0; l != NULL && i < BUCKETS; i++) {
		for (struct block **at = &l->bucket[i]; *at != NULL; at = &(*at)->next) {
			struct block *shorter;

			if ((*at)->epoch >= epoch)
				continue;
			l->bytes -= bytes_of((*at)->sample.depth) - bytes_of(0);
			shorter = realloc(*at, bytes_of(0));
			*at = shorter != NULL ? shorter : *at;
			(*at)->sample.depth = 0;
			(*at)->epoch = epoch;
		}
	}
}

void sp_live_blocks_collect(struct sp_live_blocks *l, struct sp_stack_map *to)
{
	for (uint32_t i = 0; l != NULL && i < BUCKETS; i++) {
		for (struct block *b = l->bucket[i]; b != NULL; b = b->next) {
			struct sp_sample *s = &b->sample;

			if (b->is_early)
				continue;
			if (s->span_id != 0 && has_ended(l, s->span_id)) {
				s->span_id = 0;
				memset(s->trace_id, 0, sizeof(s->trace_id));
			}
			sp_stack_loss_count(l->ops, sp_stack_map_put_allocation(
							    to, s, b->epoch, b->thread,
							    l->ops->config->alloc_interval));
		}
	}
	if (l == NULL)
		return;
	/* The spans that end in the next interval need room as well. */
	if (l->is_settled || l->ended_n > SP_LIVE_SPANS_MAX / 2)
		forget_ended(l);
	l->changed = false;
}

struct sp_live_blocks *sp_live_blocks_new(const struct sp_core_ops *ops)
{
	struct sp_live_blocks *l = calloc(1, sizeof(*l));

	if (l != NULL)
		l->ops = ops;
	return l;
}

void sp_live_blocks_free(struct sp_live_blocks *l)
{
	if (l == NULL)
		return;
	for (uint32_t i = 0; i < BUCKETS; i++)
		while (l->bucket[i] != NULL)
			drop(l, &l->bucket[i]);
	sp_hash_index_fini(&l->by_span);
	free(l->ended);
	free(l);
}
