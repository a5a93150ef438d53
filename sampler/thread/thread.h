/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block of a sampled thread: all data that we store per thread, 8 KiB outside of thread-local
 * storage. The thread finds its block through one initial-exec TLS pointer, the signal handler
 * through the cookie of the timer. Blocks are reused; the timer of a block is deleted before the
 * block is freed, so that no timer names the block of another thread.
 *
 * Writers of a block are the owning thread, its signal handler, and, if the owner never called a
 * hook, the thread that finds it in /proc and enrols it. A map from thread id to block decides
 * races by one compare-and-swap.
 */
#ifndef SP_THREAD_H
#define SP_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/context/thread_context.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/region/record.h"
#include "sampler/unwind/unwind_sig.h"

#define SP_THREADS_MAX 16384U
/* PID_MAX_LIMIT of 64-bit Linux (include/linux/threads.h). */
#define SP_TID_MAX 4194304U

/*
 * A timer's id + 1 is stored, because 0 is a valid timer id of the kernel, and a new block contains
 * zeros.
 */
#define SP_THREAD_TIMER_NONE 0

/*
 * A thread whose creator asked for a smaller stack gets no timer. The smallest stack is 16 KiB: the
 * kernel's signal frame takes 3 to 11 KiB of it and our handler up to 7, and the host has sized it
 * for its own work, which may include nested handlers.
 */
#define SP_THREAD_STACK_LEAST 32768U

/* The first frames of the sample in progress; they lie in the first page of the block. */
#define SP_THREAD_FRAMES_NEAR 64U

/* CPU time that no sample covers (thread_account.h). */
struct sp_thread_account {
	_Atomic uint64_t since_ns;   /* the thread's CPU clock when counting began */
	_Atomic uint64_t settled_ns; /* covered by its samples and records; also the handler */
	_Atomic uint64_t told_ns;    /* of it, by records since its last sample; also the handler */
	_Atomic bool outside;        /* a sample was taken in no span, or lost; also the handler */
};

/* The values of a thread's clocks at one moment (span_times.h); counts may wrap. */
struct sp_thread_part_edge {
	uint64_t wall_ns;
	uint64_t cpu_ns;
	uint32_t faults; /* major ones */
	uint32_t voluntary;
	uint32_t involuntary;
	uint64_t allocated; /* bytes */
};

/*
 * The part of a local root's time that the thread is in (span_times.h). A thread that ends the root
 * of another thread reads the atomic members.
 */
struct sp_thread_part {
	_Atomic uint64_t root_id; /* 0 = the thread is in no root */
	_Atomic uint32_t root_ref;
	_Atomic uint64_t cpu_ns; /* the thread's CPU clock when the part began */
	struct sp_thread_part_edge begun;
};

/* The part of a local root that the thread is in, for the CPU time of its name (root_cpu.h); owner only. */
struct sp_thread_root_cpu {
	uint64_t random; /* state of the generator */
	uint64_t
		root_id; /* whose label the thread has, or had last; 0 = its stack was empty since */
	bool is_watched; /* the part is measured, or the stack has several roots */
	bool is_mixed;
	bool is_measured;
	bool is_running; /* the thread has the label, and has had it since from_ns */
	uint8_t shift;
	uint32_t edges;   /* readings of the clock */
	uint32_t name_id; /* of the measured part */
	/* The span that was started here last and did not become active by that. */
	uint32_t started_name;
	uint64_t started_id;
	uint64_t started_root;
	uint64_t from_ns;
	uint64_t sum_ns;
};

/* Why a thread has no timer. */
enum sp_unarmed {
	SP_UNARMED_NOT,     /* it has a timer, or none was tried */
	SP_UNARMED_LIMIT,   /* RLIMIT_SIGPENDING (sp_timer_limit_read()) */
	SP_UNARMED_REFUSED, /* by the kernel */
	SP_UNARMED_STACK,   /* its stack, or alternate signal stack, is too small for a signal */
	SP_UNARMED_SHARED,  /* another thread has the same alternate signal stack */
	SP_UNARMED_N
};

