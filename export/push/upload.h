/* SPDX-License-Identifier: Apache-2.0 */
/* The delivery of all profiles: to the queues of servers, to the folder, or both. */
#ifndef SP_UPLOAD_H
#define SP_UPLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/profile/interval.h"
#include "export/push/push.h"

struct sp_upload;

/* 0, or a negative errno if no profile can be delivered. ops: as for sp_upload_serve(). */
int sp_upload_new(const struct sp_core_ops *ops, struct sp_upload **out);
void sp_upload_free(struct sp_upload *u);

/* As sp_push_serve(). */
void sp_upload_serve(struct sp_upload *u, const struct sp_core_ops *ops, uint32_t living,
		     uint32_t ended);

/*
 * Prepares an origin for a process. 0 or -ENOMEM; call sp_upload_forget() after either, when none
 * of its profiles is queued any more.
 */
int sp_upload_know(struct sp_upload *u, struct sp_origin *origin, const struct sp_core_ops *ops);
void sp_upload_forget(struct sp_origin *origin);

/*
 * Makes the wanted profiles of an interval, and queues or writes them. Samples that get into no
 * profile are counted.
 */
void sp_upload_put(struct sp_upload *u, struct sp_origin *origin,
		   const struct sp_interval *interval);

void sp_upload_run(struct sp_upload *u); /* as sp_push_run() */
/* These do the same as the functions of push.h with the same last word. */
void sp_upload_flush(struct sp_upload *u, bool is_awaited);
bool sp_upload_flushed(struct sp_upload *u);
void sp_upload_resume(struct sp_upload *u);
void sp_upload_abandon(struct sp_upload *u); /* gives all profiles up */
void sp_upload_count_unsent(struct sp_upload *u);
/* Sleeps until a transfer can go on or the descriptor `wake` is readable, at most wait_ms. */
void sp_upload_wait(struct sp_upload *u, int wake, uint32_t wait_ms);
uint32_t sp_upload_due_ms(const struct sp_upload *u);
/* As sp_push_moves(). */
uint64_t sp_upload_moves(const struct sp_upload *u);

/* The number of servers; their addresses for messages, and the results of their last attempts. */
unsigned sp_upload_servers(const struct sp_upload *u);
const char *sp_upload_address(const struct sp_upload *u, unsigned server);
const struct sp_push_results *sp_upload_results(const struct sp_upload *u, unsigned server);

#endif
