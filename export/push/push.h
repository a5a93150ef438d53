/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All destinations. Each has its own queue, requests and backoff, so none delays another one. They
 * share the bodies of whole profiles, and the limit for requests side by side.
 */
#ifndef SP_PUSH_H
#define SP_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/push/destination.h"
#include "export/push/origin.h"

struct sp_push;

/*
 * n: number of destinations, up to SP_SERVERS_MAX. ops: as for sp_push_serve(). NULL when out of
 * memory.
 */
struct sp_push *sp_push_new(const struct sp_core_ops *ops, const struct sp_push_env env[],
			    unsigned n, const struct sp_push_limits *limits);
/* Frees all profiles that are left, without counting them. */
void sp_push_free(struct sp_push *p);

/*
 * ops: from now on, the process whose flush deadline counts, and whose log gets messages that
 * concern all. living, ended: numbers of processes. The queues have limits.capacity places for each
 * living process, and one place for each type of profile of an ended process. If there is no memory
 * for a larger queue, its size stays. Another thread may call this while p works without the turn
 * (turn.h).
 */
void sp_push_serve(struct sp_push *p, const struct sp_core_ops *ops, uint32_t living,
		   uint32_t ended);

/*
 * Takes over the message, for all destinations. In a full queue the oldest profile is lost. A queue
 * adds lost samples to the origin's losses, so the origin must live as long as one of its profiles
 * is queued. born_ns: when the profile began, by the env's clock, because the clock of
 * message->from_ns may be set while the profile waits.
 */
void sp_push_put(struct sp_push *p, struct sp_origin *origin, const struct sp_message *message,
		 uint64_t born_ns);

/*
 * Advances the transfers that are under way, and begins those that are due, the oldest profile
 * first; profiles for which the server answered 429 come last. A profile that is too large is cut
 * into parts of half as many records. Never waits, and returns after a bounded number of requests,
 * so that the caller's other work is done.
 */
void sp_push_run(struct sp_push *p);

/*
 * Begins a flush: until ops->flush_left_ms(ops->arg) is 0, sp_push_run() sends all profiles that
 * are queued now and later, side by side, even if a backoff is not over. Profiles for which the
 * server answers 429 are cut into smaller parts and sent again at once, a few times. After any
 * other failure a profile is sent again as long as there is time. If the process waits for the
 * flush (is_awaited), that is done only after an answer that may soon be different: other attempts
 * would only delay the end of the process. Another thread may call this, as sp_push_serve().
 */
void sp_push_flush(struct sp_push *p, bool is_awaited);

/*
 * Whether the flush is over: no further waiting can deliver more. If so, and a process waits for
 * it, logs how much was not sent. The rest stays queued, and no request begins until
 * sp_push_resume() or sp_push_flush().
 */
bool sp_push_flushed(struct sp_push *p);

/* Ends a flush: sp_push_run() works as before it. Another thread may call this, too. */
void sp_push_resume(struct sp_push *p);

/*
 * Counts all profiles as unsent, including those under way. Nothing else may be done with p after
 * this.
 */
void sp_push_count_unsent(struct sp_push *p);

/* Stops all requests. Profiles that wait, or get no answer any more, are lost. */
void sp_push_abandon(struct sp_push *p);

/* Milliseconds until sp_push_run() has something to do, or less; UINT32_MAX = nothing is queued. */
uint32_t sp_push_due_ms(const struct sp_push *p);

/* Number of queued profiles; a profile counts once for each destination. */
uint32_t sp_push_queued(const struct sp_push *p);

/*
 * A number that changes when a profile is queued, sent or lost. Its lowest byte is the number of
 * requests under way.
 */
uint64_t sp_push_moves(const struct sp_push *p);

/* The results of the last attempts to reach the destination. */
const struct sp_push_results *sp_push_results(const struct sp_push *p, unsigned destination);

#endif