struct sp_thread {
	_Atomic uint32_t tid; /* 0 = free, or claimed and not yet enrolled */
	uint32_t index;
	_Atomic uint32_t next_free; /* index + 1; only while free */
	_Atomic int timer;          /* kernel timer id + 1, SP_THREAD_TIMER_NONE if there is none */
	bool in_handler;            /* own handler */
	_Atomic bool is_taken;      /* a thread uses it, or used it until it ended unseen */
	_Atomic uint8_t unarmed;    /* enum sp_unarmed, of the last attempt */
	_Atomic uint32_t alternate_bytes; /* size of its alternate stack when last seen; 0 = none */
	_Atomic uintptr_t alternate_at;   /* address of that stack; 0 = none */
	_Atomic uint32_t stack_bytes;  /* that its creator asked for; 0 = unknown, or the default */
	struct sp_stack_bounds bounds; /* own handler */
	struct sp_stack_bounds
		allocation_bounds; /* the same, of samples of allocations, which it may interrupt */
	uint32_t allocated_levels; /* a bit for each level whose label has such a sample */
	struct sp_span_spare spare;
	struct sp_thread_account account;
	struct sp_thread_part part;
	struct sp_thread_root_cpu root_cpu;
	void *(*start)(void *); /* set by the creator: the host's start routine */
	void *start_arg;
	/* Own handler only: a struct sp_sample without its frames from SP_THREAD_FRAMES_NEAR on. */
	uint64_t scratch[SP_SAMPLE_HEAD_WORDS + SP_THREAD_FRAMES_NEAR];
	struct sp_thread_context context; /* read by profilers outside of the process, too */
	struct sp_span_stack spans;
	/*
	 * The ids of those labels, by level - 1. A label's frame may be removed before its level is
	 * popped.
	 */
	uint64_t allocated_label[SP_MANUAL_LABEL_DEPTH_MAX];
	uint64_t far_frames[SP_FRAMES_MAX - SP_THREAD_FRAMES_NEAR];
};

_Static_assert(sizeof(struct sp_thread) <= 8192, "a block is two pages");
_Static_assert(offsetof(struct sp_thread, spans.frame[64]) <= 4096,
	       "few threads have deeper stacks of frames or spans, so few need the second page");

/* The thread's sample in progress; it has room only for the near frames. */
static inline SP_SIGSAFE struct sp_sample *sp_thread_scratch(struct sp_thread *t)
{
	return (struct sp_sample *)(void *)t->scratch;
}

/* The calling thread's block; NULL until it is enrolled. The handler reads it. */
extern SP_TLS struct sp_thread *sp_thread_own;
/* Set when the calling thread is no longer sampled: it is never enrolled again. */
extern SP_TLS bool sp_thread_excluded;

/* Gives the calling thread that block; NULL = none. */
static inline SP_SIGSAFE void sp_thread_has(struct sp_thread *t)
{
	sp_thread_own = t;
	sp_span_spare_own = t != NULL ? &t->spare : NULL;
	if (t != NULL)
		atomic_store_explicit(&t->is_taken, true, memory_order_relaxed);
}

/* APP, at activation. Reserves blocks and map. Idempotent. 0 or -ENOMEM. */
int sp_thread_init(void);

/*
 * APP. The calling thread's block; enrols the thread and starts its timer at first need. NULL =
 * impossible.
 */
struct sp_thread *sp_thread_self(void);

/* APP. Counts a thread that has a label, but no block. */
void sp_thread_count_missing(void);
/*
 * APP. A block for a thread that is about to be created; sp_thread_unclaim() frees it if the
 * creation fails.
 */
struct sp_thread *sp_thread_claim(void);
void sp_thread_unclaim(struct sp_thread *t);
/* Called first in the new thread. Replaces the block of an earlier thread with the same id. */
void sp_thread_born(struct sp_thread *t);
/*
 * The two steps of sp_thread_ended(), which settles the thread's account between them. The calling
 * thread has no block from now on and is never enrolled again. Returns the block that it had; NULL
 * = none.
 */
