/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory between the host and spanprof-exporter. The host makes
 * it at its first recorded span as a sealed memfd, maps it and closes the descriptor. The exporter
 * inherits the descriptor and maps it too. It holds offsets instead of pointers, and is all zero at
 * first.
 *
 * The exporter trusts nothing in it, because another program of the host's user may write to it
 * while the exporter reads. It copies first and parses the copy, and checks every offset, length and
 * index. It opens no file that only the region names: a path in it is shown, and no more. The host in
 * turn reads from the exporter only words that can do no harm, whatever they say.
 */
#ifndef SP_REGION_H
#define SP_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/region/sdk_texts.h"

#define SP_REGION_MAGIC UINT64_C(0x666f72706e617073) /* "spanprof" */
/*
 * SP_REGION_VERSION is in region_version.h, which is made of all headers here that the exporter includes
 * (scripts/region-version.sh): another layout, another record in the rings or another constant is another version.
 * Object and program have to be of the same build.
 */

/*
 * What an exporter exits with whose region is of another build. It may write nothing there, because the words lie
 * elsewhere, so it is the keeper that tells the host. The same in all builds (EX_PROTOCOL in sysexits.h).
 */
#define SP_EXPORTER_OTHER_BUILD 76

/*
 * The numbers of the descriptors that the exporter inherits: its region, the host's folder in /proc
 * (O_PATH) and the host's memory map. The last two may be missing. With them it needs no process
 * number to find its host, which may differ in another pid namespace; and the folder of a host that
 * has changed its user can no longer be opened.
 */
#define SP_REGION_FD 3
#define SP_HOST_FOLDER_FD 4
#define SP_HOST_MAPS_FD 5
/*
 * The descriptor of the family's socket, if there is one: bound and listening, of type
 * SOCK_SEQPACKET. Forked children of the same program connect to it and hand over their own
 * regions, instead of starting an exporter each. It has an abstract name (unix(7)), SP_FAMILY_NAME,
 * which all processes of a family share: the moment at which the program was loaded, and the user,
 * because an exporter serves processes with its own rights only. If two programs were loaded in the
 * same nanosecond, a process that joins has equal settings, and is served as well.
 */
#define SP_FAMILY_FD 6
#define SP_FAMILY_NAME "spanprof-%llu-%u" /* CLOCK_MONOTONIC ns, effective user id */

/*
 * The only message of a process that joins a family, with three descriptors (SCM_RIGHTS): its
 * region, its folder in /proc and its memory map. A missing one of the last two is replaced by the
 * region. There is no answer: the exporter sets exporter_pid and then struct sp_region.exporter, to
 * SP_EXPORTER_REFUSED if the process has to start an exporter of its own. It does so by a
 * compare-and-exchange of SP_EXPORTER_NONE: a process that has waited for too long writes
 * SP_EXPORTER_GONE there, and the exporter then leaves its region alone.
 */
struct sp_family_join {
	uint32_t version;     /* SP_REGION_VERSION */
	uint32_t pid;         /* as in the region */
	uint64_t environment; /* sp_family_environment() of what an exporter would get */
};

/* Equal for equal environments, because an exporter has one configuration. Any context. */
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
	SP_REGION_NAMES,     /* a ring as well, of span names (names.h) */
	SP_REGION_LABELS,    /* labels of threads (thread_labels.h); no bytes = nobody wants them */
	SP_REGION_PARTS
};

/* What the host does: struct sp_region.state */
enum sp_region_state {
	SP_REGION_SAMPLING = 1,
	SP_REGION_STOPPED, /* sampling has stopped; its samples are still to be sent */
	SP_REGION_LEAVING, /* about to be replaced by exec; SAMPLING again if that failed */
};

