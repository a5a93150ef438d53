/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out the requests and the state of a host from its region, its pidfd and /proc.
 *
 * There may be hundreds of processes, and most of them are idle. A process that has used no CPU
 * time has done nothing: its rings are as empty as before, it has the same threads, and is the same
 * program. So the exporter asks the kernel for the CPU time, and leaves the region alone, whose
 * cache lines are far away.
 *
 * A process is active if its rings had records, if a hook cleared the request word, or if its
 * number of threads changed. For other processes the exporter reads the words in the region and
 * asks the kernel for the number of threads. It opens one of their files once in an upload
 * interval, and reads once a second the state of the process that started the exporter.
 */
#define _GNU_SOURCE
#include "export/exporter/wait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "export/export.h"
#include "export/exporter/confinement.h"
#include "export/exporter/rights.h"
#include "export/exporter/view.h"
#include "export/util/clock.h"
#include "export/util/shortage.h"
#include "sampler/base/process.h"

#define STACK_BYTES ((size_t)32 << 10)
/* A correct host does not wake us again so soon. */
#define SOON_NS (20 * SP_NS_PER_MS)
#define PAUSE_MAX_NS (16 * SP_NS_PER_MS)

static void sleep_ns(uint64_t ns)
{
	const struct timespec ts = {.tv_nsec = (long)ns};

	(void)nanosleep(&ts, NULL);
}

/* If the counter of the eventfd is full, a wake is pending anyway. */
static void fire(struct sp_watch *w)
{
	const uint64_t one = 1;

	/* Pairs with the owner's exchange, which then sees the changes before it. */
	atomic_store_explicit(&w->has_fired, true, memory_order_release);
	if (write(w->event, &one, sizeof(one)) < 0)
		sleep_ns(SP_NS_PER_MS);
}

/* How long to ignore wakes after one, so that no process can keep us busy. */
static uint64_t pause_after(uint64_t pause_ns, uint64_t since_ns)
{
	if (since_ns > SOON_NS)
		return 0;
	return pause_ns < PAUSE_MAX_NS ? pause_ns * 2 + SP_NS_PER_MS / 4 : PAUSE_MAX_NS;
}

static void *watch(void *arg)
{
	struct sp_watch *w = arg;
	uint32_t seen = w->seen;
	uint64_t last = 0;
	uint64_t pause_ns = 0;

	while (!atomic_load_explicit(&w->stop, memory_order_acquire)) {
		uint32_t now;

		(void)syscall(SYS_futex, w->wake, FUTEX_WAIT, seen, NULL, NULL, 0);
		now = atomic_load_explicit(w->wake, memory_order_acquire);
		pause_ns = pause_after(pause_ns, sp_clock_mono_ns() - last);
		last = sp_clock_mono_ns();
		if (now != seen)
			fire(w);
		seen = now;
		if (pause_ns != 0)
			sleep_ns(pause_ns);
	}
	return NULL;
}

