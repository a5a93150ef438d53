/* SPDX-License-Identifier: Apache-2.0 */
/* Where the profiles of all processes go: the server's queue, the folder, or both. */
#ifndef SP_UPLOAD_H
#define SP_UPLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/profile/interval.h"
#include "export/push/push.h"

struct sp_upload;

/* 0 or a negative errno: nothing can be sent anywhere. ops: as sp_upload_serve(). */
int sp_upload_new(const struct sp_core_ops *ops, struct sp_upload **out);
void sp_upload_free(struct sp_upload *u);

/* As sp_push_serve(). */
void sp_upload_serve(struct sp_upload *u, const struct sp_core_ops *ops, uint32_t living,
		     uint32_t ended);

/*
 * Makes a process known that profiles will be of. 0 or -ENOMEM; sp_upload_forget() is right after
 * either, once nothing of it is queued.
 */
int sp_upload_know(struct sp_upload *u, struct sp_origin *origin, const struct sp_core_ops *ops);
void sp_upload_forget(struct sp_origin *origin);

/*
 * Packs and queues or writes the profiles of an interval that are wanted. What was taken and gets into none of
 * them is counted. Holds the interval as long as something of it may have to be sent again.
 */
void sp_upload_put(struct sp_upload *u, struct sp_origin *origin, struct sp_interval *interval);

void sp_upload_run(struct sp_upload *u); /* goes on with sending what is due; never waits */
/* The last chance, within the flush's time; as sp_push_flush() and what belongs to it. */
void sp_upload_flush(struct sp_upload *u, bool is_awaited);
bool sp_upload_flushed(struct sp_upload *u);
void sp_upload_resume(struct sp_upload *u);
void sp_upload_abandon(struct sp_upload *u); /* no chance at all */
void sp_upload_count_unsent(struct sp_upload *u);
/* Sleeps up to wait_ms, until a transfer can go on or the descriptor can be read. */
void sp_upload_wait(struct sp_upload *u, int wake, uint32_t wait_ms);
uint32_t sp_upload_due_ms(const struct sp_upload *u);
/* A number that changes with what is queued or being sent. */
uint64_t sp_upload_moves(const struct sp_upload *u);

/* NULL = nothing is pushed. */
const struct sp_push_news *sp_upload_news(const struct sp_upload *u);
const char *sp_upload_address(const struct sp_upload *u);

#endif
