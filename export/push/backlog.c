/* SPDX-License-Identifier: Apache-2.0 */
#include "export/push/backlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sp_backlog_limit(struct sp_backlog *q, uint32_t capacity)
{
	uint32_t want = capacity != 0 ? capacity : 1;

	if (want + SP_TRANSFERS > q->allocated) {
		struct sp_queued_profile *more =
			realloc(q->profile, ((size_t)want + SP_TRANSFERS) * sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		q->profile = more;
		q->allocated = want + SP_TRANSFERS;
	}
	q->capacity = want;
	return 0;
}

void sp_backlog_fini(struct sp_backlog *q)
{
	while (q->n != 0)
		sp_backlog_drop(q, &q->profile[0]);
	free(q->profile);
	q->profile = NULL;
}

bool sp_backlog_full(const struct sp_backlog *q)
{
	return q->n - q->under_way >= q->capacity;
}

void sp_backlog_put(struct sp_backlog *q, struct sp_origin *origin,
		    const struct sp_message *message, uint64_t born_ns, uint64_t now_ns)
{
	struct sp_queued_profile *b = &q->profile[q->n++];

	memset(b, 0, sizeof(*b));
	b->origin = origin;
	origin->queued++;
	b->message = *message;
	b->end = message->end;
	b->samples = message->samples;
	b->born_ns = born_ns;
	b->put_ns = now_ns;
}

struct sp_queued_profile *sp_backlog_oldest(const struct sp_backlog *q)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (!q->profile[i].under_way)
			return &q->profile[i];
	return NULL;
}

struct sp_queued_profile *sp_backlog_next(const struct sp_backlog *q, bool one_each)
{
	struct sp_queued_profile *best = NULL;

	for (uint32_t i = 0; i < q->n; i++)
		if (!q->profile[i].under_way && (!one_each || q->profile[i].origin->pushing == 0) &&
		    (best == NULL || q->profile[i].limited < best->limited))
			best = &q->profile[i];
	return best;
}

bool sp_backlog_waits(const struct sp_backlog *q, const struct sp_origin *origin,
		      enum sp_profile_type type, uint64_t then_ns)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (!q->profile[i].under_way && q->profile[i].origin == origin &&
		    q->profile[i].message.type == type && q->profile[i].put_ns <= then_ns)
			return true;
	return false;
}

struct sp_queued_profile *sp_backlog_in(const struct sp_backlog *q, unsigned slot)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (q->profile[i].under_way && q->profile[i].slot == slot)
			return &q->profile[i];
	return NULL;
}

void sp_backlog_begin(struct sp_backlog *q, struct sp_queued_profile *b)
{
	while (sp_backlog_in(q, b->slot) != NULL)
		b->slot = (b->slot + 1) % SP_TRANSFERS;
	b->under_way = true;
	b->origin->pushing++;
	q->under_way++;
}

void sp_backlog_end(struct sp_backlog *q, struct sp_queued_profile *b)
{
	b->under_way = false;
	b->origin->pushing--;
	q->under_way--;
}

void sp_backlog_replace(struct sp_queued_profile *b, const struct sp_message *message)
{
	sp_message_fini(&b->message);
	b->message = *message;
	b->tries = 0;
}

void sp_backlog_drop(struct sp_backlog *q, struct sp_queued_profile *b)
{
	sp_message_fini(&b->message);
	b->origin->queued--;
	q->n--;
	memmove(b, b + 1, (size_t)(&q->profile[q->n] - b) * sizeof(*b));
}
