/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a host and spanprof-exporter share. The host makes it at its first recorded span
 * as a sealed memfd, maps it and closes the descriptor. The exporter inherits the descriptor and
 * maps it too. It holds offsets instead of pointers, and is all zero at first.
 *
 * The exporter trusts nothing in the region, because another program of the host's user may write
 * to it while the exporter reads. The exporter copies first and parses the copy, and checks every
 * offset, length and index. It opens no file that only the region names: a path from the region is
 * only shown. The host in turn reads only words of the exporter that can do no harm, whatever their
 * value.
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
 * SP_REGION_VERSION is in region_version.h. It is a hash of all headers here that the exporter
 * includes (scripts/region-version.sh), so another layout, record or constant is another version.
 * Object and program have to be of the same build.
 */

/*
 * The exit status of an exporter that gets a region of another build. The exporter does not know
 * the offsets of that region's words, so it writes nothing there, and the keeper reports the error
 * to the host. The same in all builds (EX_PROTOCOL in sysexits.h).
 */
#define SP_EXPORTER_OTHER_BUILD 76

/*
 * The numbers of the descriptors that the exporter inherits: its region, the host's folder in /proc
 * (O_PATH) and the host's memory map. The last two may be missing. With these two the exporter
 * finds its host without a process number, which may differ in another pid namespace, and still
 * reads the folder of a host that changes its user.
 */
#define SP_REGION_FD 3
#define SP_HOST_FOLDER_FD 4
#define SP_HOST_MAPS_FD 5
/*
 * The descriptor of the family's socket, if there is one: bound and listening, of type
 * SOCK_SEQPACKET. Forked children of the same program connect to it and hand over their regions,
 * instead of each starting an exporter.
 *
 * All processes of a family know its abstract name (unix(7)), SP_FAMILY_NAME. It contains the time
 * at which the program was loaded, and the user, because an exporter serves processes with its own
 * rights only. A "p" before the time: the process is not dumpable, so its exporter has not been
 * dumpable either, from the first instruction on (preload/exporter/exporter_process.c). An "f"
 * before that: a process started this exporter at the request of a child. If two programs were
 * loaded in the same nanosecond, the later one finds a listener without its secret, and starts its
 * own exporter.
 */
#define SP_FAMILY_FD 6
#define SP_FAMILY_NAME                                                                             \
	"spanprof-%s%s%llu-%u" /* "" or "f", "" or "p", CLOCK_MONOTONIC ns, effective user id */

/*
 * The only message of a process that joins a family, with three descriptors (SCM_RIGHTS): its
 * region, its folder in /proc and its memory map. If one of the last two is missing, the process
 * sends the region's descriptor instead. There is no answer on the socket. The exporter sets
 * exporter_pid and then struct sp_region.exporter, to SP_EXPORTER_REFUSED if the process has to
 * start its own exporter. The exporter sets it by a compare-and-exchange of SP_EXPORTER_NONE: a
 * process that has waited for too long writes SP_EXPORTER_GONE there, and the exporter then does
 * not touch the region.
 */
struct sp_family_join {
	uint32_t version; /* SP_REGION_VERSION */
	uint32_t pid;     /* as in the region */
	/* sp_family_environment() of the environment that this process would give an exporter */
	uint64_t environment;
};

/*
 * A hash of the environment. Processes of one exporter need equal environments, because an exporter
 * has one configuration. Any context.
 */
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

/* A part of the region; offset and size are multiples of 4,096. */
struct sp_region_part {
	uint64_t at;
	uint64_t bytes;
};

enum sp_region_parts {
	SP_REGION_RING,      /* struct sp_ring_ends, then its words (ring.h) */
	SP_REGION_SNAPSHOTS, /* the same; without bytes if the handler makes no snapshots */
	SP_REGION_NAMES,     /* a ring, too, for span names (names.h) */
	/* labels of threads (thread_labels.h); without bytes if nobody reads them */
	SP_REGION_LABELS,
	/* durations of local roots (root_durations.h); without bytes if nobody reads them */
	SP_REGION_ROOTS,
	SP_REGION_PARTS
};

