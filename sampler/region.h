/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory between the host and spanprof-exporter, its only connection. The host makes it at
 * its first recorded span as a sealed memfd, maps it and closes the descriptor; the exporter inherits
 * the descriptor and maps it too. It holds offsets instead of pointers, and all of it is zero at first.
 *
 * The exporter trusts nothing in it: another program of the host's user may write to it while we read.
 * It copies first and parses the copy, checks every offset, length and index, and never takes a file's
 * name or a process's number from it. The host in turn takes from the exporter only words that can do
 * no harm whatever they say.
 */
#ifndef SP_REGION_H
#define SP_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/counters.h"

#define SP_REGION_MAGIC UINT64_C(0x666f72706e617073) /* "spanprof" */
/* Of layout and meaning, records in the rings included: object and program are of one build. */
#define SP_REGION_VERSION 2U

/*
 * Where the exporter finds the descriptors of its region, of the host's folder in /proc (O_PATH) and of
 * the host's memory map. It may be without the last two. By them it needs no number to find its host,
 * which /proc may give in another pid namespace; and a host that has changed its user may not be looked
 * at by others.
 */
#define SP_REGION_FD 3
#define SP_HOST_FOLDER_FD 4
#define SP_HOST_MAPS_FD 5
/*
 * Where the exporter finds its family's socket, if it has one: bound and listening, of type
 * SOCK_SEQPACKET. Forked children of the same program connect to it and hand over their own regions,
 * instead of starting an exporter each. The name is an abstract one (unix(7)), SP_FAMILY_NAME, made of
 * what all processes of a family share and no other process has: the moment at which the program was
 * loaded, and the user, as an exporter serves processes with its own rights alone. Should two programs have
 * been loaded in the same nanosecond, who joins has equal settings and is served as well.
 */
#define SP_FAMILY_FD 6
#define SP_FAMILY_NAME "spanprof-%llu-%u" /* CLOCK_MONOTONIC ns, effective user id */

/*
 * The only message of a process that joins, with three descriptors (SCM_RIGHTS): its region, its folder
 * in /proc and its memory map, as above; where it has one of the last two not, the region stands for it.
 * There is no answer: the exporter sets exporter_pid and then struct sp_region.exporter, to
 * SP_EXPORTER_REFUSED if the process has to start an exporter of its own. It does the latter by
 * comparing and exchanging SP_EXPORTER_NONE: a process that was not taken in for long writes
 * SP_EXPORTER_GONE there, and its region is none of the exporter's then.
 */
struct sp_family_join {
	uint32_t version;     /* SP_REGION_VERSION */
	uint32_t pid;         /* as in the region */
	uint64_t environment; /* sp_family_environment() of what it would give to an exporter */
};

/* Equal for equal environments: an exporter has one configuration. Any context. */
static inline uint64_t sp_family_environment(char *const *environment)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *environment != 0; environment++)
		for (const char *at = *environment;; at++) {
			hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
			if (*at == '\0')
				break;
		}
	return hash;
}

/* A part of the region, from its beginning; both are multiples of 4,096. */
struct sp_region_part {
	uint64_t at;
	uint64_t bytes;
};

enum sp_region_parts {
	SP_REGION_RING,      /* struct sp_ring_ends, then its words (ring.h) */
	SP_REGION_SNAPSHOTS, /* the same; no bytes = there are none */
	SP_REGION_NAMES,     /* span names (names.h) */
	SP_REGION_PARTS
};

/* What the host does: struct sp_region.state. */
enum sp_region_state {
	SP_REGION_SAMPLING = 1,
	SP_REGION_STOPPED, /* sampling was given up; what it brought is still to be sent */
	SP_REGION_LEAVING, /* about to be replaced by exec; SAMPLING again if that failed */
};

/* What the exporter does: struct sp_region.exporter. */
enum sp_region_exporter {
	SP_EXPORTER_NONE,    /* not started, or not yet ready to work */
	SP_EXPORTER_WORKING, /* drains, and answers flushes */
	SP_EXPORTER_FAILED,  /* cannot work: struct sp_region.exporter_error */
	SP_EXPORTER_GONE, /* has ended and will not come back, or the host waits no more for it */
	SP_EXPORTER_REFUSED, /* it works for the family, and cannot for this process */
};

/* Bits of struct sp_region.deferred_work: what is asked of the next hook of any thread. */
#define SP_WORK_LOOK 1U  /* the second is over: settle accounts, age spans, publish facts */
#define SP_WORK_SCAN 2U  /* /proc shows threads that are not enrolled, or enrolled ones are gone */
#define SP_WORK_WRITE 4U /* the exporter cannot open the host's stderr: write its message */
#define SP_WORK_SECCOMP 16U /* the host has a filter more than when it began: seccomp.h */
#define SP_WORK_ALIVE 8U    /* from the host's own handler, now and then: is the exporter there? */

