/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and deletes the CPU timers of threads, and decides which threads may have one.
 *
 * A sampled thread needs a timer of its own, but a timer can hurt the host. A signal on a stack
 * that is too small overruns it. Timers use up RLIMIT_SIGPENDING, which the host needs too. Below a
 * seccomp filter a system call of ours may kill the process. In each of these cases the thread has
 * no timer, and the reason is counted; a timer is tried again when the reason may be gone.
 *
 * Several threads may arm and disarm the same thread at once. The timer id in the thread's block is
 * set and taken by one atomic exchange; the loser deletes the timer that it has made. Contexts: APP
 * (the thread itself, or the one that creates or finds it); lock-free. thread.h says who may do
 * what.
 */
#include "sampler/thread/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/base/monotonic.h"
#include "sampler/base/process.h"
#include "sampler/base/random.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/base/try_lock.h"
#include "sampler/thread/signals.h"

/* A line of /proc/self/status. */
#define QUEUED "SigQ:"

static _Atomic int timer_signo;
static uint64_t timer_period_ns;

void sp_thread_timer_set(int signo, uint64_t period_ns, uint32_t cookie)
{
	atomic_store_explicit(&timer_signo, signo, memory_order_seq_cst);
	timer_period_ns = period_ns;
	sp_thread_table.cookie = cookie;
}

static int signal_of_timers(void)
{
	return atomic_load_explicit(&timer_signo, memory_order_seq_cst);
}

uint64_t sp_thread_timer_period_ns(void)
{
	return timer_period_ns;
}

/* The first expiry. Threads that are born at the same moment get different ones. */
static struct timespec phase(uint32_t tid)
{
	struct timespec now = {0, 0};
	uint64_t ns;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	ns = 1 +
	     sp_random_scramble((uint64_t)now.tv_nsec * 2654435761U + (uint64_t)now.tv_sec + tid) %
		     timer_period_ns;
	return (struct timespec){.tv_sec = (time_t)(ns / SP_NS_PER_S),
				 .tv_nsec = (long)(ns % SP_NS_PER_S)};
}

/*
 * The kernel lets CPU timers expire at its tick only. If a CPU quota (cpu.max of the cgroup) stops
 * the process, its period is a multiple of the tick, so work just after the quota is refilled may
 * be sampled too often (LIMITATIONS in spanprof(7)).
 */
int sp_thread_timer_arm(uint32_t tid, uint32_t index)
{
	int saved = errno;
	int id = -1;
	struct sigevent sev;
	struct itimerspec its = {
		.it_interval = {.tv_sec = (time_t)(timer_period_ns / SP_NS_PER_S),
				.tv_nsec = (long)(timer_period_ns % SP_NS_PER_S)},
		.it_value = phase(tid),
	};

	memset(&sev, 0, sizeof(sev));
	sev.sigev_notify = SIGEV_THREAD_ID;
	sev.sigev_signo = signal_of_timers();
	sev.sigev_value.sival_ptr =
		(void *)(uintptr_t)((uint64_t)sp_thread_table.cookie << 32 | index);
	sev._sigev_un._tid = (pid_t)tid;
	if (sp_syscall(SYS_timer_create, SP_THREAD_CPU_CLOCK(tid), &sev, &id) != 0) {
		id = -errno;
	} else if (sp_syscall(SYS_timer_settime, id, 0, &its, NULL) != 0) {
		int err = errno;

		sp_thread_timer_delete(id);
		id = -err;
	}
	errno = saved;
	return id;
}

#define TABLE (&sp_thread_table)

void sp_thread_limit_init(void)
{
	struct rlimit pending = {0, 0};
	uint64_t most = SP_THREADS_MAX;
	int saved = errno;

	if (sp_syscall(SYS_prlimit64, 0, RLIMIT_SIGPENDING, NULL, &pending) == 0)
		most = pending.rlim_cur / 2;
	sp_thread_limit(most);
	atomic_store_explicit(&TABLE->closed, false, memory_order_relaxed);
	errno = saved;
}

void sp_thread_limit(uint64_t timers)
{
	uint32_t most = timers < SP_THREADS_MAX ? (uint32_t)timers : SP_THREADS_MAX;

	atomic_store_explicit(&TABLE->armed_max, most, memory_order_relaxed);
}

static const char *read_number(const char *at, uint64_t *n)
{
	at += strspn(at, " \t");
	return sp_text_number(&at, 10, n) ? at : NULL;
}

/* "SigQ:\t18/96551": entries in use by the user, and this process's limit (fs/proc/array.c). */
bool sp_timer_limit_of(const char *line, uint32_t ours, uint64_t *timers)
{
	const char *at = line + strlen(QUEUED);
	uint64_t others;
	uint64_t limit;

	at = strncmp(line, QUEUED, strlen(QUEUED)) == 0 ? read_number(at, &others) : NULL;
	if (at == NULL || *at != '/' || read_number(at + 1, &limit) == NULL)
		return false;
	/*
	 * The kernel prints a signed count as an unsigned number; it may be below zero for a
	 * moment.
	 */
	if (others > INT32_MAX)
		others = 0;
	others = others > ours ? others - ours : 0;
	*timers = limit / 2 > others ? limit / 2 - others : 0;
	return true;
}