int sp_watch_start(struct sp_watch *w, _Atomic uint32_t *wake, int event)
{
	pthread_attr_t attr;
	int err;

	w->wake = wake;
	w->event = event;
	/*
	 * The thread will report changes from now on, even those before its beginning. Earlier changes
	 * are reported by the first event, after which everything is read.
	 */
	w->seen = atomic_load_explicit(wake, memory_order_acquire);
	w->runs = false;
	atomic_store_explicit(&w->stop, false, memory_order_relaxed);
	err = pthread_attr_init(&attr);
	if (err == 0) {
		(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
		err = pthread_create(&w->thread, &attr, watch, w);
		(void)pthread_attr_destroy(&attr);
	}
	w->runs = err == 0;
	fire(w);
	return -err;
}

void sp_watch_stop(struct sp_watch *w)
{
	if (!w->runs)
		return;
	atomic_store_explicit(&w->stop, true, memory_order_release);
	/* Another process may undo our change of the word at any time, so it is repeated. */
	do {
		atomic_fetch_add_explicit(w->wake, 1, memory_order_release);
		sp_view_wake(w->wake);
		sleep_ns(SP_NS_PER_MS / 10);
	} while (pthread_tryjoin_np(w->thread, NULL) != 0);
	w->runs = false;
}

/* The host's side has no blocks for more threads (thread.h). */
#define THREADS_MAX 20000U
#define PAUSE_MAX 32U

static char status[(size_t)1 << 17]; /* large, because the list of groups may be long */

void sp_threads_name(const struct sp_host *h, uint32_t tid, char name[SP_THREAD_NAME_BYTES])
{
	char path[48];
	char text[SP_THREAD_NAME_BYTES + 1];
	ssize_t got;

	memset(name, 0, SP_THREAD_NAME_BYTES);
	(void)snprintf(path, sizeof(path), "task/%" PRIu32 "/comm", tid);
	got = sp_host_read(h, path, text, sizeof(text));
	/* The kernel adds one newline; others belong to the name. */
	if (got > 0)
		memcpy(name, text, (size_t)got - 1);
}

/*
 * The number of threads of the host; 0 = unknown. task/ has a folder for each thread, and each
 * folder adds one to its link count, besides the two links that every folder has. So nothing is
 * opened or listed.
 */
static uint32_t count(const struct sp_host *h)
{
	struct stat st;

	if (h->proc < 0 || fstatat(h->proc, "task", &st, 0) != 0 || st.st_nlink < 3)
		return 0;
	return st.st_nlink - 2 < THREADS_MAX ? (uint32_t)(st.st_nlink - 2) : THREADS_MAX;
}

/*
 * Whether to ask for a scan, which takes time of a hook of the host. If scans change nothing (a
 * thread that cannot be enrolled, a timer that the kernel refuses), they are asked for less and
 * less often.
 */
static bool advise(struct sp_threads *t, const struct sp_threads_known *k)
{
	if (++t->looks <= t->pause)
		return false;
	if (k->armed != t->advised)
		t->pause = 0;
	else
		t->pause = t->pause * 2 + 1 < PAUSE_MAX ? t->pause * 2 + 1 : PAUSE_MAX;
	t->advised = k->armed;
	t->looks = 0;
	return true;
}

bool sp_threads_compare(struct sp_threads *t, const struct sp_host *h,
			const struct sp_threads_known *k)
{
	uint32_t seen = count(h);

	if (seen == 0)
		return false;
	if (seen != t->seen)
		t->pause = 0;
	t->seen = seen;
	if (seen != k->known || k->armed + k->refused < seen)
		return advise(t, k);
	t->pause = 0;
	return false;
}

/* At most this many threads are read to find one that runs. */
#define RUNNING_MAX 64U

/* Whether the thread runs, and its CPU time in ticks. */
static bool runs(const struct sp_host *h, uint32_t tid, uint64_t *used)
{
	char path[48];
	char text[1024];
	char state = '?';

	(void)snprintf(path, sizeof(path), "task/%" PRIu32 "/stat", tid);
	if (sp_host_read(h, path, text, sizeof(text)) <= 0)
		return false;
	*used = sp_proc_stat(text, SP_STAT_USER, &state) +
		sp_proc_stat(text, SP_STAT_SYSTEM, &state);
	return state == 'R';
}

/* The running thread with the most CPU time; 0 = none runs. */
static uint32_t find_running(const struct sp_host *h, uint64_t *most)
{
	int fd = openat(h->proc, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;
	uint32_t found = 0;
	uint64_t used;

	if (folder == NULL && fd >= 0)
		(void)close(fd);
	*most = 0;
	for (unsigned i = 0; folder != NULL && i < RUNNING_MAX; i++) {
		uint32_t tid;

		entry = readdir(folder);
		if (entry == NULL)
			break;
		tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
		if (tid != 0 && runs(h, tid, &used) && used >= *most) {
			found = tid;
			*most = used;
		}
	}
	if (folder != NULL)
		(void)closedir(folder);
	return found;
}

/*
 * Whether the host handles the signal, which would end a program without a handler, such as one
 * after an exec.
 */
static bool handles(const struct sp_host *h, int signo)
{
	const char *caught;

	if (sp_host_read(h, "status", status, sizeof(status)) <= 0)
		return false;
	caught = strstr(status, "\nSigCgt:");
	return caught != NULL &&
	       (strtoull(caught + sizeof("\nSigCgt:") - 1, NULL, 16) >> (signo - 1) & 1) != 0;
}

/* Reading a thread's state takes some microseconds, unless the exporter loses its processor meanwhile. */
#define FRESH_NS UINT64_C(200000)

/* Whether the thread runs at this moment, and has run since it had used so many ticks. */
static bool still_runs(const struct sp_host *h, uint32_t tid, uint64_t ran, bool *is_idle)
{
	uint64_t began = sp_clock_mono_ns();
	uint64_t used = ran;
	bool is_running = runs(h, tid, &used);

	*is_idle = is_running && used == ran;
	return is_running && used != ran && sp_clock_mono_ns() - began <= FRESH_NS;
}

/*
 * A timer of a thread sends the signal only while the thread runs, so that no wait of the program
 * ends early. The exporter's signal comes microseconds after the exporter saw the thread run. If
 * the thread begins to wait just then, by a call that the kernel does not restart, the call ends
 * with EINTR.
 */
bool sp_threads_rouse(struct sp_threads *t, const struct sp_host *h, int signo, uint64_t value)
{
	uint32_t before = t->running;
	uint64_t ran = t->ran;
	siginfo_t info = {.si_signo = signo, .si_code = SI_QUEUE};
	bool is_idle;

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = (void *)(uintptr_t)value;
	t->running = find_running(h, &t->ran);
	if (before == 0 || !handles(h, signo) || !sp_host_lives(h))
		return false;
	if (!still_runs(h, before, ran, &is_idle)) {
		if (is_idle) {
			t->running = before;
			t->ran = ran;
		}
		return false;
	}
	return syscall(SYS_rt_tgsigqueueinfo, h->pid, before, signo, &info) == 0;
}

#define LOOK_NS SP_NS_PER_S
/*
 * Threads often come in groups, soon after the start: for this long after a change the exporter
 * looks more often.
 */
#define CHANGES_NS (10 * SP_NS_PER_S)
#define OFTEN_NS (250 * SP_NS_PER_MS)
/*
 * If no hook has done a scan by then, our handler is to do it; if the handler has not done it by
 * then, the exporter sends the signal.
 */
#define ANSWER_NS (50 * SP_NS_PER_MS)
/*
 * A thread that has begun calls our hook as soon as it runs, on a busy machine after some hundred milliseconds. The
 * signal is for threads that make no such call: it is sent after so many looks without an answer.
 */
#define ROUSE_AFTER 2U
#define RIGHTS_NS (100 * SP_NS_PER_MS)
/*
 * A shortage that lasts longer will not pass, and without a comparison of rights nothing may be
 * opened.
 */
#define SHORTAGE_NS (10 * SP_NS_PER_S)
/*
 * A host that is about to execute another program does so within milliseconds. A host that asks for
 * the next flush as soon as one was answered gets one in this time at most.
 */
#define SOON_NS (20 * SP_NS_PER_MS)
/* An idle host is checked for an exec again after this many upload intervals. */
#define STILL 3U
/*
 * If the memory map may not be read: a host that has announced an exec and still lives has executed
 * it after this time.
 */
#define LEFT_NS (5 * SP_NS_PER_S)
/* The interval of checks if no thread watches the host. */
#define BLIND_NS (100 * SP_NS_PER_MS)
/*
 * After its end nobody waits any more, and the last profiles of hundreds of processes may have to
 * be sent.
 */
#define GONE_MS 10000U

static uint64_t interval_ns(const struct sp_waiter *w)
{
	return w->config->upload_interval_ms * SP_NS_PER_MS;
}

void sp_waiter_init(struct sp_waiter *w, struct sp_view *v, struct sp_host *h,
		    const struct sp_config *config, const struct sp_family_hook *family)
{
	memset(w, 0, sizeof(*w));
	w->view = v;
	w->host = h;
	w->config = config;
	w->family = family;
	w->image_ns = sp_clock_mono_ns() + interval_ns(w);
	w->often_ns = sp_clock_mono_ns() + CHANGES_NS;
	w->stack = sp_host_stack(h);
	w->free_ns = sp_clock_real_ns();
}

static bool flush_is_asked(const struct sp_waiter *w)
{
	/* Pairs with the host's release: its records from before the request are in the rings. */
	return atomic_load_explicit(&w->view->region->flush_asked, memory_order_acquire) !=
	       atomic_load_explicit(&w->view->region->flush_done, memory_order_relaxed);
}

bool sp_waiter_pending(const struct sp_waiter *w)
{
	return w->end_ns != 0 || (!w->gone && flush_is_asked(w));
}

uint32_t sp_waiter_left_ms(const struct sp_waiter *w)
{
	uint64_t now = sp_clock_mono_ns();

	if (w->end_ns <= now)
		return 0;
	return (uint32_t)((w->end_ns - now) / SP_NS_PER_MS);
}

static uint64_t most_ns(const struct sp_waiter *w)
{
	uint32_t ms = w->config->flush_timeout_ms;

	return (w->gone && ms < GONE_MS ? GONE_MS : ms) * SP_NS_PER_MS;
}

/* The host says until when it waits; the exporter takes at most the configured time. */
static void begin_flush(struct sp_waiter *w, uint64_t deadline_ns)
{
	uint64_t end = sp_clock_mono_ns() + most_ns(w);

	if (w->end_ns != 0)
		return;
	w->end_ns = deadline_ns != 0 && deadline_ns < end ? deadline_ns : end;
	w->answer = atomic_load_explicit(&w->view->region->flush_asked, memory_order_acquire);
}

void sp_waiter_flushed(struct sp_waiter *w)
{
	w->end_ns = 0;
	atomic_store_explicit(&w->view->region->flush_done, w->answer, memory_order_release);
	sp_view_wake(&w->view->region->flush_done);
	/* A wake for a further request may have come while this one was answered. */
	w->is_asked_again = flush_is_asked(w);
}

static uint32_t state_of(const struct sp_waiter *w)
{
	return atomic_load_explicit(&w->view->region->state, memory_order_relaxed);
}

static bool is_leaving(const struct sp_waiter *w)
{
	return state_of(w) == SP_REGION_LEAVING;
}

/*
 * Whether the stack has moved, as after an exec. Our keeper holds the memory of the program that
 * started us until we have ended, even if an exec passed no hook of ours.
 */
static bool hints_at_exec(struct sp_waiter *w, uint64_t now)
{
	uint64_t before = w->stack;

	if (w->host->joined || now < w->stack_ns)
		return false;
	w->stack_ns = now + LOOK_NS;
	w->stack = sp_host_stack(w->host);
	return w->stack != before;
}

/*
 * Whether the host has ended or is another program. Reading its memory map takes long, so it is
 * read seldom as long as nothing hints at an exec.
 */
static bool has_gone(struct sp_waiter *w)
{
	uint64_t now = sp_clock_mono_ns();
	int image;

	if (w->is_told_of_end ? w->has_died : !sp_host_lives(w->host))
		return true;
	if (state_of(w) == SP_REGION_PARTED)
		return true;
	if (!is_leaving(w))
		w->leaving_ns = 0;
	else if (w->leaving_ns == 0)
		w->leaving_ns = now;
	if (hints_at_exec(w, now) || (w->leaving_ns != 0 && w->image_ns > now + SOON_NS))
		w->image_ns = 0;
	if (now < w->image_ns ||
	    (w->is_still && w->leaving_ns == 0 && now - w->image_ns < STILL * interval_ns(w)))
		return false;
	w->image_ns = now + (w->leaving_ns != 0 ? SOON_NS : interval_ns(w));
	w->is_still = true;
	image = sp_host_has_image(w->host);
	return image == 0 || (image < 0 && w->leaving_ns != 0 && now - w->leaving_ns > LEFT_NS);
}

/*
 * Stops serving the host at once: an orderly end would open files that the host names. Once told,
 * the host starts an exporter with its own rights, which takes over the records in the rings.
 */
static void bar(struct sp_waiter *w)
{
	sp_host_bar(w->host);
	w->gone = true;
	w->barred = true;
	w->end_ns = 0;
}

/*
 * Compares the confinement of the host with that at its beginning. free_ns is the time before the
 * comparison: later changes may be the work of an attacker who has taken over the host. If the host
 * has a filter that no hook saw, its hooks are told to make no system call any more.
 */
static void look_at_confinement(struct sp_waiter *w)
{
	uint64_t filters = sp_rights_filters();
	uint64_t own = sp_confinement_own_filters();
	int64_t now = sp_clock_real_ns();
	struct sp_confinement is;

	if (filters != 0 && own != 0 && filters > own) {
		w->confined = SP_CONFINED_FILTER;
		atomic_fetch_or_explicit(&w->view->region->deferred_work, SP_WORK_SECCOMP,
					 memory_order_release);
		return;
	}
	sp_confinement_read(w->host->proc, &w->host->confinement, &is);
	w->confined = sp_confinement_compare(&w->host->confinement, &is);
	if (w->confined == SP_CONFINED_NOT)
		w->free_ns = now;
}

/*
 * Of a process that has confined itself, only files are opened that it cannot have changed since
 * (sp_core_ops.confined_ns), so its rights do not matter any more.
 */
bool sp_waiter_may_open(struct sp_waiter *w)
{
	bool is_final = w->barred || w->confined != SP_CONFINED_NOT;
	int more = is_final ? 0 : sp_rights_compare(w->host);
	uint64_t now;

	if (!is_final && !w->gone && more >= 0 && w->host->proc >= 0)
		look_at_confinement(w);
	if (w->confined != SP_CONFINED_NOT)
		return !w->barred;
	if (atomic_load_explicit(&w->view->region->is_undumpable, memory_order_relaxed) != 0)
		sp_rights_hide();
	if (!sp_is_shortage(more))
		w->short_ns = 0;
	if (more == 0 || more == -ENOENT)
		return !w->barred;
	if (sp_is_shortage(more)) {
		now = sp_clock_mono_ns();
		if (w->short_ns == 0)
			w->short_ns = now;
		if (now - w->short_ns < SHORTAGE_NS)
			return false;
	}
	if (more < 0 || w->family->follow(w->family->arg, w) != 0)
		bar(w);
	return !w->barred;
}

bool sp_waiter_may_take(struct sp_waiter *w)
{
	uint64_t now = sp_clock_mono_ns();

	if (now - w->rights_ns < RIGHTS_NS)
		return true;
	w->rights_ns = now;
	return sp_waiter_may_open(w);
}

/*
 * Some threads have no timer, and no hook has done the scan that was asked for. Returns the bits to
 * ask for, and how soon it is worth to look again.
 */
static uint32_t insist(struct sp_waiter *w, uint32_t asked, uint64_t *pause_ns)
{
	const struct sp_region *r = w->view->region;
	uint32_t cookie = atomic_load_explicit(&r->cookie, memory_order_relaxed);

	if (cookie != 0 && atomic_load_explicit(&r->threads_unfit, memory_order_relaxed) == 0 &&
	    (asked & SP_WORK_SCAN_NOW) != 0 && w->unanswered >= ROUSE_AFTER &&
	    state_of(w) == SP_REGION_SAMPLING &&
	    atomic_load_explicit(&r->signal_number, memory_order_relaxed) == SP_ROUSING_SIGNAL)
		(void)sp_threads_rouse(&w->threads, w->host, SP_ROUSING_SIGNAL,
				       SP_ROUSE_VALUE(cookie));
	*pause_ns = ANSWER_NS << w->unanswered;
	if (*pause_ns < LOOK_NS)
		w->unanswered++;
	else
		*pause_ns = LOOK_NS;
	return SP_WORK_SCAN_NOW;
}

static bool is_as_free_as_before(struct sp_waiter *w)
{
	return sp_waiter_may_open(w) && w->confined == SP_CONFINED_NOT;
}

/*
 * Asks the next hook of the host for work: once a second while the host is active, and more often
 * while threads come. Checks its filters first, because nothing of ours may run after the host has
 * installed one.
 */
static void look(struct sp_waiter *w, uint64_t now)
{
	struct sp_region *r = w->view->region;
	const struct sp_threads_known k = {
		.known = atomic_load_explicit(&r->threads_known, memory_order_relaxed),
		.armed = atomic_load_explicit(&r->threads_armed, memory_order_relaxed),
		.refused = atomic_load_explicit(&r->threads_limit, memory_order_relaxed) +
			   atomic_load_explicit(&r->threads_refused, memory_order_relaxed),
	};
	uint32_t asked = atomic_load_explicit(&r->deferred_work, memory_order_relaxed);
	uint32_t seen = w->threads.seen;
	uint32_t bits = SP_WORK_LOOK;
	bool is_compared = false;
	uint64_t pause_ns;
	bool moves;

	if (sp_threads_compare(&w->threads, w->host, &k))
		bits |= SP_WORK_SCAN;
	if (w->threads.seen != seen)
		w->often_ns = now + CHANGES_NS;
	if (w->threads.seen != seen || w->threads.seen <= k.known)
		w->unseen_cpu_ns = sp_host_cpu_ns(w->host);
	pause_ns = now < w->often_ns ? OFTEN_NS : LOOK_NS;
	if ((bits & SP_WORK_SCAN) != 0 && (asked & SP_WORK_SCAN) == 0)
		pause_ns = ANSWER_NS;
	if ((asked & SP_WORK_SCAN) == 0 ||
	    (w->threads.seen == k.known && w->threads.seen <= k.armed))
		w->unanswered = 0;
	else if (is_as_free_as_before(w)) {
		is_compared = true;
		bits |= insist(w, asked, &pause_ns);
	}
	w->look_ns = now + pause_ns;
	moves = w->has_moved || (asked & SP_WORK_LOOK) == 0 || bits != SP_WORK_LOOK ||
		w->threads.seen != seen;
	if (!moves && now < w->idle_ns)
		return;
	w->has_moved = false;
	w->is_still = w->is_still && !moves;
	w->idle_ns = now + interval_ns(w);
	if (is_compared || is_as_free_as_before(w))
		atomic_fetch_or_explicit(&r->deferred_work, bits, memory_order_release);
}

/*
 * Less CPU time than this is no sign: it takes a while until a thread with a timer, or one that got
 * the exporter's signal, has done the scan.
 */
#define UNSEEN_CPU_NS (300 * SP_NS_PER_MS)

uint32_t sp_waiter_unseen(const struct sp_waiter *w)
{
	uint32_t known =
		atomic_load_explicit(&w->view->region->threads_known, memory_order_relaxed);
	uint64_t cpu_ns = sp_host_cpu_ns(w->host);

	return w->threads.seen > known && cpu_ns > w->unseen_cpu_ns + UNSEEN_CPU_NS
		       ? w->threads.seen - known
		       : 0;
}

/*
 * Whether the host has used no CPU time since the last call. The kernel charges a running thread
 * late, so its time is seen at the next call. Once in an upload interval the answer is false,
 * because another process may share the host's memory. It is always false without a watching
 * thread: then only a look shows a request, or the end.
 */
static bool has_rested(struct sp_waiter *w, uint64_t now)
{
	uint64_t before = w->cpu_ns;

	w->cpu_ns = sp_host_cpu_ns(w->host);
	return w->cpu_ns != 0 && w->cpu_ns == before && now < w->idle_ns && w->leaving_ns == 0 &&
	       w->end_ns == 0 && !w->gone && w->watch.runs && w->is_told_of_end && !w->has_died;
}

/*
 * Processes may come at a moment when no thread can be made for each of them, and stay for months.
 */
static void watch_again(struct sp_waiter *w, uint64_t now)
{
	if (w->watch.runs || w->watch.wake == NULL || w->gone || now < w->watch_ns)
		return;
	w->watch_ns = now + LOOK_NS;
	(void)sp_watch_start(&w->watch, w->watch.wake, w->watch.event);
}

unsigned sp_waiter_changes(struct sp_waiter *w)
{
	uint64_t now = sp_clock_mono_ns();
	bool has_fired;
	bool asked;

	w->news_ns = now;
	/* A new watching thread reports once; the code below handles that. */
	watch_again(w, now);
	/* Pairs with the watch's store: requests from before it are seen now. */
	has_fired = atomic_exchange_explicit(&w->watch.has_fired, false, memory_order_acquire);
	if (w->barred)
		return SP_WAIT_STOP;
	w->rests = has_rested(w, now) && !has_fired && !w->is_asked_again;
	w->is_asked_again = false;
	if (w->rests)
		return SP_WAIT_RESTS;
	asked = flush_is_asked(w);
	if (!w->gone && (w->confined != SP_CONFINED_NOT || has_gone(w))) {
		w->gone = true;
		w->end_ns = 0; /* nobody waits for an earlier flush */
	}
	if ((asked || w->gone) && w->end_ns == 0 && !sp_waiter_may_open(w)) {
		/* If its rights cannot be compared now, they are compared again soon. */
		w->is_asked_again = !w->barred;
		return w->barred ? SP_WAIT_STOP : 0;
	}
	if (w->gone) {
		begin_flush(w, 0);
		if (w->confined == SP_CONFINED_NOT || w->host->joined)
			return SP_WAIT_FLUSH | SP_WAIT_STOP;
		/*
		 * Our keeper is a child of that process, which could start no other exporter, and
		 * would wait for our end at its own.
		 */
		w->family->end(w->family->arg);
		return SP_WAIT_FLUSH | SP_WAIT_STOP | SP_WAIT_END;
	}
	if (asked) {
		begin_flush(w, atomic_load_explicit(&w->view->region->flush_deadline_ns,
						    memory_order_relaxed));
		/* Our keeper is a child of the process that started us. */
		if (w->host->joined ||
		    atomic_load_explicit(&w->view->region->end_asked, memory_order_relaxed) == 0)
			return SP_WAIT_FLUSH;
		w->family->end(w->family->arg);
		return SP_WAIT_FLUSH | SP_WAIT_END;
	}
	if (now >= w->look_ns)
		look(w, now);
	return 0;
}

uint64_t sp_waiter_due_ns(const struct sp_waiter *w)
{
	if (w->gone)
		return w->barred ? 0 : UINT64_MAX;
	if (w->has_died || w->confined != SP_CONFINED_NOT ||
	    atomic_load_explicit(&w->watch.has_fired, memory_order_relaxed))
		return 0;
	/* The next call comes with the next drain, which is soon enough. */
	if (w->rests)
		return UINT64_MAX;
	if (w->is_asked_again || is_leaving(w))
		return w->news_ns + SOON_NS;
	if (!w->watch.runs || w->host->pidfd < 0)
		return w->news_ns + BLIND_NS;
	return w->look_ns < w->news_ns + LOOK_NS ? w->look_ns : w->news_ns + LOOK_NS;
}
