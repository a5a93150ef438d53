/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "export/loop/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/loop/status.h"
#include "export/objects/modules.h"
#include "export/objects/unwind_snapshot.h"
#include "export/profile/bounded_names.h"
#include "export/profile/interval.h"
#include "export/profile/live_blocks.h"
#include "export/profile/root_values.h"
#include "export/profile/stack_map.h"
#include "export/push/file_sink.h"
#include "export/util/clock.h"

#define SP_DRAIN_MAX 4096U /* records per call */
#define SP_DRAIN_ROUNDS 16U
#define SP_SNAPSHOTS_MAX 1024U /* per drain; 3 us a frame, so 0.1 ms each as a rule */
#define SP_DRAIN_ACTIVE_NS (250 * SP_NS_PER_MS)
#define SP_DRAIN_IDLE_NS SP_NS_PER_S
/* Far more than the rings can hold. A program that keeps filling them is not waited for. */
#define SP_FLUSH_DRAINS 64U
/* Of a process that is about to end: looking for all of their objects takes as long as reading its mappings. */
#define SP_STACKS_ASKED 512U
#define SP_CLOCK_SET_NS ((int64_t)SP_NS_PER_S)

/* The moment at which a profile ends and the next one begins. */
struct moment {
	uint64_t mono_ns;
	int64_t real_ns;
};

struct sp_target_data {
	struct sp_worker *worker;
	struct sp_modules *modules;
	struct sp_unwinder *unwinder;
	struct sp_stack_map *map;
	struct sp_stack_map *allocations;  /* NULL = nobody wants them */
	struct sp_live_blocks *blocks;     /* the same */
	struct sp_bounded_names *threads;  /* NULL = no thread_name labels */
	struct sp_root_values *values;     /* NULL = no attributes are labels */
	struct sp_off_cpu_news waits_news; /* of the last look */
	struct sp_status *status;
	uint64_t sampled[2];      /* of CPU time, outside of spans, in spans */
	uint64_t allocated;       /* samples of allocations */
	uint64_t flushed_samples; /* of all, at the last flush */
	bool flushed;
	struct moment begun; /* the profile that is being collected */
	uint32_t batch_epoch;
};

struct put_arg {
	const struct sp_core_ops *ops;
	struct sp_target_data *d;
	uint32_t epoch;
	bool looked; /* the mappings were read for the snapshots of this drain */
};

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void put_sample(const struct sp_sample *s, const struct put_arg *p)
{
	uint32_t thread = sp_thread_names_put(p->d->threads, s->thread_name);

	if (s->allocated != 0 && p->d->allocations != NULL) {
		sp_stack_loss_count(
			p->ops, sp_stack_map_put_allocation(p->d->allocations, s, p->epoch, thread,
							    p->ops->config->alloc_interval));
		sp_live_blocks_put(p->d->blocks, s, p->epoch, thread);
		p->d->allocated++;
		return;
	}
	sp_stack_loss_count(p->ops, sp_stack_map_put(p->d->map, s, p->epoch, thread));
	p->d->sampled[s->span_id != 0 || s->name_id != 0]++;
}

static void put_cpu_time(const struct sp_cpu_time *t, const struct put_arg *p)
{
	char name[SP_THREAD_NAME_BYTES];
	uint32_t thread;

	/* what is put down for another thread has not been asked for its name */
	memcpy(name, t->thread_name, sizeof(name));
	if (p->d->threads != NULL && name[0] == '\0' && t->tid != 0)
		p->ops->thread_name(p->ops->arg, t->tid, name);
	thread = sp_thread_names_put(p->d->threads, name);
	sp_stack_loss_count(p->ops, sp_stack_map_put_cpu_time(p->d->map, t, p->epoch, thread));
}

static void put_record(const struct sp_record *record, void *arg)
{
	struct put_arg *p = arg;

	switch (record->kind) {
	case SP_RECORD_SAMPLE:
		put_sample(&record->sample, p);
		break;
	case SP_RECORD_CPU_TIME:
		put_cpu_time(&record->cpu_time, p);
		break;
	case SP_RECORD_MODULE_EVENT:
		sp_modules_take_event(p->d->modules, &record->module_event);
		p->epoch = sp_modules_epoch(p->d->modules);
		break;
	case SP_RECORD_SPAN_VALUES:
		sp_root_values_take(p->d->values, &record->span_values);
		break;
	case SP_RECORD_FREED:
		sp_live_blocks_freed(p->d->blocks, record->word);
		break;
	case SP_RECORD_SPAN_ENDED:
		sp_live_blocks_span_ended(p->d->blocks, record->word);
		break;
	default:
		break;
	}
}

