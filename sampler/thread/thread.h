/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block of a sampled thread: all that is kept per thread, 8 KiB outside of thread-local
 * storage. The thread finds it through one initial-exec TLS pointer, the signal handler through the
 * cookie of the timer. Blocks are reused; the timer of a block is deleted before the block is
 * freed, so that no timer ever names a block of another thread.
 *
 * Writers are the owning thread, its signal handler, and, for a thread that never called a hook,
 * the thread that finds it in /proc and enrols it. A map from thread id to block decides races by
 * one compare-and-swap.
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

/* 0 is a valid timer id of the kernel and also what a new block contains, so id + 1 is stored. */
#define SP_THREAD_TIMER_NONE 0

/*
 * A thread whose creator asked for a smaller stack gets no timer. The smallest stack is 16 KiB: the
 * kernel's signal frame takes 3 to 11 of it and our handler up to 7, and the host sized it for its
 * own work, which may include nested handlers.
 */
#define SP_THREAD_STACK_LEAST 32768U

/* So many frames of the sample that is being made lie in the first page of the block. */
#define SP_THREAD_FRAMES_NEAR 64U

/* CPU time that samples do not stand for (thread_account.h). */
struct sp_thread_account {
	_Atomic uint64_t since_ns;   /* the thread's CPU clock when counting began */
	_Atomic uint64_t settled_ns; /* what its samples and records stand for; also the handler */
	_Atomic uint64_t told_ns;    /* by looks since its last sample; also the handler */
	_Atomic bool outside;        /* a sample was taken in no span, or lost; also the handler */
};

/* The clocks of a thread at a moment (span_times.h); counts may wrap. */
struct sp_thread_part_edge {
	uint64_t wall_ns;
	uint64_t cpu_ns;
	uint32_t faults; /* major ones */
	uint32_t voluntary;
	uint32_t involuntary;
	uint64_t allocated; /* bytes */
};

/*
 * The part of a local root's time that the thread is in (span_times.h). Who ends the root on another thread reads
 * what is atomic.
 */
struct sp_thread_part {
	_Atomic uint64_t root_id; /* 0 = it is in none */
	_Atomic uint32_t root_ref;
	_Atomic uint64_t cpu_ns; /* when it began */
	struct sp_thread_part_edge begun;
};

/* Why a thread has no timer. */
enum sp_unarmed {
	SP_UNARMED_NOT,     /* it has one, or nobody has tried */
	SP_UNARMED_LIMIT,   /* RLIMIT_SIGPENDING (sp_timer_limit_look()) */
	SP_UNARMED_REFUSED, /* by the kernel */
	SP_UNARMED_STACK,   /* it, or its alternate signal stack, is too small for a signal */
	SP_UNARMED_N
};

struct sp_thread {
	_Atomic uint32_t tid; /* 0 = free, or claimed and not yet enrolled */
	uint32_t index;
	_Atomic uint32_t next_free; /* index + 1; only while free */
	_Atomic int timer;          /* kernel timer id + 1, SP_THREAD_TIMER_NONE if there is none */
	bool in_handler;            /* own handler */
	_Atomic bool is_taken;      /* a thread uses it, or did until it ended unseen */
	_Atomic uint8_t unarmed;    /* enum sp_unarmed, of the last try */
	_Atomic uint32_t alternate_bytes; /* of its alternate signal stack as last seen; 0 = none */
	_Atomic uint32_t stack_bytes; /* as its creator asked for; 0 = unknown, or none asked for */
	uint32_t scope_overflows;     /* span.c: scopes that did not fit, and may pile up */
	struct sp_stack_bounds bounds; /* own handler */
	struct sp_stack_bounds
		allocation_bounds; /* the same, of samples of allocations, which it may interrupt */
	uint32_t allocated_levels; /* those whose manual label has such a sample, a bit for each */
	struct sp_span_spare spare;
	struct sp_thread_account account;
	struct sp_thread_part part;
	void *(*start)(void *); /* birth: what the host asked pthread_create to run */
	void *start_arg;
	/* Own handler only: a struct sp_sample without its frames from SP_THREAD_FRAMES_NEAR on. */
	uint64_t scratch[SP_SAMPLE_HEAD_WORDS + SP_THREAD_FRAMES_NEAR];
	struct sp_thread_context context; /* the thread, and profilers outside of the process */
	struct sp_span_stack spans;
	/* The ids of those labels by their level - 1. A label's frame may go before its level is left. */
	uint64_t allocated_label[SP_MANUAL_LABEL_DEPTH_MAX];
	uint64_t far_frames[SP_FRAMES_MAX - SP_THREAD_FRAMES_NEAR];
};

