/* SPDX-License-Identifier: Apache-2.0 */
#include "export/push/backlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sp_backlog_limit(struct sp_backlog *q, uint32_t capacity)
{
	uint32_t want = capacity != 0 ? capacity : 1;

	/* Profiles under way do not count for the capacity, but need memory in addition. */
	if (want + q->under_way > q->allocated) {
		uint32_t allocated = want + q->under_way;
		struct sp_queued *more = realloc(q->profile, allocated * sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		q->profile = more;
		q->allocated = allocated;
	}
	q->capacity = want;
	return 0;
}

void sp_backlog_drop(struct sp_backlog *q, struct sp_queued *b)
{
	sp_message_fini(&b->message);
	sp_account_release(b->account);
	b->origin->queued--;
	q->n--;
	memmove(b, b + 1, (size_t)(&q->profile[q->n] - b) * sizeof(*b));
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
		    const struct sp_message *message, uint64_t born_ns, struct sp_account *account)
{
	struct sp_queued *b = &q->profile[q->n++];

	memset(b, 0, sizeof(*b));
	b->origin = origin;
	origin->queued++;
	b->message = *message;
	b->end = message->end;
	b->samples = message->samples;
	b->born_ns = born_ns;
	b->account = account;
}

bool sp_backlog_has_waiting(const struct sp_backlog *q)
{
	return q->n != q->under_way;
}

struct sp_queued *sp_backlog_oldest(const struct sp_backlog *q)
{
	struct sp_queued *b = q->profile;

	while (b->under_way)
		b++;
	return b;
}

struct sp_queued *sp_backlog_next(const struct sp_backlog *q, uint64_t now_ns)
{
	struct sp_queued *best = NULL;

	for (uint32_t i = 0; i < q->n; i++)
		if (!q->profile[i].under_way && q->profile[i].not_before_ns <= now_ns &&
		    (best == NULL || q->profile[i].limited < best->limited))
			best = &q->profile[i];
	return best;
}

struct sp_queued *sp_backlog_in(const struct sp_backlog *q, unsigned slot)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (q->profile[i].under_way && q->profile[i].slot == slot)
			return &q->profile[i];
	return NULL;
}

void sp_backlog_begin(struct sp_backlog *q, struct sp_queued *b, unsigned slot)
{
	b->slot = slot;
	b->under_way = true;
	b->origin->pushing++;
	q->under_way++;
}

void sp_backlog_end(struct sp_backlog *q, struct sp_queued *b)
{
	b->under_way = false;
	b->origin->pushing--;
	q->under_way--;
}

void sp_backlog_replace(struct sp_queued *b, const struct sp_message *message)
{
	sp_message_fini(&b->message);
	b->message = *message;
	b->tries = 0;
}