void sp_timer_limit_read(void)
{
	char line[SP_PROC_STATUS_LINE];
	uint64_t timers;

	if (sp_proc_line("/proc/self/status", QUEUED, line, sizeof(line)) > 0 &&
	    sp_timer_limit_of(line, sp_thread_armed(), &timers))
		sp_thread_limit(timers);
}

uint32_t sp_thread_armed(void)
{
	return atomic_load_explicit(&TABLE->armed, memory_order_relaxed);
}

/*
 * To be called again after the timer was made; pairs with sp_thread_disarm_all() and with the
 * release of the block. Either those see the new timer, or this function sees their store.
 */
static bool may_stay_armed(struct sp_thread *t, uint32_t tid, int signo)
{
	_Atomic uint16_t *slot = sp_thread_by_tid(tid);

	return !atomic_load_explicit(&TABLE->closed, memory_order_seq_cst) && slot != NULL &&
	       atomic_load_explicit(slot, memory_order_seq_cst) == t->index + 1 &&
	       signal_of_timers() == signo && sp_thread_unfit(t) == SP_UNARMED_NOT;
}

/* The id of a new timer, or a negative errno. */
static int make_timer(const struct sp_thread *t, uint32_t tid)
{
	int id;

	if (sp_thread_timer_period_ns() == 0)
		return -ENODATA;
	if (atomic_fetch_add_explicit(&TABLE->armed, 1, memory_order_relaxed) <
	    atomic_load_explicit(&TABLE->armed_max, memory_order_relaxed))
		id = sp_thread_timer_arm(tid, t->index);
	else
		id = -EDQUOT;
	if (id < 0)
		atomic_fetch_sub_explicit(&TABLE->armed, 1, memory_order_relaxed);
	return id;
}

void sp_thread_arm(struct sp_thread *t, uint32_t tid)
{
	int none = SP_THREAD_TIMER_NONE;
	int signo = signal_of_timers();
	enum sp_unarmed why;
	int mine;
	int id;

	if (atomic_load_explicit(&TABLE->closed, memory_order_relaxed) || sp_seccomp_is_on())
		return;
	why = sp_thread_unfit(t);
	if (why != SP_UNARMED_NOT) {
		sp_thread_unarmed_count(t, why);
		return;
	}
	id = make_timer(t, tid);
	if (id < 0) {
		/* A thread may end between our check and the kernel's; then it needs no timer. */
		if (id == -EDQUOT)
			sp_thread_unarmed_count(t, SP_UNARMED_LIMIT);
		else if (!sp_process_thread_is_gone(tid))
			sp_thread_unarmed_count(t, SP_UNARMED_REFUSED);
		return;
	}
	mine = id + 1;
	if (!atomic_compare_exchange_strong_explicit(&t->timer, &none, mine, memory_order_seq_cst,
						     memory_order_relaxed) ||
	    (!may_stay_armed(t, tid, signo) &&
	     atomic_compare_exchange_strong_explicit(&t->timer, &mine, SP_THREAD_TIMER_NONE,
						     memory_order_seq_cst, memory_order_relaxed)))
		sp_thread_timer_drop(id);
	else
		sp_thread_unarmed_count(t, SP_UNARMED_NOT);
}

bool sp_thread_may_arm(void)
{
	return sp_thread_armed() < atomic_load_explicit(&TABLE->armed_max, memory_order_relaxed);
}

static void arm_if_unarmed(struct sp_thread *t, uint32_t tid)
{
	if (atomic_load_explicit(&t->timer, memory_order_relaxed) == SP_THREAD_TIMER_NONE &&
	    sp_thread_may_arm())
		sp_thread_arm(t, tid);
}

/*
 * Starts a timer for the calling thread after a fork or a late start. Not in a child of vfork():
 * the ids in our blocks name the parent's timers, and in the child no timer or another one.
 */
void sp_thread_rearm(void)
{
	struct sp_thread *t = sp_process_is_ours() ? sp_thread_self() : NULL;

	if (t != NULL)
		arm_if_unarmed(t, atomic_load_explicit(&t->tid, memory_order_relaxed));
}

/*
 * Another thread may have given this thread a block and a timer. Until our handler has run here,
 * this thread does not know its block; so it looks the block up now. A thread on the thread-local
 * storage of another thread has no block, and must not change the block of that thread.
 */
bool sp_thread_alternate_begin(void)
{
	struct sp_thread *t = sp_thread_self();

	if (t == NULL ||
	    atomic_load_explicit(&t->tid, memory_order_relaxed) != (uint32_t)sp_syscall(SYS_gettid))
		return false;
	sp_signals_check(true);
	if (sp_signals_on_alternate_stack())
		sp_thread_disarm(t);
	return true;
}

void sp_thread_alternate_end(void)
{
	struct sp_thread *t = sp_thread_own;
	struct sp_alternate_stack now = sp_alternate_stack_own();

	sp_alternate_stack_store(t, &now);
	arm_if_unarmed(t, atomic_load_explicit(&t->tid, memory_order_relaxed));
}