_Static_assert(sizeof(struct sp_thread) <= 8192, "a block is two pages");
_Static_assert(offsetof(struct sp_thread, spans.frame[64]) <= 4096,
	       "few threads have deeper stacks of frames or spans, so few need the second page");

/* The thread's sample, which has room only for the near frames. */
static inline SP_SIGSAFE struct sp_sample *sp_thread_scratch(struct sp_thread *t)
{
	return (struct sp_sample *)(void *)t->scratch;
}

/* The calling thread's block; NULL before it was enrolled. Read by the handler. */
extern SP_TLS struct sp_thread *sp_thread_own;
/* Set when the calling thread has ended for us: never enrolled again. */
extern SP_TLS bool sp_thread_excluded;

/* The calling thread has that block from now on; NULL = none. */
static inline SP_SIGSAFE void sp_thread_has(struct sp_thread *t)
{
	sp_thread_own = t;
	sp_span_spare_own = t != NULL ? &t->spare : NULL;
	if (t != NULL)
		atomic_store_explicit(&t->is_taken, true, memory_order_relaxed);
}

/* APP, at activation. Reserves blocks and map. Idempotent. 0 or -ENOMEM. */
int sp_thread_init(void);

/* APP. The calling thread's block, enrolling and arming it at first need. NULL = cannot. */
struct sp_thread *sp_thread_self(void);

/* APP. That was NULL for a thread with a label. */
void sp_thread_count_missing(void);
/* APP. A block for a thread about to be born; give it back with sp_thread_unclaim on failure. */
struct sp_thread *sp_thread_claim(void);
void sp_thread_unclaim(struct sp_thread *t);
/* First thing in the new thread. Replaces a stale entry of an earlier thread with the same id. */
void sp_thread_born(struct sp_thread *t);
/*
 * Last thing in a thread: its timer is deleted, its block freed, and it is never enrolled again.
 * Below a seccomp filter (seccomp.h) both stay for good, which is harmless: the timer of a thread
 * that has ended never fires.
 */
void sp_thread_ended(void);

/*
 * A thread whose creator asks for a stack below SP_THREAD_STACK_LEAST while nothing is sampled: it has no block that
 * could tell so, and whoever finds it later would give it a timer, whose signal overruns its stack.
 */
struct sp_small_thread {
	_Atomic uint32_t tid;         /* 0 = this place is nobody's */
	_Atomic uint32_t stack_bytes; /* a scan may read it while the place gets another owner */
	void *(*start)(void *);
	void *start_arg;
};
/*
 * APP, its creator. NULL if the stack is no small one, or there are too many; from then on only threads that call us
 * get a timer.
 */
struct sp_small_thread *sp_small_thread_make(uint32_t stack_bytes);
/* APP, the new thread, first of all. */
void sp_small_thread_born(struct sp_small_thread *s);
/* APP: it ends, or could not be made. */
void sp_small_thread_ended(struct sp_small_thread *s);

