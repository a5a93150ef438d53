/* SPDX-License-Identifier: Apache-2.0 */
#include "export/backlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sp_backlog_limit(struct sp_backlog *q, uint32_t capacity)
{
	uint32_t want = capacity != 0 ? capacity : 1;

	if (want + 1 > q->allocated) {
		struct sp_batch *more = realloc(q->batch, ((size_t)want + 1) * sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		q->batch = more;
		q->allocated = want + 1;
	}
	q->capacity = want;
	return 0;
}

void sp_backlog_fini(struct sp_backlog *q)
{
	while (q->n != 0)
		sp_backlog_drop(q, &q->batch[0]);
	free(q->batch);
	q->batch = NULL;
}

bool sp_backlog_full(const struct sp_backlog *q)
{
	return q->n - (sp_backlog_under_way(q) != NULL) >= q->capacity;
}

void sp_backlog_put(struct sp_backlog *q, struct sp_origin *origin,
		    const struct sp_message *message, uint64_t samples, uint64_t born_ns)
{
	struct sp_batch *b = &q->batch[q->n++];

	memset(b, 0, sizeof(*b));
	b->origin = origin;
	origin->queued++;
	b->piece[b->pieces++] = (struct sp_piece){*message, samples};
	b->born_ns = born_ns;
}

struct sp_batch *sp_backlog_under_way(const struct sp_backlog *q)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (q->batch[i].under_way)
			return &q->batch[i];
	return NULL;
}

struct sp_batch *sp_backlog_oldest(const struct sp_backlog *q)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (!q->batch[i].under_way)
			return &q->batch[i];
	return NULL;
}

struct sp_batch *sp_backlog_next(const struct sp_backlog *q)
{
	struct sp_batch *best = NULL;

	for (uint32_t i = 0; i < q->n; i++)
		if (!q->batch[i].under_way && (best == NULL || q->batch[i].limited < best->limited))
			best = &q->batch[i];
	return best;
}

struct sp_piece *sp_batch_piece(struct sp_batch *b)
{
	return &b->piece[b->pieces - 1];
}

void sp_backlog_drop(struct sp_backlog *q, struct sp_batch *b)
{
	sp_message_fini(&sp_batch_piece(b)->message);
	b->pieces--;
	b->tries = 0;
	if (b->pieces != 0)
		return;
	b->origin->queued--;
	q->n--;
	memmove(b, b + 1, (size_t)(&q->batch[q->n] - b) * sizeof(*b));
}