/* The state of the host: struct sp_region.state */
enum sp_region_state {
	SP_REGION_SAMPLING = 1,
	SP_REGION_STOPPED, /* sampling has stopped; the samples are still to be sent */
	SP_REGION_LEAVING, /* about to execute another program; SAMPLING again if that fails */
	/* the process is about to continue in another region, with its own exporter */
	SP_REGION_PARTED,
};

/* The publisher of OpenTelemetry's thread context (thread_context.h): struct sp_region.context */
enum sp_region_context {
	SP_CONTEXT_WAITING,   /* none yet: there was no span */
	SP_CONTEXT_PUBLISHED, /* we are the publisher */
	SP_CONTEXT_OFF,       /* none, as configured or because sampling has stopped */
	SP_CONTEXT_FOREIGN,   /* another library */
	SP_CONTEXT_REFUSED,   /* none: the process context could not be made */
	SP_CONTEXT_READ,      /* another library, and its contexts label samples */
	SP_CONTEXT_N
};

/* The state of libspanprof-alloc.so when it was loaded: struct sp_region.allocations */
enum sp_allocations_object {
	SP_ALLOCATIONS_UNTOLD,
	SP_ALLOCATIONS_ABSENT,
	SP_ALLOCATIONS_LOADED,
	SP_ALLOCATIONS_SANITIZED, /* the program has a sanitizer, whose allocator is not replaced */
	/* the program, or an object that is preloaded before, has another allocator */
	SP_ALLOCATIONS_HIDDEN,
};

/* The state of the exporter: struct sp_region.exporter. */
enum sp_region_exporter {
	SP_EXPORTER_NONE,    /* not started, or not yet ready to work */
	SP_EXPORTER_WORKING, /* drains, and answers flushes */
	SP_EXPORTER_FAILED,  /* cannot work: struct sp_region.exporter_error */
	/* has ended and will not come back, or the host has given up waiting for it */
	SP_EXPORTER_GONE,
	SP_EXPORTER_REFUSED, /* works for the family, but cannot serve this process */
	/* has sent everything and ended, because the process that started it ends: start another */
	SP_EXPORTER_MOVED,
};

/* Bits of struct sp_region.deferred_work: work for the next hook of any thread. */
#define SP_WORK_LOOK 1U /* a second has passed: settle accounts, age spans, publish facts */
/* /proc shows threads that are not enrolled, or enrolled ones have ended */
#define SP_WORK_SCAN 2U
#define SP_WORK_WRITE 4U /* the exporter may not write to the host's stderr: write its messages */
#define SP_WORK_SECCOMP 16U /* the host has one more filter than at its beginning: seccomp.h */
/* name the exporter as tracer: Yama forbids it to look at waiting threads */
#define SP_WORK_TRACER 32U
#define SP_WORK_ALIVE 8U      /* asked by the host's handler: find out whether the exporter lives */
#define SP_WORK_SCAN_NOW 128U /* SP_WORK_SCAN for our handler, because no hook has done it */
#define SP_WORK_BEGIN 64U     /* always set in sp_region_nowhere: make a region */

/*
 * The value of the signal that the exporter sends to a thread for SP_WORK_SCAN_NOW. The upper half
 * is the cookie of our timers; no thread's block has the number in the lower half.
 */
#define SP_ROUSE_VALUE(cookie) ((uint64_t)(cookie) << 32 | UINT32_MAX)

/* The facts about one SDK, by its number (sdk_texts.h). */
#define SP_REGION_SDKS SP_COUNTED_SDKS
struct sp_region_sdk {
	_Atomic uint32_t disproved; /* a bit for each enum sp_sdk_fact */
	_Atomic uint32_t way; /* enum sp_sdk_way of the first instance; written after the texts */
	_Atomic uint32_t instances;       /* number of instances that were reached */
	char object[SP_SDK_OBJECT_MAX];   /* the object that has the first instance */
	char release[SP_SDK_RELEASE_MAX]; /* of the first instance; "" = unknown */
	char service[SP_SDK_SERVICE_MAX]; /* the service.name of its resource; "" = none */
};

