/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter's second thread. The collector answers processes within milliseconds, so it reads
 * only headers, single pages and the mappings, and talks to no server. The worker does everything
 * that may take long: a debug file of 2 GB takes seconds, and a server may hang. It runs at low
 * priority unless a process waits for it, because the exporter shares the processors of its host.
 *
 * The worker gets intervals: stacks, and copies of all data that is needed to name them. So no
 * other thread changes them meanwhile. The worker does not hold the turn (turn.h) while it works.
 * It takes its turn to count, to report, and to ask whether it may still open the files of that
 * process: the two threads change their users independently of each other, so the thread that opens
 * a file compares the rights.
 *
 * Every sample that was handed over is sent or lost, and counted once, whatever happens: in the
 * list of waiting intervals, in the interval that is being named, or in the queue of the upload. So
 * if the worker hangs in a library at the end, the collector can count the rest without it.
 * Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/loop/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "export/profile/encode.h"
#include "export/push/file_sink.h"
#include "export/symbols/builds.h"
#include "export/symbols/debuginfod.h"
#include "export/symbols/elf_file.h"
#include "export/symbols/symbolize.h"
#include "export/util/clock.h"
#include "export/util/log.h"
#include "export/util/losses.h"
#include "export/util/turn.h"

/* The usual default of a main thread, which is enough for libdw, libcurl and the demangler. */
#define STACK_BYTES ((size_t)8 << 20)
#define NICE 5
/* The reader of symbols checks this often whether it may go on. */
#define STEP_NS (20 * SP_NS_PER_MS)
#define NAMING_MIN_NS SP_NS_PER_S
/*
 * A quarter of an upload interval, or of the rest of a flush's time, may be spent on looking up
 * lines.
 */
#define NAMING_SHARE 4U
/* Waiting intervals take no more memory than this, except a single one. */
#define WAITING_BYTES ((size_t)64 << 20)

struct work {
	struct work *next;
	struct sp_origin *origin;
	struct sp_interval *interval; /* NULL = this is a batch of slow roots */
	struct sp_modules *modules;
	struct sp_slow_batch *slow;
	int64_t time_ns; /* when the interval of the slow roots began */
	size_t bytes;
};

struct sp_worker {
	pthread_t thread;
	int wake; /* an eventfd */
	void (*tell)(void *arg);
	void *arg;
	struct work *waiting; /* oldest first */
	size_t bytes;         /* of all waiting intervals */
	struct work *current; /* until it is handed to the upload */
	enum sp_worker_order order;
	uint32_t orders;          /* number of orders so far */
	uint64_t naming_until_ns; /* until when lines may be looked up while there is an order */
	bool is_done;
	bool ends;
	bool is_given_up;
	struct sp_upload *upload;
	const struct sp_core_ops *ops; /* of the interval that is being named */
	struct sp_symbolizer *symbolizer;
	struct sp_debuginfod *debuginfod;
	bool is_low; /* its priority is low */
	/* names are looked up ahead, so there is time to ask a server for a debug file */
	bool is_preparing;
	bool has_complained; /* the log tells of a problem on the way to these files */
	struct sp_symbolizer_losses counted;
	struct sp_export_log_site deadlocks;
};

static void wake(const struct sp_worker *w)
{
	const uint64_t one = 1;

	/* A write to a full counter fails, but then the reader wakes anyway. */
	if (write(w->wake, &one, sizeof(one)) < 0)
		errno = 0;
}

/* Samples of CPU time and of allocations. */
static uint64_t samples_of(const struct sp_interval *i)
{
	return sp_stack_map_count(i->map[SP_MAP_SAMPLES]) +
	       sp_stack_map_count(i->map[SP_MAP_ALLOCATIONS]);
}

static void count_unsent(const struct work *k)
{
	const struct sp_core_ops *ops = k->origin->ops;

	if (k->interval == NULL) {
		ops->counter_add(ops->arg, SP_COUNT_SLOW_ROOTS_UNSENT,
				 sp_slow_batch_roots(k->slow));
		return;
	}
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
	sp_interval_free(k->interval);
	sp_modules_free(k->modules);
	sp_slow_batch_free(k->slow);
	free(k);
}

static void lose_oldest(struct sp_worker *w)
{
	struct work *k = take(w);
	struct sp_loss loss = {.cause = SP_LOSS_QUEUE_FULL, .profiles = 1};

	if (k->interval == NULL) {
		count_unsent(k);
		drop(k);
		return;
	}
	loss.samples = samples_of(k->interval);
	loss.waits = sp_stack_map_count(k->interval->map[SP_MAP_WAITS]);
	sp_losses_add(&k->origin->losses, k->origin->ops, &loss);
	drop(k);
}