/* Who publishes the thread context of OpenTelemetry (thread_context.h): struct sp_region.context */
enum sp_region_context {
	SP_CONTEXT_WAITING,   /* nobody yet: there was no span */
	SP_CONTEXT_PUBLISHED, /* we do */
	SP_CONTEXT_OFF,       /* nobody, as configured or because sampling has stopped */
	SP_CONTEXT_FOREIGN,   /* another library does */
	SP_CONTEXT_REFUSED,   /* nobody: the process context could not be made */
	SP_CONTEXT_READ,      /* another library does, and samples have their labels from it */
	SP_CONTEXT_N
};

/* What the exporter does: struct sp_region.exporter. */
enum sp_region_exporter {
	SP_EXPORTER_NONE,    /* not started, or not yet ready to work */
	SP_EXPORTER_WORKING, /* drains, and answers flushes */
	SP_EXPORTER_FAILED,  /* cannot work: struct sp_region.exporter_error */
	SP_EXPORTER_GONE, /* has ended and will not come back, or the host waits no more for it */
	SP_EXPORTER_REFUSED, /* it works for the family, and cannot for this process */
	SP_EXPORTER_MOVED, /* has sent everything and ended, because who started it has: start another */
};

/* Bits of struct sp_region.deferred_work: what is asked of the next hook of any thread. */
#define SP_WORK_LOOK 1U  /* a second has passed: settle accounts, age spans, publish facts */
#define SP_WORK_SCAN 2U  /* threads of /proc are not enrolled, or have ended */
#define SP_WORK_WRITE 4U /* the exporter may not write to the host's stderr: write its messages */
#define SP_WORK_SECCOMP 16U /* the host has one more filter than when it began: seccomp.h */
#define SP_WORK_TRACER                                                                             \
	32U               /* the exporter may not look at waiting threads: Yama asks for a tracer */
#define SP_WORK_ALIVE 8U  /* from the host's handler: is the exporter alive? */
#define SP_WORK_BEGIN 64U /* always asked of sp_region_nowhere: there is no region yet */

/* Of one SDK, by its number (sdk_texts.h). */
#define SP_REGION_SDKS SP_COUNTED_SDKS
struct sp_region_sdk {
	_Atomic uint32_t disproved; /* enum sp_sdk_fact, a bit for each */
	_Atomic uint32_t way; /* enum sp_sdk_way, of the first instance; set after the texts */
	_Atomic uint32_t instances;       /* that were reached */
	char object[SP_SDK_OBJECT_MAX];   /* that holds the first instance */
	char release[SP_SDK_RELEASE_MAX]; /* of the first instance; "" = unknown */
};

/*
 * Messages for the host's stderr, each complete, without prefix and newline. The exporter fills one
 * place after the other, from the first one on, and the host empties them in the same order. A place
 * with bytes is full; what finds it full is lost.
 */
#define SP_REGION_MESSAGE_MAX 1020U
#define SP_REGION_MESSAGES 16U
struct sp_region_message {
	_Atomic uint32_t bytes; /* set when the text is complete, and back to 0 by the host */
	char text[SP_REGION_MESSAGE_MAX];
};

struct sp_region {
	/* Written once, before the exporter is started. */
	uint64_t magic;
	uint32_t version;
	uint32_t pid;       /* the host's, in the pid namespace that both are in */
	uint64_t bytes;     /* of the whole region */
	uint64_t mapped_at; /* in the host: the mapping is there as long as its image lives */
	struct sp_region_part part[SP_REGION_PARTS];

	/* Written by the host, for the exporter to report. */
	_Atomic uint32_t state; /* enum sp_region_state */
	_Atomic uint32_t signal_number;
	_Atomic uint32_t threads_armed;
	_Atomic uint32_t threads_known; /* that have a block, with a timer or without */
	_Atomic uint32_t threads_limit;
	_Atomic uint32_t threads_refused;
	_Atomic uint32_t spans_open;
	_Atomic uint32_t context; /* enum sp_region_context */
	struct sp_region_sdk sdk[SP_REGION_SDKS];
	_Atomic uint64_t counter[SP_COUNTER_N]; /* all except those of spans */
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
	 * 1 = the exporter has to end with this flush, because its keeper is a child of this process,
	 * which ends or executes another program. Only for the process that has started it.
	 */
	_Atomic uint32_t end_asked;