/*
 * Messages for the host's stderr, each complete, without prefix and newline. The exporter fills one
 * slot after the other, and the host empties them in the same order. A slot with bytes is full; a
 * message that finds its slot full is lost.
 */
#define SP_REGION_MESSAGE_MAX 1020U
#define SP_REGION_MESSAGES 16U
struct sp_region_message {
	/* the exporter sets it when the text is complete, and the host back to 0 */
	_Atomic uint32_t bytes;
	char text[SP_REGION_MESSAGE_MAX];
};

/* libspanprof.so and libspanprof-alloc.so: profiles omit their frames. */
#define SP_REGION_OBJECTS 2U

struct sp_region {
	/* Written once, before the exporter is started. */
	uint64_t magic;
	uint32_t version;
	uint32_t pid;   /* of the host, in the pid namespace of host and exporter */
	uint64_t bytes; /* of the whole region */
	/* address in the host, where the region stays until the host ends or executes a program */
	uint64_t mapped_at;
	struct sp_region_part part[SP_REGION_PARTS];
	/*
	 * The addresses of our own objects in the host, as dl_phdr_info tells them; 0 = not loaded.
	 */
	uint64_t own_object[SP_REGION_OBJECTS];

	/* Written by the host, for the exporter to report. */
	_Atomic uint32_t state; /* enum sp_region_state */
	_Atomic uint32_t signal_number;
	_Atomic uint32_t cookie; /* of SP_ROUSE_VALUE; 0 = not sampling yet */
	_Atomic uint32_t threads_armed;
	_Atomic uint32_t threads_known; /* threads that have a block, with a timer or without */
	_Atomic uint32_t threads_limit;
	_Atomic uint32_t threads_refused;
	/*
	 * 1 = some thread has too little stack for a signal, or shares its alternate stack. The
	 * exporter then sends no signal, because it does not know which thread that is.
	 */
	_Atomic uint32_t threads_unfit;
	_Atomic uint32_t spans_open;
	_Atomic uint64_t cpu_before_ns; /* CPU time of the process when profiling began */
	_Atomic uint32_t context;       /* enum sp_region_context */
	_Atomic uint32_t allocations;   /* enum sp_allocations_object */
	/* by prctl(PR_SET_DUMPABLE); the exporter makes itself non-dumpable, too */
	_Atomic uint32_t is_undumpable;
	struct sp_region_sdk sdk[SP_REGION_SDKS];
	_Atomic uint64_t counter[SP_COUNTER_N]; /* all counters except those of spans */
	_Alignas(128) struct sp_span_counts spans[SP_SPAN_COUNTS];

	/*
	 * Futexes (never private ones, because two processes use them). wake: the exporter sleeps
	 * on this word; the host adds 1 and wakes the exporter. The host asks for a flush by adding
	 * 1 to flush_asked, and sleeps on flush_done until that has the same value.
	 */
	_Atomic uint32_t wake;
	_Atomic uint32_t flush_asked;
	_Atomic uint32_t flush_done;
	_Atomic uint32_t exporter;          /* enum sp_region_exporter; a futex, too */
	_Atomic uint64_t flush_deadline_ns; /* CLOCK_MONOTONIC */
	/*
	 * 1 = the exporter has to end with this flush: its keeper is a child of this process, and
	 * this process ends or executes another program. Only the process that started the exporter
	 * sets it.
	 */
	_Atomic uint32_t end_asked;

	/*
	 * The process that executed the program. It may fork further children after all others have
	 * ended. So the exporter waits for such children for some time while that process lives.
	 * 0 = unknown, or this process itself.
	 */
	int32_t program_pid;
	uint64_t program_loaded_ns; /* as in SP_FAMILY_NAME */