static void put(struct sp_worker *w, struct work *k)
{
	struct work **at = &w->waiting;

	while (*at != NULL)
		at = &(*at)->next;
	*at = k;
	w->bytes += k->bytes;
	k->origin->unnamed++;
	while (w->bytes > WAITING_BYTES && w->waiting->next != NULL)
		lose_oldest(w);
	wake(w);
}

void sp_worker_put_slow(struct sp_worker *w, struct sp_origin *origin, struct sp_slow_batch *slow,
			int64_t time_ns)
{
	const struct work new = {.origin = origin,
				 .slow = slow,
				 .time_ns = time_ns,
				 .bytes = sp_slow_batch_bytes(slow)};
	struct work *k = malloc(sizeof(*k));

	if (k == NULL) {
		count_unsent(&new);
		origin->ops->counter_add(origin->ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		sp_slow_batch_free(slow);
		return;
	}
	*k = new;
	put(w, k);
}

void sp_worker_put(struct sp_worker *w, struct sp_origin *origin, struct sp_interval *interval,
		   struct sp_modules *modules)
{
	struct work *k = malloc(sizeof(*k));

	if (k == NULL) {
		count_unsent(&(struct work){.origin = origin, .interval = interval});
		origin->ops->counter_add(origin->ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		sp_interval_free(interval);
		sp_modules_free(modules);
		return;
	}
	*k = (struct work){.origin = origin,
			   .interval = interval,
			   .modules = modules,
			   .bytes = sp_interval_seal(interval) + sp_modules_bytes(modules)};
	put(w, k);
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

/* Whether a process waits until everything, or its own last profiles, are sent. */
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

/* Called only while names are looked up ahead, when there is time to wait for a server. */
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
	ops->counter_add(ops->arg, SP_COUNT_LINES_UNREADABLE,
			 now.unreadable - w->counted.unreadable);
	ops->counter_add(ops->arg, SP_COUNT_LINES_LATE, now.late - w->counted.late);
	if (now.over_limit != 0 && w->counted.over_limit == 0)
		sp_export_log(ops, SP_LOG_INFO,
			      "an object has no lines: its debug information is compressed and "
			      "needs more than %u MiB of memory",
			      (unsigned)(SP_BUILD_UNPACKED_MAX >> 20));
	if (now.unreadable != 0 && w->counted.unreadable == 0)
		sp_export_log(
			ops, SP_LOG_WARN,
			"an object has no lines and no inlined functions: its debug information is "
			"packed with zstd or in a .dwp file, which this libdw cannot read, or its "
			".dwo "
			"files are gone; use -gz=zlib and no .dwp, or install elfutils 0.192");
	if (now.changed != w->counted.changed)
		sp_export_log(
			ops, SP_LOG_WARN,
			"functions of an object have no names: its file was cut off or "
			"overwritten while it was in use; replace such files by rename, as "
			"after %u of these in an hour no other object is read until it is over",
			SP_BUILDS_CHANGED_MAX);
	w->counted = now;
}

/* Whether lines that were not looked up by begun_ns may still be looked up. */
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
 * Lowers the priority of this thread, for good, because only privileged processes can raise it
 * again. A process that ends before its first upload interval waits for all work that is done for
 * it, and the busier the machine, the longer a low priority would take.
 */
static void lower_priority(struct sp_worker *w)
{
	if (!w->is_low)
		(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
	w->is_low = true;
}

/*
 * Called with the turn, and gives it away meanwhile. False: there is nothing to make a profile of.
 */
static bool name(struct sp_worker *w, const struct work *k)
{
	const struct sp_core_ops *ops = w->ops;
	struct sp_symbolizer *s = w->symbolizer;
	uint64_t begun = sp_clock_mono_ns();
	/*
	 * A process that ends does not wait while the debug information of a C library is unpacked
	 * for the lines of a few functions.
	 */
	bool is_hurried = is_flushing(w);
	bool more = true;
	bool may = ops->may_open(ops->arg);
	bool is_named;

	sp_elf_files_only_before(ops->confined_ns(ops->arg));
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
		sp_elf_files_only_before(ops->confined_ns(ops->arg));
		more = may_go_on(w, begun);
		(void)sp_turn_set(false);
	}
	w->is_preparing = false;
	sp_symbolizer_end(s);
	is_named = may && sp_interval_name(k->interval, s);
	(void)sp_turn_set(true);
	count_losses(w);
	if (is_named) {
		tell_deadlock(w, k->interval);
		sp_missing_add(&k->origin->missing, k->interval);
	} else if (may)
		ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
	return is_named;
}

/* Called with the turn, and gives it away meanwhile. */
static bool write_slow(struct sp_worker *w, const struct work *k)
{
	const struct sp_core_ops *ops = w->ops;
	const struct sp_file_sink_item item = {.suffix = "-slow" SP_FILE_SINK_SLOW,
					       .time_ns = k->time_ns};
	uint32_t roots = sp_slow_batch_roots(k->slow);
	struct sp_bytes json = {NULL, 0};
	int err = -EACCES;

	if (ops->may_open(ops->arg)) {
		(void)sp_turn_set(false);
		err = sp_slow_batch_json(k->slow, &json);
		(void)sp_turn_set(true);
		if (err != 0)
			ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		else
			err = sp_file_sink_write(k->origin->files, &json, &item,
						 sp_clock_mono_ns());
	}
	ops->counter_add(ops->arg, err == 0 ? SP_COUNT_SLOW_ROOTS_SENT : SP_COUNT_SLOW_ROOTS_UNSENT,
			 roots);
	free(json.data);
	return err == 0;
}

/* Called with the turn, and gives it away meanwhile. False: some of the times are lost. */
static bool write_times_of(struct sp_worker *w, const struct work *k,
			   const struct sp_interval *interval)
{
	const struct sp_core_ops *ops = w->ops;
	const struct sp_file_sink_item item = {.suffix = SP_FILE_SINK_TIMES,
					       .time_ns = interval->time_ns};
	struct sp_encoded encoded;
	uint64_t left;
	int err;

	if (!ops->may_open(ops->arg))
		return false;
	(void)sp_turn_set(false);
	err = sp_encode_times(interval, k->slow, &encoded, &left);
	if (err == 0)
		err = sp_encoded_pack(&encoded);
	(void)sp_turn_set(true);
	if (err == 0)
		err = sp_file_sink_write(k->origin->files, &encoded.packed, &item,
					 sp_clock_mono_ns());
	if (err == -ENOMEM)
		ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
	sp_encoded_fini(&encoded);
	return err == -ENOENT || (err == 0 && left == 0);
}

/*
 * Writes a file of times for each kept interval that has a part of a slow root. A root that began before the oldest of
 * them is cut; if a file is lost, any root may be.
 */
static void write_times(struct sp_worker *w, const struct work *k)
{
	const struct sp_recent *r = &k->origin->recent;
	uint32_t cut = sp_slow_batch_begun_before(k->slow, r->lost_ns);
	bool is_whole = true;

	for (unsigned i = 0; i < r->n; i++) {
		uint64_t end = r->interval[i]->begun_ns + (uint64_t)r->interval[i]->duration_ns;

		if (sp_slow_batch_begun_before(k->slow, end) != 0)
			is_whole = write_times_of(w, k, r->interval[i]) && is_whole;
	}
	if (!is_whole)
		cut = sp_slow_batch_roots(k->slow);
	w->ops->counter_add(w->ops->arg, SP_COUNT_SLOW_ROOTS_CUT, cut);
}

static void work_on_one(struct sp_worker *w)
{
	struct work *k = w->current = take(w);
	bool is_named;

	w->ops = k->origin->ops;
	if (k->interval == NULL) {
		w->current = NULL;
		if (write_slow(w, k))
			write_times(w, k);
		drop(k);
		return;
	}
	is_named = name(w, k);
	w->current = NULL;
	if (is_named)
		sp_upload_put(w->upload, k->origin, k->interval);
	else
		count_unsent(k);
	if (!is_named)
		sp_recent_lose(&k->origin->recent, k->interval);
	else if (k->origin->files != NULL && sp_recent_put(&k->origin->recent, k->interval))
		k->interval = NULL;
	/*
	 * Before the count of unnamed intervals falls, so that the profile is counted as under way.
	 */
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

/* Everything that the order concerns is in the queue. */
static bool is_flushed(const struct sp_worker *w)
{
	return (w->order == SP_WORKER_FLUSH || w->order == SP_WORKER_FLUSH_LAST) && !w->is_done &&
	       w->waiting == NULL && sp_upload_flushed(w->upload);
}

/* After each round the worker wakes the collector once, for everything that the round has done. */
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
	err = w->wake >= 0 ? make_symbolizer(w, ops) : -errno;
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
