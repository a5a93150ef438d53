/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the region, the pidfd and /proc say of the host.
 *
 * There may be hundreds of processes, and most of them do nothing. What has used no CPU time has done nothing: its
 * rings are empty as before, it has the same threads, and is the same program. So the kernel is asked for its CPU time,
 * and its memory, where every line that is read has to come from far, is left alone. Nothing is opened for a
 * process in which nothing moves, but once in an upload interval (and once a second its state, if it is the one that
 * started the exporter): the words in its region are read, and the kernel is asked for the number of its threads.
 * Something moves where its rings had something, where a hook of it has taken back what it was asked for, and where it
 * has another number of threads.
 */
#define _GNU_SOURCE
#include "export/exporter/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "export/export.h"
#include "export/exporter/rights.h"
#include "export/exporter/view.h"
#include "export/util/clock.h"
#include "export/util/shortage.h"

#define STACK_BYTES ((size_t)32 << 10)
/* Wakes that come so soon after the last one are not from a correct host. */
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

	/* Pairs with the owner's exchange: what had changed before is seen after it. */
	atomic_store_explicit(&w->has_fired, true, memory_order_release);
	if (write(w->event, &one, sizeof(one)) < 0)
		sleep_ns(SP_NS_PER_MS);
}

/* How long to ignore wakes after one, so that nobody can keep us busy. */
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
	 * Changes from now on are noticed, even before the thread has begun. What was asked for
	 * before is not, so the first event says that all has to be looked at.
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

/* More than the host's side can have blocks for (thread.h). */
#define THREADS_MAX 20000U
#define PAUSE_MAX 32U

static char status[(size_t)1 << 17]; /* the list of groups may be long */

static uint64_t number_after(const char *label)
{
	const char *line = strstr(status, label);

	return line != NULL ? strtoull(line + strlen(label), NULL, 10) : 0;
}

uint64_t sp_threads_filters(const struct sp_host *h)
{
	if (sp_host_read(h, "status", status, sizeof(status)) <= 0)
		return 0;
	/* Strict mode has no filter. */
	return number_after("\nSeccomp_filters:") * 4 + number_after("\nSeccomp:") % 4 + 1;
}

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
 * How many threads the host has; 0 if that cannot be seen. The kernel counts them as folders in its task/,
 * each a link to it besides the two of every folder, so that nothing is opened or listed.
 */
static uint32_t count(const struct sp_host *h)
{
	struct stat st;

	if (h->proc < 0 || fstatat(h->proc, "task", &st, 0) != 0 || st.st_nlink < 3)
		return 0;
	return st.st_nlink - 2 < THREADS_MAX ? (uint32_t)(st.st_nlink - 2) : THREADS_MAX;
}

/*
 * A scan takes time of a hook of the host. If scans change nothing (a thread that cannot be
 * enrolled, a timer that the kernel refuses) they are asked for less and less often.
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

bool sp_threads_look(struct sp_threads *t, const struct sp_host *h,
		     const struct sp_threads_known *k)
{
	uint32_t seen = count(h);

	if (seen == 0)
		return false;
	if (seen != t->seen)
		t->pause = 0;
	t->seen = seen;
	if (seen != k->known || k->armed < seen)
		return advise(t, k);
	t->pause = 0;
	return false;
}

#define LOOK_NS SP_NS_PER_S
#define RIGHTS_NS (100 * SP_NS_PER_MS)
/* A shortage that goes on for longer does not pass, and then nothing may be opened that nobody has compared. */
#define SHORTAGE_NS (10 * SP_NS_PER_S)
/*
 * A host that is about to execute another program does so within milliseconds. A host whose region asks for the next
 * flush as soon as one was answered gets one in this time at most.
 */
#define SOON_NS (20 * SP_NS_PER_MS)
/* So many upload intervals later a host in which nothing has moved since is looked at for an exec again. */
#define STILL 3U
/* An exec that has not failed by then has not: for hosts whose memory map may not be read. */
#define LEFT_NS (5 * SP_NS_PER_S)
/* Where nobody watches for its end. */
#define BLIND_NS (100 * SP_NS_PER_MS)
/* After its end nobody waits any more, and there may be the last profiles of hundreds to be sent. */
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
	w->stack = sp_host_stack(h);
	w->filters = sp_threads_filters(h);
}

static bool flush_is_asked(const struct sp_waiter *w)
{
	/* Pairs with the host's release: what it put before it asked is in the rings. */
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

/* The host says until when it waits; however long that is, we take no longer than was configured. */
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
	/* The wake of another one, asked for in the meantime, has been heard already. */
	w->is_asked_again = flush_is_asked(w);
}

static bool is_leaving(const struct sp_waiter *w)
{
	return atomic_load_explicit(&w->view->region->state, memory_order_relaxed) ==
	       SP_REGION_LEAVING;
}