/*
 * Only after the ring was drained: module events show in which order objects came and went, the
 * mappings only the present, in which snapshots are walked. And only if there are snapshots,
 * because reading the mappings takes the host's mmap lock.
 */
static void look_once(struct put_arg *p)
{
	if (!p->looked && sp_host_objects_due(sp_modules_host(p->d->modules)) &&
	    p->ops->may_open(p->ops->arg))
		(void)sp_modules_refresh(p->d->modules);
	p->looked = true;
	p->epoch = sp_modules_epoch(p->d->modules);
}

static void put_snapshot(const struct sp_snapshot *snap, void *arg)
{
	struct put_arg *p = arg;
	const struct sp_core_ops *ops = p->ops;
	struct sp_sample s;

	look_once(p);
	if (!sp_unwinder_walk(p->d->unwinder, snap, ops->config->stack_depth, &s))
		ops->counter_add(ops->arg, SP_COUNT_UNWIND_FAILED, 1);
	if ((s.flags & SP_SAMPLE_TRUNCATED) != 0)
		ops->counter_add(ops->arg, SP_COUNT_UNWIND_TRUNCATED, 1);
	put_sample(&s, p);
}

static void tell_begin(struct sp_target *t, bool at_once)
{
	struct sp_target_data *d = t->data;

	if (!t->is_told)
		t->is_told = sp_start_line_tell(
			t->ops, sp_upload_address(sp_worker_upload(d->worker)), at_once);
}

/* What has no room stays in the rings, which hold some seconds of samples. */
static unsigned room_for(const struct sp_target_data *d, unsigned most)
{
	uint32_t room = sp_stack_map_room(d->map);

	if (d->allocations != NULL && sp_stack_map_room(d->allocations) < room)
		room = sp_stack_map_room(d->allocations);
	return room < most ? room : most;
}

/* True if there was something. */
static bool take(struct sp_target *t)
{
	struct sp_target_data *d = t->data;
	const struct sp_core_ops *ops = t->ops;
	struct put_arg arg = {.ops = ops, .d = d, .epoch = sp_modules_epoch(d->modules)};
	bool more = true;
	bool is_active = false;
	unsigned most_walked;
	unsigned walked;
	bool is_all;

	/* Bounded, because the threads that fill the ring may be faster than we are. */
	for (unsigned round = 0; round < SP_DRAIN_ROUNDS && more; round++) {
		unsigned most = room_for(d, SP_DRAIN_MAX);
		unsigned n = ops->drain(ops->arg, put_record, &arg, most);

		is_active = is_active || n != 0;
		more = n == most;
	}
	most_walked = room_for(d, SP_SNAPSHOTS_MAX);
	walked = ops->drain_snapshots(ops->arg, put_snapshot, &arg, most_walked, &is_all);
	if (is_all)
		sp_live_blocks_settle(d->blocks);
	is_active = is_active || walked != 0;
	t->is_full = room_for(d, 1) == 0;
	t->has_more = more || walked == most_walked;
	t->has_taken = t->has_taken || is_active;
	return is_active;
}

/*
 * What comes into empty rings is seen at the next look, and belongs into this interval's profile. Those in which
 * nothing was found are looked at together, at the next whole second, as hundreds of them would wake us that often
 * else.
 */
static uint64_t next_look(const struct sp_target *t, bool is_active)
{
	uint64_t now_ns = sp_clock_mono_ns();
	uint64_t at = (now_ns / SP_DRAIN_IDLE_NS + 1) * SP_DRAIN_IDLE_NS;

	if (is_active)
		at = now_ns + SP_DRAIN_ACTIVE_NS;
	else if (at < now_ns + SP_DRAIN_ACTIVE_NS)
		at += SP_DRAIN_IDLE_NS / 2;
	return earlier(at, now_ns + t->ops->config->upload_interval_ms * SP_NS_PER_MS);
}

bool sp_target_drain(struct sp_target *t)
{
	unsigned news = t->ops->news(t->ops->arg);
	bool is_active = false;

	t->asked |= news & ~SP_WAIT_RESTS;
	if (t->is_left)
		return false;
	if (news != SP_WAIT_RESTS || t->has_more)
		is_active = take(t);
	sp_waits_run(t->waits);
	t->has_taken = t->has_taken || t->waits != NULL;
	t->drain_ns = next_look(t, is_active);
	tell_begin(t, false);
	return t->has_more;
}

static struct moment now(void)
{
	return (struct moment){sp_clock_mono_ns(), sp_clock_real_ns()};
}