/* APP. Enrols a thread that never called us. True if it had no timer, so that one was made. */
bool sp_thread_enrol(uint32_t tid);
/* APP. Frees the blocks of threads that no longer exist, of a part of all. False if the next call goes on. */
bool sp_thread_reap(void);
/* APP. Deletes every timer and arms none from now on; blocks and stacks stay usable. */
void sp_thread_disarm_all(void);
/* APP. Takes that back: the calling thread has a timer again, the others with the next scan. */
void sp_thread_arm_again(void);
/*
 * APP, after that. Waits until no other thread is in our handler or has a signal for it pending, at
 * most so long.
 */
void sp_thread_wait_for_handlers(uint64_t most_ns);
/* Forked child, only thread: forgets all others and their timers; keeps the caller's span stack. */
void sp_thread_forked(void);
/* APP, calling thread: enrols it, and arms it if it has no timer (after a fork). */
void sp_thread_rearm(void);
/*
 * APP, around a call by which the calling thread may change its alternate stack: without a timer
 * meanwhile, and afterwards too if the new one is too small. errno preserved.
 */
bool sp_thread_alternate_begin(void);
void sp_thread_alternate_end(void);
/* APP. Spans are not followed any more: the thread and process context are withdrawn. */
void sp_thread_unpublish(void);
/*
 * APP. Our handler runs on alternate stacks from now on: threads with an alternate stack that is
 * too small lose their timer.
 */
void sp_thread_disarm_cramped(void);
/* APP. The sampling signal is another one now (sp_signals_keep()): every timer is made anew. */
void sp_thread_timers_move(int signo);
/* APP: how many blocks have a timer. */
uint32_t sp_thread_armed(void);
/* APP: how many blocks belong to a thread. */
uint32_t sp_thread_known(void);
/* APP: one more may have a timer. */
bool sp_thread_may_arm(void);
/* APP: how many have no timer, by reason. */
void sp_thread_unarmed(uint32_t by[SP_UNARMED_N]);
/* APP: so many timers at most from now on; those that are there stay. */
void sp_thread_limit(uint64_t timers);

/*
 * Any context. The kernel's name of the calling thread as it is now, padded with NUL; all NUL if the kernel does
 * not tell. One system call: a name can be set in many ways (prctl, a file in /proc, another thread), and a copy
 * of ours would miss some of them.
 */
SP_SIGSAFE void sp_thread_name_own(char name[SP_THREAD_NAME_BYTES]);

/*
 * In the thread of that id, once functions of the program's run there. Whether its thread-local storage is its own. A
 * raw clone() without CLONE_SETTLS makes a thread on the storage of its maker: what our variables say there is said of
 * the maker, which runs beside it. Two system calls at most; errno is kept.
 */
SP_SIGSAFE bool sp_thread_has_storage(uint32_t tid);

/* Any context. The block of an index, NULL if it was never handed out. */
SP_SIGSAFE struct sp_thread *sp_thread_at(uint32_t index);

/* APP. The same, which is mostly the caller's own: no look-up then. */
static inline struct sp_thread *sp_thread_of(uint32_t index)
{
	struct sp_thread *own = sp_thread_own;

	return own != NULL && own->index == index ? own : sp_thread_at(index);
}

/* linux/posix-timers_types.h: CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK in the low bits. */
#define SP_THREAD_CPU_CLOCK(tid) ((clockid_t)((~(uint32_t)(tid) << 3) | 6U))

/*
 * APP, at activation. The sampling period, the signal and the cookie of all timers that are armed
 * from now on.
 */
void sp_thread_timer_set(int signo, uint64_t period_ns, uint32_t cookie);
uint64_t sp_thread_timer_period_ns(void);
/*
 * APP. Arms a timer on the CPU clock of thread tid. It sends the thread our signal once per period
 * of CPU time; the first expiry is uniform in (0, period]. si_value carries cookie << 32 | index.
 * Returns the kernel's timer id or a negative errno. errno preserved.
 */
int sp_thread_timer_arm(uint32_t tid, uint32_t index);

/* Deletes it. errno preserved. */
void sp_thread_timer_delete(int id);