/*
 * Our keeper holds the memory of the program that has started us until we have ended, also when that has executed
 * another program and no hook of ours has seen it.
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

/* Its memory map is long to read, so it is read seldom as long as nothing hints at an exec. */
static bool has_gone(struct sp_waiter *w)
{
	uint64_t now = sp_clock_mono_ns();
	int image;

	if (w->is_told_of_end ? w->has_died : !sp_host_lives(w->host))
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
 * At once: what it names from now on must not be opened by us, and an orderly end would do so. Once it is
 * told, it starts an exporter with its own rights, which takes over what is in the rings.
 */
static void bar(struct sp_waiter *w)
{
	sp_host_bar(w->host);
	w->gone = true;
	w->barred = true;
	w->end_ns = 0;
}

bool sp_waiter_may_open(struct sp_waiter *w)
{
	int more = w->barred ? 0 : sp_rights_compare(w->host);
	uint64_t now;

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
 * What the next hook of the host is to do: once a second while something moves. It is never asked for
 * anything without a look at its filters.
 */
static void look(struct sp_waiter *w, uint64_t now)
{
	struct sp_region *r = w->view->region;
	const struct sp_threads_known k = {
		.known = atomic_load_explicit(&r->threads_known, memory_order_relaxed),
		.armed = atomic_load_explicit(&r->threads_armed, memory_order_relaxed),
	};
	uint32_t asked = atomic_load_explicit(&r->deferred_work, memory_order_relaxed);
	uint32_t seen = w->threads.seen;
	uint32_t bits = SP_WORK_LOOK;
	bool moves;

	w->look_ns = now + LOOK_NS;
	if (sp_threads_look(&w->threads, w->host, &k))
		bits |= SP_WORK_SCAN;
	moves = w->has_moved || (asked & SP_WORK_LOOK) == 0 || (bits & SP_WORK_SCAN) != 0 ||
		w->threads.seen != seen;
	if (!moves && now < w->idle_ns)
		return;
	w->has_moved = false;
	w->is_still = w->is_still && !moves;
	w->idle_ns = now + interval_ns(w);
	if (w->filters != 0 && sp_threads_filters(w->host) > w->filters)
		bits |= SP_WORK_SECCOMP;
	atomic_fetch_or_explicit(&r->deferred_work, bits, memory_order_release);
}

/*
 * What a thread has used that runs at this moment may not be charged yet, and is seen at the next look. Once in an
 * upload interval it is looked at all the same, as another process may share its memory. One that nobody
 * watches is never left alone: only a look tells that it asks for something, or has ended.
 */
static bool has_rested(struct sp_waiter *w, uint64_t now)
{
	uint64_t before = w->cpu_ns;

	w->cpu_ns = sp_host_cpu_ns(w->host);
	return w->cpu_ns != 0 && w->cpu_ns == before && now < w->idle_ns && w->leaving_ns == 0 &&
	       w->end_ns == 0 && !w->gone && w->watch.runs && w->is_told_of_end && !w->has_died;
}

/* Processes may come at a moment that has no thread for each of them, and stay for months. */
static void watch_again(struct sp_waiter *w, uint64_t now)
{
	if (w->watch.runs || w->watch.wake == NULL || w->gone || now < w->watch_ns)
		return;
	w->watch_ns = now + LOOK_NS;
	(void)sp_watch_start(&w->watch, w->watch.wake, w->watch.event);
}

unsigned sp_waiter_news(struct sp_waiter *w)
{
	uint64_t now = sp_clock_mono_ns();
	bool has_fired;
	bool asked;

	w->news_ns = now;
	/* What it reports at its beginning is looked at below. */
	watch_again(w, now);
	/* Pairs with the watch's store: what was asked for before it is seen now. */
	has_fired = atomic_exchange_explicit(&w->watch.has_fired, false, memory_order_acquire);
	if (w->barred)
		return SP_WAIT_STOP;
	w->rests = has_rested(w, now) && !has_fired && !w->is_asked_again;
	w->is_asked_again = false;
	if (w->rests)
		return SP_WAIT_RESTS;
	asked = flush_is_asked(w);
	if (!w->gone && has_gone(w)) {
		w->gone = true;
		w->end_ns = 0; /* nobody waits for the flush of before */
	}
	if ((asked || w->gone) && w->end_ns == 0 && !sp_waiter_may_open(w)) {
		/* Where its rights cannot be compared just now, it is asked again. */
		w->is_asked_again = !w->barred;
		return w->barred ? SP_WAIT_STOP : 0;
	}
	if (w->gone) {
		begin_flush(w, 0);
		return SP_WAIT_FLUSH | SP_WAIT_STOP;
	}
	if (asked) {
		begin_flush(w, atomic_load_explicit(&w->view->region->flush_deadline_ns,
						    memory_order_relaxed));
		/* Our keeper is a child of the process that has started us. */
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
	if (w->has_died || atomic_load_explicit(&w->watch.has_fired, memory_order_relaxed))
		return 0;
	/* It is asked again when its rings are looked into, which is soon enough. */
	if (w->rests)
		return UINT64_MAX;
	if (w->is_asked_again || is_leaving(w))
		return w->news_ns + SOON_NS;
	return w->news_ns + (w->watch.runs && w->host->pidfd >= 0 ? LOOK_NS : BLIND_NS);
}
