/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the family: its region, its descriptors, and its sp_core_ops for the loop
 * (export.h).
 */
#ifndef SP_MEMBER_H
#define SP_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "export/exporter/host.h"
#include "export/exporter/messages.h"
#include "export/exporter/view.h"
#include "export/exporter/wait.h"
#include "sampler/region/ring.h"

/*
 * The names of spans by their ids, as the host has told them (sampler/region/names.h). Text and id belong
 * together for the life of the process: the first text of an id stays, whatever comes later.
 */
struct sp_name_texts;

/* NULL = out of memory. */
struct sp_name_texts *sp_name_texts_new(void);
void sp_name_texts_free(struct sp_name_texts *n);

/* Takes what is in the ring. It may say anything: what is no name counts as damaged there. */
void sp_name_texts_drain(struct sp_name_texts *n, struct sp_ring *ring);

/* Valid UTF-8, valid until sp_name_texts_free(). NULL for an unknown id, also if it was one too many. */
const char *sp_name_texts_get(const struct sp_name_texts *n, uint32_t id, size_t *len);

/* Zero it at first use. */
struct sp_member {
	struct sp_member *next; /* of the family's list */
	struct sp_core_ops ops;
	struct sp_view view;
	struct sp_host host;
	struct sp_messages messages;
	struct sp_waiter waiter;
	struct sp_name_texts *names;
	char proc[32];                       /* where its folder in /proc can be read */
	bool handed;                         /* given to the loop */
	bool working;                        /* and the process was told so */
	bool retired;                        /* sp_member_retire(): no longer counted */
	uint64_t counter[SP_COUNTER_N];      /* our own, and what a predecessor left */
	uint64_t host_counter[SP_COUNTER_N]; /* the largest values that the host ever had */
	bool damaged[SP_COUNTER_N];          /* of these, not read any more */
	bool told_damage;
};

/*
 * Maps the region and finds its process. The descriptors are taken over in any case. 0 or a
 * negative errno of sp_view_open() or sp_host_open(); sp_member_close() is right after either.
 */
int sp_member_open(struct sp_member *m, const struct sp_host_descriptors *fds,
		   const struct sp_config *config);

/*
 * After a successful open: from now on the eventfd `event` is signalled when the process asks for
 * something.
 */
void sp_member_watch(struct sp_member *m, int event, const struct sp_family_hook *family);

/*
 * The process has ended: says so in the region, and frees its memory and descriptors. Counters and
 * facts stay. 0, or -ENOMEM, and then nothing is freed.
 */
int sp_member_retire(struct sp_member *m);

/*
 * Tells the process that it is not served any more, and why if that is a failure: a negative errno. One
 * that has joined starts an exporter of its own then.
 */
void sp_member_tell_end(struct sp_member *m, int err);

/* Gives back what it has. A process that was never served is told nothing before. */
void sp_member_close(struct sp_member *m);

#endif