struct sp_thread *sp_thread_unbind(void);
/*
 * Deletes the timer of that block and frees it. Below a seccomp filter (seccomp.h) timer and block
 * stay, which is harmless: the timer of an ended thread never fires.
 */
void sp_thread_release(struct sp_thread *t);

/*
 * A thread whose creator asks for a stack below SP_THREAD_STACK_LEAST while nothing is sampled.
 * Such a thread has no block that could say so. A thread that finds it later would give it a timer,
 * and the signal would overrun the small stack.
 */
struct sp_small_thread {
	_Atomic uint32_t tid;         /* 0 = the entry is free */
	_Atomic uint32_t stack_bytes; /* a scan may read it while the entry gets another owner */
	void *(*start)(void *);
	void *start_arg;
};
/*
 * APP, for the creator. NULL if the stack is large enough, or if there are too many small ones; in
 * the latter case only threads that call a hook get a timer from then on.
 */
struct sp_small_thread *sp_small_thread_make(uint32_t stack_bytes);
/* APP. Whether there has been a thread with a small stack. */
bool sp_small_thread_made(void);
/* APP, called first in a new thread with a small stack. */
void sp_small_thread_born(struct sp_small_thread *s);
/* APP: the thread ends, or could not be created. */
void sp_small_thread_ended(struct sp_small_thread *s);

/* APP. Enrols a thread that never called a hook. True if it had no timer and got one. */
bool sp_thread_enrol(uint32_t tid);
/*
 * APP. Frees the blocks of threads that no longer exist, some blocks per call. False if the next
 * call has to continue.
 */
bool sp_thread_free_ended(void);
/* APP. Deletes every timer, and from now on starts none; blocks and stacks of spans stay usable. */
void sp_thread_disarm_all(void);
/*
 * APP. Reverses sp_thread_disarm_all(): the calling thread gets a timer again, other threads get
 * theirs with the next scan.
 */
void sp_thread_arm_again(void);
/*
 * APP, after sp_thread_disarm_all(). Waits until no other thread is in our handler or has a signal
 * for it pending, at most most_ns.
 */
void sp_thread_wait_for_handlers(uint64_t most_ns);
/*
 * Forked child, only thread: forgets all other threads and their timers. The caller's span stack
 * stays, in another block. Returns the number of its former block.
 */
uint32_t sp_thread_forked(void);
/* APP, calling thread: enrols it, and starts a timer if it has none (after a fork). */
void sp_thread_rearm(void);
/*
 * APP, around a call by which the calling thread may change its alternate stack. The thread has no
 * timer meanwhile, nor afterwards if the new stack is too small. errno preserved.
 */
bool sp_thread_alternate_begin(void);
void sp_thread_alternate_end(void);
/*
 * APP. Checks the alternate stack again, for a thread that has changed it by the raw system call,
 * or that shared it with a thread that may have ended.
 */
void sp_thread_alternate_check(void);
/* APP. Spans are not followed any more: withdraws thread and process context. */
void sp_thread_unpublish(void);
/*
 * Any context. Deletes the timers of threads whose alternate stack is too small, or shared, because
 * our handler runs on alternate stacks from now on.
 */
SP_SIGSAFE void sp_thread_disarm_unfit(void);
/*
 * Any context. Why the kernel must not send that thread our signal: the stack on which the kernel
 * would deliver it has no room, or is shared. SP_UNARMED_NOT = it may. Stops using alternate
 * stacks, if that is possible and suffices.
 */
SP_SIGSAFE enum sp_unarmed sp_thread_unfit(const struct sp_thread *t);
/* Any context. Stores and counts the reason why a thread has no timer. */
SP_SIGSAFE void sp_thread_unarmed_count(struct sp_thread *t, enum sp_unarmed why);
/*
 * SIG. Reads the calling thread's alternate stack from the interrupted context. False if the thread
 * must get no more signals; then it has no timer from now on.
 */