/*
 * If the clock was set meanwhile, or the machine slept, the profile seems to have begun hours ago, and the
 * server, which judges by what the clock says now, would refuse it. So it lasted as long as it did, and ends
 * now.
 */
static void follow_clock(struct moment *begun, struct moment end)
{
	int64_t set_by = end.real_ns - begun->real_ns - (int64_t)(end.mono_ns - begun->mono_ns);

	if (set_by > SP_CLOCK_SET_NS || set_by < -SP_CLOCK_SET_NS)
		begun->real_ns += set_by;
}

static bool has_collected(const struct sp_target *t)
{
	const struct sp_target_data *d = t->data;
	const struct sp_stack_map *waits = sp_waits_map(t->waits);

	return t->has_taken &&
	       (sp_stack_map_samples(d->map) != 0 || sp_live_blocks_changed(d->blocks) ||
		(d->allocations != NULL && sp_stack_map_samples(d->allocations) != 0) ||
		(waits != NULL && sp_stack_map_samples(waits) != 0));
}

static void begin_profile(struct sp_target *t, struct moment at)
{
	struct sp_target_data *d = t->data;
	uint32_t lost;

	/* Modules that were gone before the last profile began are no longer needed, but for blocks that are there. */
	lost = sp_modules_forget(d->modules, d->batch_epoch,
				 sp_live_blocks_epoch(d->blocks, d->batch_epoch));
	if (lost != 0)
		sp_live_blocks_forget_stacks(d->blocks, lost);
	t->ops->repeat_events(t->ops->arg);
	d->batch_epoch = sp_modules_epoch(d->modules);
	d->begun = at;
	sp_stack_map_clear(d->map);
	if (d->allocations != NULL)
		sp_stack_map_clear(d->allocations);
	sp_waits_clear(t->waits);
	sp_root_values_age(d->values);
	t->has_taken = sp_live_blocks_changed(d->blocks);
}

/*
 * What was collected since the profile began, with its names. Its maps go with it, and empty ones take their
 * place. NULL without memory: then the old ones stay.
 */
static struct sp_interval *take_interval(struct sp_target *t, struct moment end)
{
	struct sp_target_data *d = t->data;
	struct sp_interval_parts parts = {
		.ops = t->ops,
		.map = {[SP_MAP_SAMPLES] = d->map, [SP_MAP_ALLOCATIONS] = d->allocations},
		.threads = d->threads,
		.values = d->values,
		.begun_ns = d->begun.mono_ns,
		.time_ns = d->begun.real_ns,
		.duration_ns = (int64_t)(end.mono_ns - d->begun.mono_ns),
	};
	struct sp_stack_map *map = sp_stack_map_new(&sp_stack_limits_default);
	struct sp_stack_map *allocations =
		d->allocations != NULL ? sp_stack_map_new(&sp_stack_limits_default) : NULL;
	/* Also when all of them have just gone: whoever looks at the last profile sees that there is nothing. */
	bool in_use = sp_live_blocks_count(d->blocks) != 0 || sp_live_blocks_changed(d->blocks);

	if (in_use)
		parts.map[SP_MAP_IN_USE] = sp_stack_map_new(&sp_stack_limits_default);
	if (map == NULL || (d->allocations != NULL && allocations == NULL) ||
	    (in_use && parts.map[SP_MAP_IN_USE] == NULL) || !sp_waits_take(t->waits, &parts)) {
		sp_stack_map_free(map);
		sp_stack_map_free(allocations);
		sp_stack_map_free(parts.map[SP_MAP_IN_USE]);
		return NULL;
	}
	d->map = map;
	d->allocations = allocations;
	if (in_use)
		sp_live_blocks_collect(d->blocks, parts.map[SP_MAP_IN_USE]);
	return sp_interval_new(&parts);
}

/* False also for more stacks than are asked. */
static bool knows_objects(const struct sp_target_data *d, const struct sp_stack_map *map)
{
	uint32_t stacks = map != NULL ? sp_stack_map_stacks(map) : 0;
	struct sp_stack s;

	if (stacks > SP_STACKS_ASKED)
		return false;
	for (uint32_t n = 1; n < stacks; n++) {
		sp_stack_map_stack(map, n, &s);
		for (unsigned i = 0; i < s.depth; i++) {
			const struct sp_module *m = sp_modules_find(d->modules, s.pc[i], s.epoch);

			if (m == NULL || (m->path[0] == '\0' && !m->vdso))
				return false;
		}
	}
	return true;
}

/*
 * The mappings are read for addresses in objects that no walk has passed, such as a thread's start routine, and for what
 * comes after them. That takes a third of a millisecond, and a process that ends waits for it: then they are read only if
 * the object of an address is not known.
 */
