/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that wait to be sent, oldest first. One that was too large is encoded again part by part, and all of
 * it has one place. Some may be under way: their memory is in use then, and nothing takes them out.
 */
#ifndef SP_BACKLOG_H
#define SP_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "export/push/origin.h"
#include "export/push/request.h"

struct sp_queued_profile {
	struct sp_origin *origin;
	struct sp_message message; /* that is sent next: all of it, or a part */
	uint32_t end;       /* of its records; those behind the message's are not encoded yet */
	uint64_t samples;   /* of the message, and of what is not encoded yet */
	uint32_t most;      /* records of its next part; 0 = as many as of any profile */
	bool was_too_large; /* so said the server, and nothing of it has passed since */
	uint32_t refusals;  /* for that, since something of it has passed */
	int status;         /* why it is sent in parts */
	uint64_t put_ns;    /* when it came */
	uint64_t born_ns;   /* the begin of the profile; may be before the machine's, and wrap */
	uint32_t tries;     /* of the message */
	uint32_t limited;   /* how often the server had no room for it */
	bool under_way;     /* the message is, in that slot of the transport's */
	unsigned slot;
	uint64_t era; /* backoff.h's, when it was begun */
	uint64_t begun_ns;
};

struct sp_backlog {
	struct sp_queued_profile *profile; /* oldest first */
	uint32_t n;
	uint32_t allocated;
	uint32_t capacity; /* without those that are under way */
	uint32_t under_way;
};

/* How many there may be from now on. What is there already stays. 0 or -ENOMEM. */
int sp_backlog_limit(struct sp_backlog *q, uint32_t capacity);
/* Frees what is left. */
void sp_backlog_fini(struct sp_backlog *q);

bool sp_backlog_full(const struct sp_backlog *q);
/* It must not be full. Takes over the message. */
void sp_backlog_put(struct sp_backlog *q, struct sp_origin *origin,
		    const struct sp_message *message, uint64_t born_ns, uint64_t now_ns);

/* Pointers are valid until the next put or drop; NULL = there is none. */
/* Of those that are not under way. */
struct sp_queued_profile *sp_backlog_oldest(const struct sp_backlog *q);
/* The oldest of those that the server had room for most often, and that are not under way; one_each: nor is another one of their process. */
struct sp_queued_profile *sp_backlog_next(const struct sp_backlog *q, bool one_each);
/* One of that type and process waits, and came before then. */
bool sp_backlog_waits(const struct sp_backlog *q, const struct sp_origin *origin,
		      enum sp_profile_type type, uint64_t then_ns);
/* The one that is under way in that slot. */
struct sp_queued_profile *sp_backlog_in(const struct sp_backlog *q, unsigned slot);

/* It is sent from now on, in a slot that is free; or no more. */
void sp_backlog_begin(struct sp_backlog *q, struct sp_queued_profile *b);
void sp_backlog_end(struct sp_backlog *q, struct sp_queued_profile *b);

/* That message instead of the one that it has. */
void sp_backlog_replace(struct sp_queued_profile *b, const struct sp_message *message);
/* The profile is gone, and those behind it move up. */
void sp_backlog_drop(struct sp_backlog *q, struct sp_queued_profile *b);

#endif