/*
 * How many timers we may have. Each timer holds one entry of RLIMIT_SIGPENDING as long as it
 * exists. All processes of the user share these entries, and sigqueue(3) and timer_create(2) of the
 * host fail when none is left. So we take no more than half of them. APP.
 */

/* The limit by that line of /proc/PID/status, for a process that has `ours` timers of ours. False if it does not tell. */
bool sp_timer_limit_of(const char *line, uint32_t ours, uint64_t *timers);

/*
 * Asks the kernel and sets the limit that thread.h obeys. Without /proc the limit stays as it was.
 */
void sp_timer_limit_look(void);

/* So many blocks at most are looked at in a call of the host, which waits for it. */
#define SP_THREAD_LOOK_MAX 256U

/* As many threads without a timer a call looks at, some 0.3 ms. */
#define SP_THREAD_SCAN_MAX 64U

/*
 * Enrols other threads of the process, from where the last call ended, and frees blocks of threads that
 * are gone when it has come to the end; of both SP_THREAD_LOOK_MAX at most. False if there are more: then
 * the next call goes on. Opens and closes one directory descriptor; without /proc it does nothing.
 */
bool sp_thread_scan(void);

/* The table of blocks, for the files of this folder, thread_account.c and span_times.c. */
#define SP_THREAD_STRIDE 8192U

/*
 * Blocks, and the map from thread ids to blocks, are mapped piece by piece as they are needed: all
 * at once would take 136 MiB of address space, which RLIMIT_AS may limit in the host.
 */
#define SP_THREAD_SLAB 256U /* blocks */
#define SP_THREAD_SLABS (SP_THREADS_MAX / SP_THREAD_SLAB)
#define SP_TID_LEAF 65536U /* thread ids */
#define SP_TID_LEAVES (SP_TID_MAX / SP_TID_LEAF)

struct sp_thread_table {
	char *_Atomic
		slab[SP_THREAD_SLABS]; /* mapped before the first of its blocks is handed out */
	_Atomic uint16_t *_Atomic leaf[SP_TID_LEAVES]; /* sp_thread_by_tid() */
	bool ready;
	uint32_t cookie; /* upper half of our timers' si_value, beside the index of the block */
	_Atomic uint32_t used; /* blocks ever handed out */
	uint32_t limit;        /* blocks at most */
	_Atomic uint64_t free; /* top of the free stack: change count << 32 | index + 1 */
	_Atomic uint32_t armed;
	_Atomic uint32_t armed_max; /* sp_timer_limit_look() */
	_Atomic bool closed;        /* arm no more */
};

extern struct sp_thread_table sp_thread_table;

/*
 * The entry of the map for thread tid: the index + 1 of its block, 0 = it has none. NULL for an id
 * that the kernel does not assign, or when there is no memory. APP.
 */
_Atomic uint16_t *sp_thread_by_tid(uint32_t tid);

/*
 * At activation and in a forked child: a limit of timers that holds until sp_timer_limit_look().
 */
void sp_thread_limit_init(void);
/* The block is bound to tid, but another thread may release it, and reuse it, at any time. */
void sp_thread_arm(struct sp_thread *t, uint32_t tid);
/* Its timer is deleted. Where the process goes on after all, the next scan arms it again. */
void sp_thread_disarm(struct sp_thread *t);

/*
 * What thread_table.c asks of thread_account.c when a thread begins and ends. That stands above it: an account is
 * settled with the label of a span, and spans are active on threads.
 */
/* A block is about to be bound to that thread. */
void sp_thread_account_begin(struct sp_thread *t, uint32_t tid);
/*
 * Calling thread: it or the process is about to end. A thread that lives for a few milliseconds
 * usually ends before its first sample, and its span ends before it does. If it was in just one
 * local root in all its life, and no sample was taken outside of it, the rest of its CPU time goes
 * to that root.
 */
void sp_thread_account_end(struct sp_thread *t);

#endif
