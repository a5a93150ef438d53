/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of profiles for one server. Some of them may be part of a request that is under way. */
#ifndef SP_BACKLOG_H
#define SP_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "export/push/account.h"
#include "export/push/origin.h"
#include "export/push/request.h"

/*
 * A profile in the queue. A profile that is sent in parts has one place in the queue for all parts.
 * While a profile is under way, its request uses its memory, so it stays in the queue.
 */
struct sp_queued {
	struct sp_origin *origin;
	struct sp_message message; /* the message that is sent next: the whole profile, or a part */
	/* end of the profile's records; records behind the message's are in no part yet */
	uint32_t end;
	uint64_t samples; /* of the message and of records that are in no part yet */
	/* of all destinations; NULL = there is only one destination */
	struct sp_account *account;
	/* the next part has at most this many records; 0 = as many as any profile */
	uint32_t most;
	/* the server found a part too large, and has taken none since */
	bool was_too_large;
	/* how often the server found a part too large since it last took one */
	uint32_t refusals;
	int status; /* the answer that made it go in parts */
	/* before this time the profile begins too far ahead of the server's clock */
	uint64_t not_before_ns;
	/* when the profile began; may be before the machine's start, and wrap */
	uint64_t born_ns;
	uint32_t tries;   /* of the message */
	uint32_t limited; /* how often the server answered 429 */
	bool under_way;   /* the message is part of the request in that slot */
	unsigned slot;
};

struct sp_backlog {
	struct sp_queued *profile; /* oldest first */
	uint32_t n;
	uint32_t allocated;
	uint32_t capacity; /* profiles under way do not count */
	uint32_t under_way;
};

/* Sets the capacity. Profiles that are queued already stay. 0 or -ENOMEM. */
int sp_backlog_limit(struct sp_backlog *q, uint32_t capacity);

/* Frees all profiles that are left. */
void sp_backlog_fini(struct sp_backlog *q);

bool sp_backlog_full(const struct sp_backlog *q);

/*
 * The queue must not be full. Takes over the message, and the destination's share of the account.
 */
void sp_backlog_put(struct sp_backlog *q, struct sp_origin *origin,
		    const struct sp_message *message, uint64_t born_ns, struct sp_account *account);

/* Frees the profile and moves later ones up. */
void sp_backlog_drop(struct sp_backlog *q, struct sp_queued *b);

bool sp_backlog_has_waiting(const struct sp_backlog *q);

/* The oldest profile that is not under way; there must be one. */
struct sp_queued *sp_backlog_oldest(const struct sp_backlog *q);

/*
 * The profile to send next: of the waiting ones whose time has come, the one that was refused with
 * 429 least often; of equal ones the oldest. NULL = none.
 */
struct sp_queued *sp_backlog_next(const struct sp_backlog *q, uint64_t now_ns);

/* The oldest profile of the request in that slot. NULL = it has none, or all have ended. */
struct sp_queued *sp_backlog_in(const struct sp_backlog *q, unsigned slot);

void sp_backlog_begin(struct sp_backlog *q, struct sp_queued *b, unsigned slot);
void sp_backlog_end(struct sp_backlog *q, struct sp_queued *b);

/* Replaces the profile's message. */
void sp_backlog_replace(struct sp_queued *b, const struct sp_message *message);

#endif