	/* Written by the exporter. */
	/* first written by its parent; number in the host's pid namespace */
	_Atomic int32_t exporter_pid;
	_Atomic uint64_t exporter_began; /* its start time in /proc/PID/stat; 0 = unknown */
	_Atomic int32_t exporter_error;  /* why it could not start or work: a positive errno */
	_Atomic uint32_t generation;     /* when it changes, the host announces all objects again */
	/*
	 * 1 = no mapped object has call frame information in its file beyond the one that
	 * .eh_frame_hdr leads to
	 */
	_Atomic uint32_t no_frame_tables;
	/*
	 * The counts of the exporter for this process. If the host starts another exporter, the new
	 * one begins with the counts of the old one.
	 */
	_Atomic uint64_t exporter_counter[SP_COUNTER_N];
	_Atomic uint32_t deferred_work; /* SP_WORK_ bits; the host clears them */
	struct sp_region_message message[SP_REGION_MESSAGES];
	uint32_t messages_written; /* by the host: the slot that it reads next */
};

/*
 * The region that the host uses. Written in APP and INIT by one thread at a time. A host that
 * starts another exporter continues in a new region. The addresses of the old regions stay valid
 * (sp_region_discard()), because other threads may still be using them; so a pointer that was read
 * from this variable stays valid, too.
 *
 * Before the start, and in a forked child that has done nothing yet, the region is
 * sp_region_nowhere. No other process maps this region, so writes do no harm, and nobody reads
 * them.
 */
extern struct sp_region sp_region_nowhere;
SP_HIDDEN _Atomic(struct sp_region *) sp_region;
/* The value of struct sp_region.own_object in regions that are made from now on. INIT. */
extern uint64_t sp_region_own_object[SP_REGION_OBJECTS];
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
 * The maximum number of regions, including those that were given up within the last minute. A
 * forked worker continues in a new region each time when the sibling that started the exporter
 * ends.
 */
#define SP_REGIONS_MAX 16U

/*
 * APP. Makes and maps a region with parts of these sizes (rounded up to whole pages). *made is
 * NULL, or a discarded region of the same sizes, whose address the new one gets. Returns the
 * descriptor (at least 3, close-on-exec, sealed against changes of size), which the caller passes
 * to the exporter and closes, or a negative errno: -EFBIG: RLIMIT_FSIZE would raise SIGXFSZ;
 * -ENOSPC: too many regions. errno and signals are preserved.
 */
int sp_region_make(const uint64_t bytes[SP_REGION_PARTS], struct sp_region **made);

/*
 * APP. From now on the host uses that region, and its labels of threads and durations of roots;
 * &sp_region_nowhere = none.
 */
void sp_region_use(struct sp_region *r);

/*
 * APP, one thread at a time. Gives back the memory of a region that was replaced. A thread may be
 * stopped for any time between reading a pointer into the region and writing there, so nobody knows
 * when the addresses are free. So the addresses stay mapped, as private memory that is all zero: a
 * late write harms nobody, and only takes a page of memory. sp_region_make() may make another
 * region at these addresses. errno preserved.
 */
void sp_region_discard(struct sp_region *r);

/* sp_region_make() and sp_region_use(). */
int sp_region_create(const uint64_t bytes[SP_REGION_PARTS]);

/*
 * APP, INIT. The address of a part of a region that was made here; NULL if the part has no bytes,
 * or there is no such region.
 */
void *sp_region_part(const struct sp_region *r, enum sp_region_parts part, uint64_t *bytes);

/*
 * In a forked child: the regions belong to the parent, and the child has none from now on. The
 * parent's regions stay mapped until the child makes one, because most children end or execute
 * another program before that.
 */
void sp_region_forked(void);

/*
 * APP. In a forked child that has made no region: adds to a counter in its parent's region, if the
 * parent has one.
 */
void sp_region_count_in_parent(enum sp_counter c, uint64_t n);

#endif