	/*
	 * Who executed the program: it may fork others, also when none of its children is there. 0 =
	 * unknown, or this process itself.
	 */
	int32_t program_pid;

	/* Written by the exporter. */
	_Atomic int32_t exporter_pid;    /* by who starts it; in the host's pid namespace */
	_Atomic uint64_t exporter_began; /* start time in /proc/PID/stat; 0 = unknown */
	_Atomic int32_t exporter_error;  /* why it could not start or work: a positive errno */
	_Atomic uint32_t generation;     /* announce all objects again when it changes */
	/*
	 * What the exporter has counted for this process. If the host starts another exporter, that
	 * one begins with the values of its predecessor.
	 */
	_Atomic uint64_t exporter_counter[SP_COUNTER_N];
	_Atomic uint32_t deferred_work; /* SP_WORK_ bits, taken back by the host */
	struct sp_region_message message[SP_REGION_MESSAGES];
	uint32_t messages_written; /* by the host: which place it looks at next */
};

/*
 * The region in use by the host. Written in APP and INIT by one thread at a time. A host that starts
 * another exporter goes on in a new region. The addresses of the old ones stay valid
 * (sp_region_discard()), because other threads may still be using them, and so does a pointer read from
 * here.
 *
 * Where there is none, before the start and in a forked child that has done nothing yet, it is
 * sp_region_nowhere, which nobody else maps: what is written there does no harm and is told to nobody.
 */
extern struct sp_region sp_region_nowhere;
SP_HIDDEN _Atomic(struct sp_region *) sp_region;
static inline struct sp_region *sp_region_now(void)
{
	/* pairs with the release in sp_region_use(): the header is complete */
	return atomic_load_explicit(&sp_region, memory_order_acquire);
}

static inline bool sp_region_is_there(void)
{
	return sp_region_now() != &sp_region_nowhere;
}

/*
 * The most regions at a time, with those that were given up within the last minute: a worker that a server forked goes
 * on in another one whenever the sibling ends that has started the exporter.
 */
#define SP_REGIONS_MAX 16U

/*
 * APP. Makes and maps a region with parts of these sizes (rounded up to whole pages). *made is NULL, or a
 * discarded one of the same sizes, at whose address it is made then. Returns the
 * descriptor (at least 3, close-on-exec, sealed against changes of size), which the caller passes
 * to the exporter and closes, or a negative errno: -EFBIG where RLIMIT_FSIZE would raise SIGXFSZ,
 * -ENOSPC where there are too many regions. errno and signals stay as they were.
 */
int sp_region_make(const uint64_t bytes[SP_REGION_PARTS], struct sp_region **made);

/*
 * APP. The host uses that region from now on, and the labels of threads in it; &sp_region_nowhere =
 * none.
 */
void sp_region_use(struct sp_region *r);

/*
 * APP, one thread at a time. Gives back the memory of a region that was replaced. A thread may be
 * stopped for any time between reading a pointer into the region and writing there, so nobody can tell
 * when the addresses are free. They stay, and become private memory that is all zero: what comes so
 * late harms nobody, and only pages that are written to are memory again. sp_region_make() may make another
 * region there. errno preserved.
 */
void sp_region_discard(struct sp_region *r);

/* Does both. */
int sp_region_create(const uint64_t bytes[SP_REGION_PARTS]);

/*
 * APP, INIT. Where a part of a region that was made here begins; NULL if it has no bytes, or there is no
 * such region.
 */
void *sp_region_part(const struct sp_region *r, enum sp_region_parts part, uint64_t *bytes);

/*
 * Forked child: the regions belong to its parent, and it has none from now on. They stay mapped until it makes
 * one, because most children end or execute another program before that.
 */
void sp_region_forked(void);

#endif
