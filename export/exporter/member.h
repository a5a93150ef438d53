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
#include "export/exporter/descendants.h"
#include "export/exporter/host.h"
#include "export/exporter/messages.h"
#include "export/exporter/view.h"
#include "export/exporter/wait.h"
#include "sampler/region/ring.h"

/*
 * The names of spans by their ids, as the host puts them (sampler/region/names.h). The first text
 * of an id stays for the life of the process, whatever comes later.
 */
struct sp_name_texts;

/* NULL = out of memory. */
struct sp_name_texts *sp_name_texts_new(void);
void sp_name_texts_free(struct sp_name_texts *n);

/*
 * Takes all names from the ring. The ring may contain anything: a record that is no name counts as
 * damaged there.
 */
void sp_name_texts_drain(struct sp_name_texts *n, struct sp_ring *ring);

/*
 * Valid UTF-8, valid until sp_name_texts_free(). NULL for an unknown id, also if the name was
 * beyond the limit.
 */
const char *sp_name_texts_get(const struct sp_name_texts *n, uint32_t id, size_t *len);

/* To be zeroed before its first use. */
struct sp_member {
	struct sp_member *next; /* of the family's list */
	struct sp_core_ops ops;
	struct sp_view view;
	struct sp_host host;
	struct sp_messages messages;
	struct sp_waiter waiter;
	struct sp_name_texts *names;
	struct sp_descendants *below; /* NULL = no look at processes below it so far */
	uint64_t used_ns;             /* CPU time at the last read of its clock */
	bool is_summed;               /* its time was added to its parent's sums */
	char proc[32];                /* the path of its folder in /proc */
	bool handed;                  /* given to the loop */
	bool working;                 /* the process was told that we work */
	/* sp_member_retire() was called: it is no longer counted */
	bool retired;
	/* our own counts, and those of an exporter before us */
	uint64_t counter[SP_COUNTER_N];
	uint64_t host_counter[SP_COUNTER_N]; /* the largest values that the host ever had */
	bool damaged[SP_COUNTER_N];          /* these host counters are not read any more */
	bool told_damage;
	bool told_confinement;
};

/*
 * Maps the region and finds its process. Takes over the descriptors in any case. 0 or a negative
 * errno of sp_view_open() or sp_host_open(); sp_member_close() has to be called after both.
 */
int sp_member_open(struct sp_member *m, const struct sp_host_descriptors *fds,
		   const struct sp_config *config);

/*
 * After a successful open: from now on the eventfd `event` becomes readable when the process has a
 * request.
 */
void sp_member_watch(struct sp_member *m, int event, const struct sp_family_hook *family);

/*
 * The process has ended: says so in the region, and frees its memory and descriptors. Counters and
 * facts stay. 0, or -ENOMEM if nothing was freed.
 */
int sp_member_retire(struct sp_member *m);

/*
 * Tells the process that it is not served any more, and the reason if that is a failure: a negative
 * errno. A process that has joined then starts an exporter of its own.
 */
void sp_member_send_end(struct sp_member *m, int err);

/* Frees everything. A process that was never served is not told. */
void sp_member_close(struct sp_member *m);

#endif