static void look_at_mappings(const struct sp_target *t, bool is_awaited)
{
	struct sp_target_data *d = t->data;

	if (!is_awaited || !knows_objects(d, d->map) || !knows_objects(d, d->allocations) ||
	    !knows_objects(d, sp_waits_map(t->waits)))
		(void)sp_modules_refresh(d->modules);
}

/* Hands over what was collected, and begins the next interval. */
static void hand_over(struct sp_target *t, bool is_awaited)
{
	struct sp_target_data *d = t->data;
	const struct sp_core_ops *ops = t->ops;
	struct sp_interval *interval = NULL;
	struct sp_modules *modules;
	uint64_t samples, waits;
	struct moment end;

	end = now();
	if (!t->has_taken) {
		d->begun = end;
		return;
	}
	if (!has_collected(t)) {
		begin_profile(t, end);
		return;
	}
	/* What was collected is lost then, as the process is told to be served no more. */
	if (!ops->may_open(ops->arg))
		return;
	look_at_mappings(t, is_awaited);
	end = now();
	follow_clock(&d->begun, end);
	samples = sp_stack_map_count(d->map) + sp_stack_map_count(d->allocations);
	waits = sp_stack_map_count(sp_waits_map(t->waits));
	modules = sp_modules_copy(d->modules);
	if (modules != NULL)
		interval = take_interval(t, end);
	begin_profile(t, end);
	if (interval == NULL) {
		ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		ops->counter_add(ops->arg, SP_COUNT_SAMPLES_UNSENT, samples);
		ops->counter_add(ops->arg, SP_COUNT_WAITS_UNSENT, waits);
		sp_modules_free(modules);
		return;
	}
	sp_worker_put(d->worker, &t->origin, interval, modules);
}

void sp_target_make_room(struct sp_target *t)
{
	const struct sp_target_data *d = t->data;
	const struct sp_stack_map *waits = sp_waits_map(t->waits);

	if (!t->has_taken || (!sp_stack_map_is_crowded(d->map) &&
			      (waits == NULL || !sp_stack_map_is_crowded(waits)) &&
			      (d->allocations == NULL || !sp_stack_map_is_crowded(d->allocations))))
		return;
	hand_over(t, false);
	t->is_full = false;
	t->report_due = true;
}

static uint64_t sampled(const struct sp_target_data *d)
{
	return d->sampled[0] + d->sampled[1] + d->allocated;
}

bool sp_target_ending(const struct sp_target *t)
{
	const struct sp_target_data *d = t->data;

	return d->flushed && d->flushed_samples == sampled(d);
}

static void write_status(struct sp_target *t)
{
	struct sp_target_data *d = t->data;
	const struct sp_upload *u = sp_worker_upload(d->worker);
	const struct sp_status_input in = {
		.state = sp_target_ending(t) ? "ending" : "active",
		.address = sp_upload_address(u),
		.news = sp_upload_news(u),
		.with_span = d->sampled[1],
		.without_span = d->sampled[0],
		.waits = sp_config_wants_waits(t->ops->config) ? &d->waits_news : NULL,
		.file_error = t->origin.files != NULL ? sp_file_sink_error(t->origin.files) : 0,
	};

	(void)sp_waits_news(t->waits, &d->waits_news);
	(void)sp_status_write(d->status, &in);
}

void sp_target_report(struct sp_target *t)
{
	t->report_due = false;
	sp_losses_tell(&t->origin.losses, t->ops);
	write_status(t);
}

void sp_target_tick(struct sp_target *t)
{
	uint64_t interval = t->ops->config->upload_interval_ms * SP_NS_PER_MS;
	uint64_t now_ns = sp_clock_mono_ns();

	if (t->report_due)
		sp_target_report(t);
	tell_begin(t, true);
	hand_over(t, false);
	/* When it is known what became of it, at the latest before the next one. */
	t->report_due = true;
	/* In step with the first one, but never two at once. */
	t->tick_ns += interval;
	if (t->tick_ns <= now_ns)
		t->tick_ns = now_ns + interval;
}

void sp_target_finish(struct sp_target *t)
{
	/*
	 * A killed host leaves all that was in its rings, and there will be no later drain: what a thread has put that
	 * seems to rest, as it was not charged for its time yet, is taken as well.
	 */
	t->has_more = true;
	for (unsigned i = 0; i < SP_FLUSH_DRAINS && sp_target_drain(t); i++)
		sp_target_make_room(t);
	tell_begin(t, true);
	hand_over(t, true);
	t->data->flushed = true;
	t->data->flushed_samples = sampled(t->data);
}