void sp_thread_alternate_check(void)
{
	struct sp_alternate_stack now = sp_alternate_stack_own();
	struct sp_thread *t = sp_thread_own;

	if (t == NULL)
		return;
	if (atomic_load_explicit(&t->alternate_at, memory_order_relaxed) == now.at &&
	    atomic_load_explicit(&t->alternate_bytes, memory_order_relaxed) == now.bytes &&
	    atomic_load_explicit(&t->unarmed, memory_order_relaxed) != SP_UNARMED_SHARED)
		return;
	if (sp_thread_alternate_begin())
		sp_thread_alternate_end();
}

void sp_thread_timers_move(int signo)
{
	uint32_t n = atomic_load_explicit(&TABLE->used, memory_order_acquire);

	/*
	 * The new signal is stored first: a thread that starts a timer at this moment checks the
	 * signal once more afterwards.
	 */
	atomic_store_explicit(&timer_signo, signo, memory_order_seq_cst);
	for (uint32_t i = 0; i < n; i++) {
		struct sp_thread *t = sp_thread_at(i);
		uint32_t tid = atomic_load_explicit(&t->tid, memory_order_acquire);

		sp_thread_disarm(t);
		if (tid != 0)
			sp_thread_arm(t, tid);
	}
}

void sp_thread_disarm_all(void)
{
	uint32_t n = atomic_load_explicit(&TABLE->used, memory_order_acquire);

	atomic_store_explicit(&TABLE->closed, true, memory_order_seq_cst);
	for (uint32_t i = 0; i < n; i++)
		sp_thread_disarm(sp_thread_at(i));
}

/* Whether that signal is pending for that thread alone. False if that is unknown. */
static bool is_pending(uint32_t tid, int signo)
{
	static const char start[] = "SigPnd:"; /* fs/proc/array.c, task_sig */
	char path[48];
	char line[SP_PROC_STATUS_LINE];
	const char *at = line + sizeof(start) - 1;
	int saved = errno;
	uint64_t pending = 0;

	(void)sp_fmt_snprintf(path, sizeof(path), "/proc/self/task/%u/status", tid);
	if (sp_proc_line(path, start, line, sizeof(line)) > 0) {
		at += strspn(at, " \t");
		(void)sp_text_number(&at, 16, &pending);
	}
	errno = saved;
	return (pending >> (signo - 1) & 1) != 0;
}

/*
 * The kernel removes a signal from the pending ones a moment before the handler begins; a thread
 * that is checked in that moment counts as done.
 */
void sp_thread_wait_for_handlers(uint64_t most_ns)
{
	uint32_t n = atomic_load_explicit(&TABLE->used, memory_order_acquire);
	uint64_t end = sp_monotonic_ns() + most_ns;
	int signo = signal_of_timers();

	for (uint32_t i = 0; i < n; i++) {
		const struct sp_thread *t = sp_thread_at(i);
		uint32_t tid = atomic_load_explicit(&t->tid, memory_order_acquire);

		while (t != sp_thread_own && tid != 0 &&
		       (__atomic_load_n(&t->in_handler, __ATOMIC_RELAXED) ||
			is_pending(tid, signo))) {
			if (sp_monotonic_ns() >= end)
				return;
			(void)sp_syscall(SYS_sched_yield);
		}
	}
}

void sp_thread_arm_again(void)
{
	atomic_store_explicit(&TABLE->closed, false, memory_order_seq_cst);
	sp_thread_rearm();
}

uint32_t sp_thread_known(void)
{
	return atomic_load_explicit(&TABLE->known, memory_order_relaxed);
}

/*
 * The state of a count over several calls: the next block, the sums so far, and the last complete
 * sums.
 */
static struct sp_try_lock counting;
static uint32_t next_to_count;
static uint32_t so_far[SP_UNARMED_N], counted[SP_UNARMED_N];

static void count_if_unarmed(const struct sp_thread *t)
{
	uint8_t why = atomic_load_explicit(&t->unarmed, memory_order_relaxed);

	if (atomic_load_explicit(&t->tid, memory_order_acquire) != 0 &&
	    atomic_load_explicit(&t->timer, memory_order_relaxed) == SP_THREAD_TIMER_NONE)
		so_far[why < SP_UNARMED_N ? why : 0]++;
}

bool sp_thread_unarmed(uint32_t by[SP_UNARMED_N], bool all)
{
	uint32_t n = atomic_load_explicit(&TABLE->used, memory_order_acquire);
	uint32_t most = all ? SP_THREADS_MAX : SP_THREAD_LOOK_MAX;

	if (!sp_try_lock_once(&counting))
		return false;
	/* In a forked child most blocks are gone. */
	if (all || next_to_count >= n) {
		next_to_count = 0;
		memset(so_far, 0, sizeof(so_far));
	}
	for (; next_to_count < n && most != 0; most--)
		count_if_unarmed(sp_thread_at(next_to_count++));
	if (next_to_count == n)
		memcpy(counted, so_far, sizeof(counted));
	memcpy(by, counted, sizeof(counted));
	sp_unlock(&counting);
	return true;
}