/* Of one SDK, by its number (preload/sdk.h). */
#define SP_REGION_SDKS SP_COUNTED_SDKS
struct sp_region_sdk {
	_Atomic uint32_t disproved; /* facts, see sp_sdk_disproved_facts() */
};

/* A complete message without prefix and newline, for the host's stderr. */
#define SP_REGION_MESSAGE_MAX 1024U

struct sp_region {
	/* Written once, before the exporter is started. */
	uint64_t magic;
	uint32_t version;
	uint32_t pid;       /* the host's, in the pid namespace that both are in */
	uint64_t bytes;     /* of the whole region */
	uint64_t mapped_at; /* in the host: the mapping is there as long as its image lives */
	struct sp_region_part part[SP_REGION_PARTS];

	/* Written by the host, for the exporter to tell. */
	_Atomic uint32_t state; /* enum sp_region_state */
	_Atomic uint32_t signal_number;
	_Atomic uint32_t threads_armed;
	_Atomic uint32_t threads_known; /* that have a block, with a timer or without */
	_Atomic uint32_t threads_blocking;
	_Atomic uint32_t threads_limit;
	_Atomic uint32_t threads_refused;
	_Atomic uint32_t spans_open;
	struct sp_region_sdk sdk[SP_REGION_SDKS];
	_Atomic uint64_t counter[SP_COUNTER_N]; /* but those of spans */
	_Alignas(128) struct sp_span_counts spans[SP_SPAN_COUNTS];

	/*
	 * Futexes (never private ones, as two processes use them). wake: the exporter sleeps on it; the
	 * host adds 1 and wakes. A flush is asked for by adding 1 to flush_asked, and answered when
	 * flush_done has that value; the host sleeps on flush_done.
	 */
	_Atomic uint32_t wake;
	_Atomic uint32_t flush_asked;
	_Atomic uint32_t flush_done;
	_Atomic uint32_t exporter;          /* enum sp_region_exporter; a futex, too */
	_Atomic uint64_t flush_deadline_ns; /* CLOCK_MONOTONIC */

	/*
	 * Who executed the program: it may fork others, also when none of its children is there. 0 =
	 * unknown, or this process itself.
	 */
	int32_t program_pid;

	/* Written by the exporter. */
	_Atomic int32_t exporter_pid;   /* by who starts it; in the host's pid namespace */
	_Atomic int32_t exporter_error; /* why it could not start or work: a positive errno */
	_Atomic uint32_t generation;    /* of told objects: all are told of again when it changes */
	/*
	 * What it has counted for this process. With a host that starts another exporter the next one
	 * begins with the words of its predecessor.
	 */
	_Atomic uint64_t exporter_counter[SP_COUNTER_N];
	/* Of SP_COUNT_SAMPLES_DRAINED there, what is no sample and will not be counted when it is sent. */
	_Atomic uint64_t exporter_unsampled;
	_Atomic uint32_t deferred_work; /* SP_WORK_ bits, taken back by the host */
	_Atomic uint32_t message_bytes; /* with SP_WORK_WRITE; set back to 0 by the host */
	char message[SP_REGION_MESSAGE_MAX];
};

/*
 * The host's own; NULL as long as there is none. Written in APP and INIT by one thread at a time. A host
 * that starts another exporter goes on in a new one; the old ones stay mapped, because other threads may
 * be using them: what is read here is good for as long as one likes.
 */
extern _Atomic(struct sp_region *) sp_region;
static inline struct sp_region *sp_region_now(void)
{
	/* pairs with the release in sp_region_use(): what is written once is there */
	return atomic_load_explicit(&sp_region, memory_order_acquire);
}

/* A process has so many at most, the first one included. */
#define SP_REGIONS_MAX 4U

/*
 * APP. Makes and maps a region with parts of these sizes (rounded up to whole pages). Returns the
 * descriptor (at least 3, close-on-exec, sealed against change of size), which the caller passes to the
 * exporter and closes, or a negative errno: -EFBIG where RLIMIT_FSIZE would make it a SIGXFSZ, -ENOMEM
 * also where there are too many. errno and signals are as before.
 */
int sp_region_make(const uint64_t bytes[SP_REGION_PARTS], struct sp_region **made);

/* APP. It is the host's own from now on. */
void sp_region_use(struct sp_region *r);

/* Both. */
int sp_region_create(const uint64_t bytes[SP_REGION_PARTS]);

/*
 * APP, INIT. Where a part of a region that was made here begins; NULL if it has no bytes, or there is no
 * such region. bytes may be NULL.
 */
void *sp_region_part(const struct sp_region *r, enum sp_region_parts part, uint64_t *bytes);

/* The same of the one that is in use. */
void *sp_region_at(enum sp_region_parts part);

/*
 * Forked child: the regions are its parent's, and sp_region is NULL from now on. They stay mapped for the
 * names in them, until the child has one of its own and calls release().
 */
void sp_region_forked(void);
void sp_region_release(void);

#endif
