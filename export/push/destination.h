/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One server, with its queue, its requests and the time of its next attempt. No function here waits
 * for a transfer.
 *
 * A request of Pyroscope's push carries profiles of all processes and types: all that wait, as long
 * as the server has taken similar ones before. As soon as two profiles wait, the next request
 * begins beside those under way, unless the last request failed.
 *
 * A profile is never sent again if the first transfer may have succeeded. If a request was sent
 * completely, and no answer comes before the timeout or the end of the connection, its profiles
 * count as lost, with a separate cause, although the server may have them. The other side may be a
 * forwarder without a server behind it. So the next requests are empty pushes until one is
 * answered.
 */
#ifndef SP_DESTINATION_H
#define SP_DESTINATION_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/push/account.h"
#include "export/push/origin.h"
#include "export/push/push_results.h"
#include "export/push/reply.h"
#include "export/push/request.h"

/*
 * A part to cut from the records `first` to `end` - 1 of a whole profile: the part has at most
 * `most` records, from the first one on.
 */
struct sp_part {
	uint32_t first;
	uint32_t end;
	uint32_t most;
};

/* The server and all else that depends on time or network, so that tests can replace it. */
struct sp_push_env {
	const char *name; /* of the server, for messages; NULL = it is the only one */
	/* As sp_http_start(), sp_http_poll() and sp_http_stop(). message = NULL: an empty push. */
	void (*start)(void *arg, unsigned slot, const struct sp_message *message,
		      uint32_t timeout_ms);
	bool (*poll)(void *arg, unsigned *slot, struct sp_reply *reply);
	void (*stop)(void *arg, unsigned slot, struct sp_reply *reply);
	void *transport_arg;
	/*
	 * Makes the body of one request from several messages. 0, or a negative errno. NULL = each
	 * request carries one profile.
	 */
	int (*join)(void *arg, const struct sp_message *const part[], uint32_t n,
		    struct sp_bytes *out);
	void *join_arg;
	/*
	 * Makes the message of a part, from the whole profile that the message `of` belongs to. 0,
	 * or a negative errno. NULL = profiles cannot be cut.
	 */
	int (*cut)(void *arg, struct sp_origin *origin, const struct sp_message *of,
		   const struct sp_part *part, struct sp_message *out);
	void *cut_arg;
	uint64_t (*now_ns)(void *arg); /* monotonic */
	void *now_arg;
	uint64_t (*random)(void *arg); /* uniform */
	void *random_arg;
};

struct sp_push_limits {
	uint32_t capacity;  /* profiles of all types together, for each living process */
	uint32_t types;     /* of profiles: a process makes one of each type per interval */
	uint32_t max_tries; /* 0 = until a profile is too old or displaced */
	uint32_t timeout_ms;
	uint64_t interval_ms; /* from one profile of a process to the next one */
	uint64_t lasts_ms;    /* how long a process takes to fill its places in the queue */
};

struct sp_destination;

/* number: of this destination; of: how many there are. NULL when out of memory. */
struct sp_destination *sp_destination_new(const struct sp_core_ops *ops,
					  const struct sp_push_env *env,
					  const struct sp_push_limits *limits, unsigned number,
					  unsigned of);
/* Frees all profiles that are left, without counting them. No-op for NULL. */
void sp_destination_free(struct sp_destination *d);

/* These do for one destination what the functions of push.h with the same last word do for all. */
void sp_destination_serve(struct sp_destination *d, const struct sp_core_ops *ops, uint32_t living,
			  uint32_t ended);
void sp_destination_flush(struct sp_destination *d, bool is_awaited);
void sp_destination_resume(struct sp_destination *d);
void sp_destination_count_unsent(struct sp_destination *d);
void sp_destination_abandon(struct sp_destination *d);
uint32_t sp_destination_due_ms(const struct sp_destination *d);

/*
 * Takes over the message and its share of the account. If the queue is full, the oldest profile is
 * lost.
 */
void sp_destination_put(struct sp_destination *d, struct sp_origin *origin,
			const struct sp_message *message, uint64_t born_ns,
			struct sp_account *account);

/* As sp_push_run(); handles at most `most` ends of requests. */
void sp_destination_run(struct sp_destination *d, unsigned most);

/* As sp_push_flushed() for one destination, but without a message. */
bool sp_destination_flushed(struct sp_destination *d);
void sp_destination_log_unsent(const struct sp_destination *d);

/* Numbers of queued profiles and of requests under way. */
uint32_t sp_destination_queued(const struct sp_destination *d);
uint32_t sp_destination_requests(const struct sp_destination *d);

const struct sp_push_results *sp_destination_results(const struct sp_destination *d);

#endif
