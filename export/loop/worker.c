/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter's second thread. The collector answers processes within milliseconds, so of files it reads headers,
 * single pages and the mappings, and talks to no server: for one process alone, a debug file of 2 GB takes seconds,
 * and a server that hangs takes as long as it likes. All of that is done here, at low priority unless a process
 * waits for it, as the exporter shares the processors of its host.
 *
 * What is handed over is an interval: stacks, and copies of all that is needed to name them. So nothing of it
 * changes while it is worked on. The worker has no turn (turn.h) while it works; it takes its turn to count, to
 * tell, and to ask whether it may still open the files of that process, as the two threads change their users
 * independently of each other: rights are compared by whoever opens something.
 *
 * Every sample that was handed over is sent or lost, and counted once, whatever happens: in the list of what is
 * waiting, in the interval that is worked on, or in the queue of the upload. So if the worker hangs in a library
 * at the end, the collector can count what is left without it. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/loop/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "export/symbols/builds.h"
#include "export/symbols/debuginfod.h"
#include "export/symbols/symbolize.h"
#include "export/util/clock.h"
#include "export/util/log.h"
#include "export/util/losses.h"
#include "export/util/turn.h"

/* The usual default of a main thread: libdw, libcurl and the demangler need no more. */
#define STACK_BYTES ((size_t)8 << 20)
#define NICE 5
/* So often whoever reads symbols looks whether it may go on. */
#define STEP_NS (20 * SP_NS_PER_MS)
#define NAMING_MIN_NS SP_NS_PER_S
/* The share of an upload interval, or of the time that is left of a flush, in which lines are looked up. */
#define NAMING_SHARE 4U
/* What waits takes no more memory than this, as long as there is more than one. */
#define WAITING_BYTES ((size_t)64 << 20)

struct work {
	struct work *next;
	struct sp_origin *origin;
	struct sp_interval *interval;
	struct sp_modules *modules;
	size_t bytes;
};

struct sp_worker {
	pthread_t thread;
	int wake; /* an eventfd */
	void (*tell)(void *arg);
	void *arg;
	struct work *waiting; /* oldest first */
	size_t bytes;         /* of these */
	struct work *current; /* until it is handed to the upload */
	enum sp_worker_order order;
	uint32_t orders;          /* given so far */
	uint64_t naming_until_ns; /* as long as there is one */
	bool is_done;
	bool ends;
	bool is_given_up;
	struct sp_upload *upload;
	const struct sp_core_ops *ops; /* of the interval that is named */
	struct sp_symbolizer *symbolizer;
	struct sp_debuginfod *debuginfod;
	bool is_low;         /* its priority */
	bool is_preparing;   /* there is time to ask a server for a debug file */
	bool has_complained; /* of the way to these */
	struct sp_symbolizer_losses counted;
	struct sp_export_log_site deadlocks;
};

static void wake(const struct sp_worker *w)
{
	const uint64_t one = 1;

	/* If its counter is full, it is awake. */
	if (write(w->wake, &one, sizeof(one)) < 0)
		errno = 0;
}

/* Of CPU time and of allocations. */
static uint64_t samples_of(const struct sp_interval *i)
{
	return sp_stack_map_count(i->map[SP_MAP_SAMPLES]) +
	       sp_stack_map_count(i->map[SP_MAP_ALLOCATIONS]);
}

static void count_unsent(const struct work *k)
{
	const struct sp_core_ops *ops = k->origin->ops;

	ops->counter_add(ops->arg, SP_COUNT_SAMPLES_UNSENT, samples_of(k->interval));
	ops->counter_add(ops->arg, SP_COUNT_WAITS_UNSENT,
			 sp_stack_map_count(k->interval->map[SP_MAP_WAITS]));
}

static struct work *take(struct sp_worker *w)
{
	struct work *k = w->waiting;

	w->waiting = k->next;
	w->bytes -= k->bytes;
	return k;
}

static void drop(struct work *k)
{
	k->origin->unnamed--;
	sp_interval_release(k->interval);
	sp_modules_free(k->modules);
	free(k);
}