SP_SIGSAFE bool sp_thread_alternate_seen(struct sp_thread *t, const void *ucontext,
					 const void *frame);
/*
 * SIG. Bytes of the thread's stored alternate stack below that frame; SIZE_MAX if the frame is not
 * on it. A handler with SS_AUTODISARM runs on such a stack while the kernel says that the thread
 * has none.
 */
SP_SIGSAFE size_t sp_thread_alternate_room(const struct sp_thread *t, const void *frame);
/* APP. The sampling signal has changed (sp_signals_keep()): makes every timer anew. */
void sp_thread_timers_move(int signo);
/* APP: the number of blocks with a timer. */
uint32_t sp_thread_armed(void);
/* APP: whether another block may have a timer. */
bool sp_thread_may_arm(void);
/* APP: the number of blocks that belong to a thread. */
uint32_t sp_thread_known(void);
/*
 * APP: the number of threads without a timer, by reason. Counts all blocks, or SP_THREAD_LOOK_MAX
 * per call; then a result may be some calls old. False if another thread is counting.
 */
bool sp_thread_unarmed(uint32_t by[SP_UNARMED_N], bool all);
/* APP: from now on there are at most this many timers; existing ones stay. */
void sp_thread_limit(uint64_t timers);

/*
 * Any context. The kernel's present name of the calling thread, padded with NUL; all NUL if the
 * kernel refuses. One system call: a name can be set in many ways (prctl, a file in /proc, another
 * thread), and a copy of ours would miss some.
 */
SP_SIGSAFE void sp_thread_name_own(char name[SP_THREAD_NAME_BYTES]);

/*
 * Whether the thread with that id has its own thread-local storage; known once the program's
 * functions run in the thread. A raw clone() without CLONE_SETTLS makes a thread on the storage of
 * its creator: our variables there belong to the creator, which runs at the same time. At most two
 * system calls; errno preserved.
 */
SP_SIGSAFE bool sp_thread_has_storage(uint32_t tid);

/* Any context. The block with that index; NULL = it was never handed out. */
SP_SIGSAFE struct sp_thread *sp_thread_at(uint32_t index);

/* APP. The same, without a look-up if the block is the caller's own, which is usual. */
static inline struct sp_thread *sp_thread_of(uint32_t index)
{
	struct sp_thread *own = sp_thread_own;

	return own != NULL && own->index == index ? own : sp_thread_at(index);
}

/* linux/posix-timers_types.h: CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK in the low bits. */
#define SP_THREAD_CPU_CLOCK(tid) ((clockid_t)((~(uint32_t)(tid) << 3) | 6U))

/* APP, at activation. Sets period, signal and cookie of all timers that are started from now on. */
void sp_thread_timer_set(int signo, uint64_t period_ns, uint32_t cookie);
uint64_t sp_thread_timer_period_ns(void);
/*
 * APP. Starts a timer on the CPU clock of thread tid. It sends the thread our signal once per
 * period of CPU time; the first expiry is uniform in (0, period]. si_value has cookie << 32 |
 * index. Returns the kernel's timer id or a negative errno. errno preserved.
 */
int sp_thread_timer_arm(uint32_t tid, uint32_t index);

/* Any context. Deletes a timer. errno preserved. */
SP_SIGSAFE void sp_thread_timer_delete(int id);
/* Deletes a timer that the table counts as armed. */
SP_SIGSAFE void sp_thread_timer_drop(int id);

/*
 * How many timers we may have. Each timer holds one entry of RLIMIT_SIGPENDING as long as it
 * exists. All processes of the user share these entries, and the host's sigqueue(3) and
 * timer_create(2) fail when none is free. So we take at most half of them. APP.
 */

/*
 * Computes the limit from a line of /proc/PID/status, for a process with `ours` timers of ours.
 * False if the line does not have the numbers.
 */