void sp_target_abandon(struct sp_target *t)
{
	const struct sp_core_ops *ops = t->ops;

	ops->counter_add(ops->arg, SP_COUNT_SAMPLES_UNSENT,
			 sp_stack_map_count(t->data->map) +
				 sp_stack_map_count(t->data->allocations));
	ops->counter_add(ops->arg, SP_COUNT_WAITS_UNSENT,
			 sp_stack_map_count(sp_waits_map(t->waits)));
}

uint64_t sp_target_due_ns(const struct sp_target *t)
{
	uint64_t due = earlier(t->drain_ns, t->ops->due_ns(t->ops->arg));

	if ((t->awaited & SP_WAIT_STOP) != 0)
		return UINT64_MAX;
	if (t->asked != 0 || t->is_full)
		return 0;
	due = earlier(due, sp_waits_due_ns(t->waits));
	/*
	 * Where nothing was collected, nothing has to happen at a certain moment: the status is renewed at the next
	 * look into the rings. Each of hundreds of processes would wake us for it else.
	 */
	return has_collected(t) ? earlier(due, t->tick_ns) : due;
}

static int make(struct sp_target *t, const struct sp_core_ops *ops)
{
	struct sp_target_data *d = t->data;

	d->modules = sp_modules_new(ops->proc, ops->maps);
	d->map = sp_stack_map_new(&sp_stack_limits_default);
	if (ops->config->alloc) {
		d->allocations = sp_stack_map_new(&sp_stack_limits_default);
		d->blocks = sp_live_blocks_new(ops);
	}
	if (d->modules != NULL)
		d->unwinder = sp_unwinder_new(sp_modules_host(d->modules));
	if (ops->config->thread_name)
		d->threads = sp_thread_names_new(ops);
	if (ops->config->span_labels != NULL)
		d->values = sp_root_values_new(ops);
	if (sp_config_wants_waits(ops->config) && d->unwinder != NULL)
		t->waits = sp_waits_new(
			&(struct sp_waits_env){ops, d->modules, d->unwinder, d->threads});
	return d->modules == NULL || d->map == NULL || d->unwinder == NULL ||
			       (ops->config->alloc &&
				(d->allocations == NULL || d->blocks == NULL)) ||
			       (ops->config->thread_name && d->threads == NULL) ||
			       (ops->config->span_labels != NULL && d->values == NULL) ||
			       (sp_config_wants_waits(ops->config) && t->waits == NULL)
		       ? -ENOMEM
		       : 0;
}

int sp_target_init(struct sp_target *t, const struct sp_core_ops *ops, struct sp_worker *worker)
{
	uint64_t interval = ops->config->upload_interval_ms * SP_NS_PER_MS;
	int err;

	memset(t, 0, sizeof(*t));
	t->ops = ops;
	t->data = calloc(1, sizeof(*t->data));
	if (t->data == NULL)
		return -ENOMEM;
	t->data->worker = worker;
	err = make(t, ops);
	if (err == 0)
		err = sp_upload_know(sp_worker_upload(worker), &t->origin, ops);
	if (err != 0)
		return err;
	t->data->status = sp_status_new(ops);
	if (ops->may_open(ops->arg))
		(void)sp_modules_refresh(t->data->modules);
	begin_profile(t, now());
	t->tick_ns =
		t->data->begun.mono_ns + sp_clock_first_wait(interval, sp_clock_seed(ops->pid));
	write_status(t);
	return 0;
}

void sp_target_retire(struct sp_target *t)
{
	struct sp_target_data *d = t->data;

	(void)sp_waits_news(t->waits, &d->waits_news);
	sp_status_hide(d->status);
	sp_waits_free(t->waits);
	sp_unwinder_free(d->unwinder);
	sp_modules_free(d->modules);
	sp_stack_map_free(d->map);
	sp_stack_map_free(d->allocations);
	sp_live_blocks_free(d->blocks);
	sp_bounded_names_free(d->threads);
	sp_root_values_free(d->values);
	t->waits = NULL;
	d->unwinder = NULL;
	d->modules = NULL;
	d->map = NULL;
	d->allocations = NULL;
	d->blocks = NULL;
	d->threads = NULL;
	d->values = NULL;
}

void sp_target_fini(struct sp_target *t)
{
	struct sp_target_data *d = t->data;

	sp_upload_forget(&t->origin);
	if (d == NULL)
		return;
	sp_target_retire(t);
	sp_status_free(d->status);
	free(d);
	t->data = NULL;
}
