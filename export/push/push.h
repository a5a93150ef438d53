/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded queue of requests and the rules by which they are sent, sent again or given up. Profiles go one
 * after the other, over one connection, as long as the server keeps up with what comes; where a profile still
 * waits when the next one of its kind comes, one more goes side by side; never several in one request, as a server
 * that refuses one of them stores the others and answers with an error all the same. Nothing waits for a transfer. No
 * profile is sent a second time while the first transfer may have succeeded: when all of a request
 * has left us and no answer comes, until the time is up or the connection ends, it counts as lost, with a cause of its
 * own, though the server may have it.
 */
#ifndef SP_PUSH_H
#define SP_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "export/profile/pprof.h"
#include "export/push/reply.h"
#include "export/push/request.h"
#include "export/util/log.h"
#include "export/util/losses.h"

struct sp_file_sink;

/*
 * The process that a profile belongs to: its labels, its counters and its losses, for whoever
 * handles the profile after it was encoded. It lives as long as one of its profiles is queued.
 */
struct sp_origin {
	const struct sp_core_ops *ops;
	struct sp_series series;
	struct sp_bytes resource; /* the same in OTLP; NULL = it is not wanted */
	struct sp_losses losses;
	struct sp_file_sink *files; /* NULL = no folder */
	uint32_t requests;          /* made so far */
	uint32_t unnamed;           /* intervals that no profile was made of yet */
	uint32_t queued;            /* profiles that wait for the server or are being sent */
	uint32_t pushing;           /* of these, those that are being sent */
};

#define SP_PUSH_ERROR SP_LOSSES_WORDS
#define SP_PUSH_KINDS 8U

/* How the last tries to send something went, for the log and the status file. Zero it at first use. */
struct sp_push_news {
	uint64_t attempts;
	int last_status;                /* HTTP; 0 = there was no answer, or no try yet */
	char last_error[SP_PUSH_ERROR]; /* printable; "" after a success */
	size_t remedy_at;               /* where "; " and the remedy begin in it, or its end */
	int64_t last_success_ms;        /* since the epoch; 0 = never */
	bool has_skew;                  /* the server sent its time */
	int64_t skew_ms;                /* how much later it is there */
	bool said_skew;                 /* a message said that it is too much, and it still is */
	/* One per kind of trouble, so that one kind does not silence another. */
	struct sp_export_log_site said_unreachable;
	struct {
		int status;
		struct sp_export_log_site site;
	} said[SP_PUSH_KINDS];
};

/* Records first to end - 1 of an interval, of which a message has at most so many, from the first one on. */
struct sp_part {
	uint32_t first;
	uint32_t end;
	uint32_t most;
};

/* Everything time and the network could do to the queue, so that tests can stand in for them. */
struct sp_push_env {
	/* As sp_http_start(), sp_http_poll() and sp_http_stop(). */
	void (*start)(void *arg, unsigned slot, const struct sp_message *message,
		      uint32_t timeout_ms);
	bool (*poll)(void *arg, unsigned *slot, struct sp_reply *reply);
	void (*stop)(void *arg, unsigned slot, struct sp_reply *reply);
	/* As sp_http_rest(). NULL = there is nothing to be closed. */
	uint64_t (*rest)(void *arg, uint64_t now_ns);
	void *transport_arg;
	/*
	 * A message of a part of what that one was encoded from. 0, or a negative errno: that is gone, or there
	 * is no memory. NULL = nothing can be encoded again.
	 */
	int (*encode)(void *arg, struct sp_origin *origin, const struct sp_message *of,
		      const struct sp_part *part, struct sp_message *out);
	void *encode_arg;
	uint64_t (*now_ns)(void *arg); /* monotonic */
	void *now_arg;
	uint64_t (*random)(void *arg); /* uniform */
	void *random_arg;
};

struct sp_push_limits {
	uint32_t capacity;  /* for each process that lives, of all its types together */
	uint32_t types;     /* of profiles; each makes one of each interval */
	uint32_t max_tries; /* 0 = until a profile is too old or displaced */
	uint32_t timeout_ms;
	/* From one profile of a process to the next one, and until those of one that had none queued have
	 * filled its places. */
	uint64_t interval_ms;
	uint64_t lasts_ms;
};

struct sp_push;

/* NULL when out of memory. ops: as sp_push_serve(). */
struct sp_push *sp_push_new(const struct sp_core_ops *ops, const struct sp_push_env *env,
			    const struct sp_push_limits *limits);
/* Frees what is left without counting it. */
void sp_push_free(struct sp_push *p);

/*
 * Whose flushes are minded and who is told of what concerns all, from now on; and how many processes
 * there are: living ones have room for limits.capacity profiles each, others for the last one of each type. Where
 * there is no memory for more room it stays as it is. May be called by another thread while p is busy with what
 * may take long (turn.h).
 */
void sp_push_serve(struct sp_push *p, const struct sp_core_ops *ops, uint32_t living,
		   uint32_t ended);

/*
 * Takes over the message; the oldest of all goes when the queue is full. What is lost of it is added to
 * the origin's losses, and the origin lives as long as something of it is queued. born_ns: when the profile
 * began, by the env's clock, as the clock of message->from_ns may be set meanwhile.
 */
void sp_push_put(struct sp_push *p, struct sp_origin *origin, const struct sp_message *message,
		 uint64_t born_ns);

/*
 * Goes on with the transfers that are under way, and begins those that are due, the oldest first; what the server
 * had no room for (429) comes after all others. A profile that is too large is encoded again within half of what it
 * was, part by part. Never waits, and ends after some requests, so that the caller's other work is done.
 */
void sp_push_run(struct sp_push *p);

/*
 * From now on sp_push_run() sends what is queued, and what is put meanwhile, side by side, whatever was due when,
 * within ops->flush_left_ms(ops->arg). Those that the server has no room for are sent in smaller parts and tried a
 * few times more at once. After any other failure they are tried again as long as there is time; if the process
 * waits for this (is_awaited), only where the next try may soon succeed, as all others would but delay its end. May
 * be called by another thread, as sp_push_serve().
 */
void sp_push_flush(struct sp_push *p, bool is_awaited);

/*
 * Whether nothing more can come of the flush, however long one waits. Then whoever waits is told what was not sent; it
 * stays queued, and nothing is begun any more until sp_push_resume() or sp_push_flush().
 */
bool sp_push_flushed(struct sp_push *p);

/* A flush need not go on: sp_push_run() does as before. May be called by another thread, too. */
void sp_push_resume(struct sp_push *p);

/* Counts everything as unsent, also what is under way, where nothing else may be done with it any more. */
void sp_push_count_unsent(struct sp_push *p);

/* Gives up on everything, also on what is under way. */
void sp_push_abandon(struct sp_push *p);

bool sp_push_under_way(const struct sp_push *p);

/*
 * Milliseconds until sp_push_run() has something to do, or earlier, when the transport has; UINT32_MAX = nothing is
 * queued, and no connection open.
 */
uint32_t sp_push_due_ms(const struct sp_push *p);

uint32_t sp_push_queued(const struct sp_push *p);

/* A number that changes with what is queued or being sent. */
uint64_t sp_push_moves(const struct sp_push *p);

/* How the last tries went. */
const struct sp_push_news *sp_push_news(const struct sp_push *p);

#endif