bool sp_timer_limit_of(const char *line, uint32_t ours, uint64_t *timers);

/*
 * Asks the kernel and sets the limit for sp_thread_may_arm(). Without /proc the limit does not
 * change.
 */
void sp_timer_limit_read(void);

/* The host waits while its call reads blocks, so one call reads at most this many. */
#define SP_THREAD_LOOK_MAX 256U
/* One call reads at most this many blocks if each block takes a system call. */
#define SP_THREAD_ASK_MAX 128U

/*
 * One call reads at most this many threads in /proc, which takes about 0.1 ms: the kernel makes an
 * entry for each thread that it lists. A call reads the directory in pieces of this many bytes; an
 * entry takes 24 bytes.
 */
#define SP_THREAD_SCAN_MAX 24U
#define SP_THREAD_SCAN_BYTES (SP_THREAD_SCAN_MAX * 24U)

/*
 * Enrols other threads of the process, continuing after the last call, and at the end frees blocks
 * of threads that are gone: at most SP_THREAD_SCAN_MAX threads, or SP_THREAD_ASK_MAX blocks. False
 * if the next call has to continue. Opens and closes one directory; without /proc it does nothing.
 */
bool sp_thread_scan(void);

/* The table of blocks, for the files of this folder, thread_account.c and span_times.c. */
#define SP_THREAD_STRIDE 8192U

/*
 * Blocks, and the map from thread ids to blocks, are mapped piece by piece when they are needed:
 * all at once would take 136 MiB of address space, which the host's RLIMIT_AS may limit.
 */
#define SP_THREAD_SLAB 256U /* blocks */
#define SP_THREAD_SLABS (SP_THREADS_MAX / SP_THREAD_SLAB)
#define SP_TID_LEAF 65536U /* thread ids */
#define SP_TID_LEAVES (SP_TID_MAX / SP_TID_LEAF)

struct sp_thread_table {
	char *_Atomic slab[SP_THREAD_SLABS]; /* mapped before its first block is handed out */
	_Atomic uint16_t *_Atomic leaf[SP_TID_LEAVES]; /* sp_thread_by_tid() */
	bool ready;
	uint32_t cookie; /* upper half of our timers' si_value, beside the index of the block */
	_Atomic uint32_t used;  /* blocks ever handed out */
	uint32_t limit;         /* at most this many blocks */
	_Atomic uint64_t free;  /* top of the free stack: change count << 32 | index + 1 */
	_Atomic uint32_t known; /* sp_thread_known() */
	_Atomic uint32_t armed;
	_Atomic uint32_t armed_max; /* sp_timer_limit_read() */
	_Atomic bool closed;        /* start no more timers */
};

extern struct sp_thread_table sp_thread_table;

/*
 * The entry of the map for thread tid: the index + 1 of its block, 0 = none. NULL for an id that
 * the kernel does not assign, and without memory. APP.
 */
_Atomic uint16_t *sp_thread_by_tid(uint32_t tid);

/*
 * At activation and in a forked child: sets the limit of timers that holds until the first
 * sp_timer_limit_read().
 */
void sp_thread_limit_init(void);
/*
 * Starts a timer for a block that is bound to tid; another thread may free the block, and it may be
 * reused, at any time.
 */
void sp_thread_arm(struct sp_thread *t, uint32_t tid);
/*
 * Any context. Deletes the thread's timer. If the process continues after all, the next scan starts
 * a new timer.
 */
SP_SIGSAFE void sp_thread_disarm(struct sp_thread *t);

/*
 * The account of a thread that is about to get that block begins: its clock is read. In
 * thread_table.c, because a block gets its account when it is bound.
 */
void sp_thread_account_begin(struct sp_thread *t, uint32_t tid);
/* The account begins at that value of the thread's CPU clock. */
void sp_thread_account_begin_at(struct sp_thread *t, uint64_t cpu_ns);

#endif