static void lose_oldest(struct sp_worker *w)
{
	struct work *k = take(w);
	const struct sp_loss loss = {.cause = SP_LOSS_QUEUE_FULL,
				     .profiles = 1,
				     .samples = samples_of(k->interval),
				     .waits = sp_stack_map_count(k->interval->map[SP_MAP_WAITS])};

	sp_losses_add(&k->origin->losses, k->origin->ops, &loss);
	drop(k);
}

void sp_worker_put(struct sp_worker *w, struct sp_origin *origin, struct sp_interval *interval,
		   struct sp_modules *modules)
{
	struct work **at = &w->waiting;
	struct work *k = malloc(sizeof(*k));

	if (k == NULL) {
		count_unsent(&(struct work){.origin = origin, .interval = interval});
		origin->ops->counter_add(origin->ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		sp_interval_release(interval);
		sp_modules_free(modules);
		return;
	}
	*k = (struct work){.origin = origin,
			   .interval = interval,
			   .modules = modules,
			   .bytes = sp_interval_seal(interval) + sp_modules_bytes(modules)};
	while (*at != NULL)
		at = &(*at)->next;
	*at = k;
	w->bytes += k->bytes;
	origin->unnamed++;
	while (w->bytes > WAITING_BYTES && w->waiting->next != NULL)
		lose_oldest(w);
	wake(w);
}

void sp_worker_order(struct sp_worker *w, enum sp_worker_order order, uint32_t left_ms)
{
	w->order = order;
	w->orders++;
	w->naming_until_ns = sp_clock_mono_ns() + left_ms * SP_NS_PER_MS / NAMING_SHARE;
	w->is_done = false;
	if (order == SP_WORKER_NOTHING)
		sp_upload_resume(w->upload);
	else if (order != SP_WORKER_ABANDON)
		sp_upload_flush(w->upload, order == SP_WORKER_FLUSH);
	wake(w);
}

bool sp_worker_is_done(const struct sp_worker *w)
{
	return w->is_done;
}

struct sp_upload *sp_worker_upload(const struct sp_worker *w)
{
	return w->upload;
}

/* Somebody waits for all that there is, or for the last of this process. */
static bool is_flushing(const struct sp_worker *w)
{
	return w->order != SP_WORKER_NOTHING || w->ops->flush_pending(w->ops->arg);
}

/* Called without the turn, during a download of a debug file. */
static bool has_time(void *arg)
{
	const struct sp_worker *w = arg;
	bool had = sp_turn_set(true);
	bool has = !w->ends && !is_flushing(w);

	(void)sp_turn_set(had);
	return has;
}

/* Only while names are looked up ahead, when there is time to wait for a server. */
static int fetch(void *arg, const uint8_t *id, size_t id_len, char *path, size_t cap)
{
	struct sp_worker *w = arg;
	char text[256];
	bool had;
	int fd;

	if (!w->is_preparing || !has_time(w))
		return -EAGAIN;
	fd = sp_debuginfod_fetch(w->debuginfod, id, id_len, path, cap);
	if (!w->has_complained && sp_debuginfod_complains(fd, text, sizeof(text))) {
		w->has_complained = true;
		had = sp_turn_set(true);
		sp_export_log(w->ops, SP_LOG_WARN, "%s", text);
		(void)sp_turn_set(had);
	}
	return fd;
}

static int make_symbolizer(struct sp_worker *w, const struct sp_core_ops *ops)
{
	const char *urls = ops->config->debuginfod_urls;
	struct sp_symbolizer_options options = sp_symbolizer_options_default;

	if (urls != NULL && urls[0] != '\0' && ops->config->symbolize != SP_SYMBOLIZE_OFF) {
		w->debuginfod = sp_debuginfod_new(has_time, w);
		if (w->debuginfod == NULL)
			sp_export_log(ops, SP_LOG_WARN,
				      "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 cannot be "
				      "loaded: install it");
	}
	options.mode = ops->config->symbolize;
	options.fetch = w->debuginfod != NULL ? fetch : NULL;
	options.fetch_arg = w;
	w->symbolizer = sp_symbolizer_new(NULL, &options);
	return w->symbolizer != NULL ? 0 : -ENOMEM;
}

static void count_losses(struct sp_worker *w)
{
	const struct sp_core_ops *ops = w->ops;
	struct sp_symbolizer_losses now;

	sp_symbolizer_losses(w->symbolizer, &now);
	ops->counter_add(ops->arg, SP_COUNT_SYMBOLS_CHANGED, now.changed - w->counted.changed);
	ops->counter_add(ops->arg, SP_COUNT_LINES_OVER_LIMIT,
			 now.over_limit - w->counted.over_limit);
	ops->counter_add(ops->arg, SP_COUNT_LINES_LATE, now.late - w->counted.late);
	if (now.over_limit != 0 && w->counted.over_limit == 0)
		sp_export_log(ops, SP_LOG_INFO,
			      "an object has no lines: its debug information is compressed and "
			      "needs more than %u MiB of memory",
			      (unsigned)(SP_BUILD_UNPACKED_MAX >> 20));
	if (now.changed != w->counted.changed)
		sp_export_log(
			ops, SP_LOG_WARN,
			"functions of an object have no names: its file was cut off or "
			"overwritten while it was in use; replace such files by rename, as "
			"after %u of these in an hour no other object is read until it is over",
			SP_BUILDS_CHANGED_MAX);
	w->counted = now;
}

/* Whether lines that were not looked up since then still may be. */
static bool may_go_on(const struct sp_worker *w, uint64_t begun_ns)
{
	const struct sp_core_ops *ops = w->ops;
	uint64_t now = sp_clock_mono_ns();
	uint64_t ns = ops->config->upload_interval_ms * SP_NS_PER_MS / NAMING_SHARE;

	if (ns < NAMING_MIN_NS)
		ns = NAMING_MIN_NS;
	if (ops->flush_pending(ops->arg))
		ns = ops->flush_left_ms(ops->arg) * SP_NS_PER_MS / NAMING_SHARE;
	return !w->ends && now - begun_ns < ns &&
	       (w->order == SP_WORKER_NOTHING || now < w->naming_until_ns);
}

static void tell_deadlock(struct sp_worker *w, const struct sp_interval *i)
{
	char text[960];

	if (i->deadlocked == 0)
		return;
	sp_interval_deadlock(i, text, sizeof(text));
	sp_export_log_limited(w->ops, &w->deadlocks, sp_clock_mono_ns(), "deadlock: %s", text);
}

/*
 * Of this thread, and for good, as only privileged processes can raise it again. A process that ends before its first
 * upload interval does waits for all that is done for it, and would wait longer the busier the machine is.
 */
static void lower_priority(struct sp_worker *w)
{
	if (!w->is_low)
		(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
	w->is_low = true;
}

/* With the turn, which is away meanwhile. False: there is nothing that a profile could be made of. */
static bool name(struct sp_worker *w, const struct work *k)
{
	const struct sp_core_ops *ops = w->ops;
	struct sp_symbolizer *s = w->symbolizer;
	uint64_t begun = sp_clock_mono_ns();
	/* A process that ends shall not unpack a C library's debug information for the lines of a few functions. */
	bool is_hurried = is_flushing(w);
	bool more = true;
	bool may = ops->may_open(ops->arg);
	bool is_named;

	(void)sp_turn_set(false);
	if (!is_hurried)
		lower_priority(w);
	sp_symbolizer_turn_to(s, k->modules);
	sp_symbolizer_begin(s);
	sp_symbolizer_hurry(s, is_hurried);
	sp_interval_want(k->interval, s);
	w->is_preparing = true;
	while (may && more) {
		more = sp_symbolizer_step(s, STEP_NS);
		if (!more)
			break;
		(void)sp_turn_set(true);
		may = ops->may_open(ops->arg);
		more = may_go_on(w, begun);
		(void)sp_turn_set(false);
	}
	w->is_preparing = false;
	sp_symbolizer_end(s);
	is_named = may && sp_interval_name(k->interval, s);
	(void)sp_turn_set(true);
	count_losses(w);
	if (is_named)
		tell_deadlock(w, k->interval);
	else if (may)
		ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
	return is_named;
}

static void work_on_one(struct sp_worker *w)
{
	struct work *k = w->current = take(w);
	bool is_named;

	w->ops = k->origin->ops;
	is_named = name(w, k);
	w->current = NULL;
	if (is_named)
		sp_upload_put(w->upload, k->origin, k->interval);
	else
		count_unsent(k);
	/* Before it is said that it is named, so that it is seen to be under way. */
	sp_upload_run(w->upload);
	drop(k);
}

static void rest(struct sp_worker *w, uint32_t ms)
{
	uint64_t told;

	sp_upload_wait(w->upload, w->wake, ms);
	if (read(w->wake, &told, sizeof(told)) < 0)
		errno = 0;
}

static void abandon(struct sp_worker *w)
{
	uint32_t number = w->orders;

	while (w->waiting != NULL) {
		struct work *k = take(w);

		count_unsent(k);
		drop(k);
	}
	sp_upload_abandon(w->upload);
	/* There may be another order meanwhile. */
	w->is_done = w->orders == number;
}

/* Everything that it was given for is in the queue. */
static bool is_flushed(const struct sp_worker *w)
{
	return (w->order == SP_WORKER_FLUSH || w->order == SP_WORKER_FLUSH_LAST) && !w->is_done &&
	       w->waiting == NULL && sp_upload_flushed(w->upload);
}

/* Whoever waits is told once of all that a round has done, as that wakes the other thread. */
static void *work(void *arg)
{
	struct sp_worker *w = arg;

	(void)sp_turn_set(true);
	while (!w->ends) {
		uint64_t moves = sp_upload_moves(w->upload);
		bool is_abandoning = w->order == SP_WORKER_ABANDON && !w->is_done;
		bool is_news = is_abandoning || w->waiting != NULL;

		if (is_abandoning)
			abandon(w);
		else if (is_news)
			work_on_one(w);
		else
			rest(w, sp_upload_due_ms(w->upload));
		sp_upload_run(w->upload);
		if (is_flushed(w))
			w->is_done = is_news = true;
		if (is_news || sp_upload_moves(w->upload) != moves)
			w->tell(w->arg);
	}
	(void)sp_turn_set(false);
	return NULL;
}

static int start_thread(struct sp_worker *w)
{
	pthread_attr_t attr;
	int err = pthread_attr_init(&attr);

	if (err != 0)
		return -err;
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	err = pthread_create(&w->thread, &attr, work, w);
	(void)pthread_attr_destroy(&attr);
	return -err;
}

static void free_all(struct sp_worker *w)
{
	while (w->waiting != NULL)
		drop(take(w));
	sp_upload_free(w->upload);
	sp_symbolizer_free(w->symbolizer);
	sp_debuginfod_free(w->debuginfod);
	if (w->wake >= 0)
		(void)close(w->wake);
	free(w);
}

int sp_worker_start(const struct sp_core_ops *ops, void (*tell)(void *arg), void *arg,
		    struct sp_worker **out)
{
	struct sp_worker *w = calloc(1, sizeof(*w));
	int err;

	*out = NULL;
	if (w == NULL)
		return -ENOMEM;
	w->tell = tell;
	w->arg = arg;
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = w->wake >= 0 ? make_symbolizer(w, ops) : -ENOMEM;
	if (err == 0)
		err = sp_upload_new(ops, &w->upload);
	if (err == 0)
		err = start_thread(w);
	if (err != 0)
		free_all(w);
	else
		*out = w;
	return err;
}

void sp_worker_stop(struct sp_worker *w)
{
	if (w == NULL || w->is_given_up)
		return;
	w->ends = true;
	wake(w);
	(void)sp_turn_set(false);
	(void)pthread_join(w->thread, NULL);
	(void)sp_turn_set(true);
	free_all(w);
}

void sp_worker_give_up(struct sp_worker *w)
{
	sp_turn_keep();
	w->is_given_up = true;
	if (w->current != NULL)
		count_unsent(w->current);
	for (const struct work *k = w->waiting; k != NULL; k = k->next)
		count_unsent(k);
	sp_upload_count_unsent(w->upload);
}
