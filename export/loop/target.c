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
#include "export/profile/name_times.h"
#include "export/profile/root_values.h"
#include "export/profile/slow_list.h"
#include "export/profile/stack_map.h"
#include "export/push/file_sink.h"
#include "export/util/clock.h"

#define SP_DRAIN_MAX 4096U /* records per call */
#define SP_DRAIN_ROUNDS 16U
/* snapshots of one drain; walking a frame takes 3 us, so most of them take 0.1 ms */
#define SP_SNAPSHOTS_MAX 1024U
#define SP_DRAIN_ACTIVE_NS (250 * SP_NS_PER_MS)
#define SP_DRAIN_IDLE_NS SP_NS_PER_S
/*
 * While objects are loaded at the addresses of other ones, rings are drained this often: a snapshot
 * is walked with the objects that are mapped now.
 */
#define SP_DRAIN_CHANGING_NS (10 * SP_NS_PER_MS)
#define SP_CHANGING_NS SP_NS_PER_S
/*
 * Far more drains than it takes to empty the rings. A program that fills them faster is not waited
 * for.
 */
#define SP_FLUSH_DRAINS 64U
/*
 * When a process is about to end: looking for the objects of more stacks would take as long as
 * reading its mappings.
 */
#define SP_STACKS_ASKED 512U
#define SP_CLOCK_SET_NS ((int64_t)SP_NS_PER_S)

/* The moment at which one profile ends and the next one begins. */
struct moment {
	uint64_t mono_ns;
	int64_t real_ns;
};

struct sp_target_data {
	struct sp_worker *worker;
	struct sp_modules *modules;
	struct sp_unwinder *unwinder;
	struct sp_stack_map *map;
	struct sp_stack_map *allocations;        /* NULL = not wanted */
	struct sp_live_blocks *blocks;           /* NULL = not wanted */
	struct sp_bounded_names *threads;        /* NULL = no thread_name labels */
	struct sp_root_values *values;           /* NULL = nothing of roots is joined */
	struct sp_slow_list *slow;               /* NULL = not wanted */
	struct sp_name_times *name_times;        /* NULL = not wanted */
	struct moment slow_begun;                /* the interval whose slow roots are collected */
	struct sp_off_cpu_results waits_results; /* what sp_waits_results() said last */
	struct sp_status *status;
	uint64_t sampled[2];      /* samples of CPU time: outside of spans, in spans */
	uint64_t allocated;       /* samples of allocations */
	uint64_t profiled_ns;     /* of CPU time */
	bool is_successor;        /* an exporter before this one has served the process, too */
	bool has_told_below;      /* the log tells of a program that runs without the profiler */
	uint64_t met_ns;          /* when this exporter began to serve the process */
	uint64_t below_ns;        /* when the processes below it are examined next */
	uint64_t flushed_samples; /* all samples, at the last flush */
	bool flushed;
	/* no file of an object has frame tables that its memory lacks; the process was told so */
	bool has_no_frames;
	struct moment begun; /* the profile that is being collected */
	uint32_t batch_epoch;
	uint64_t changed_ns; /* when an object last took the addresses of another one; 0 = never */
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
	if (s->time_ns != 0 && p->d->slow != NULL &&
	    !sp_stack_map_put_time(p->d->map, &(struct sp_stack_time){.monotonic_ns = s->time_ns,
								      .weight = s->weight,
								      .tid = s->tid}))
		p->ops->counter_add(p->ops->arg, SP_COUNT_TIMES_OVER, 1);
	p->d->sampled[s->span_id != 0 || s->name_id != 0]++;
	p->d->profiled_ns += s->weight * (SP_NS_PER_S / p->ops->config->sample_rate_hz);
}

static void put_cpu_time(const struct sp_cpu_time *t, const struct put_arg *p)
{
	char name[SP_THREAD_NAME_BYTES];
	uint32_t thread;

	/* a thread that writes a record for another thread does not ask for its name */
	memcpy(name, t->thread_name, sizeof(name));
	if (p->d->threads != NULL && name[0] == '\0' && t->tid != 0)
		p->ops->thread_name(p->ops->arg, t->tid, name);
	thread = sp_thread_names_put(p->d->threads, name);
	p->d->profiled_ns += t->ns;
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
		if (p->epoch != sp_modules_epoch(p->d->modules))
			p->d->changed_ns = sp_clock_mono_ns();
		p->epoch = sp_modules_epoch(p->d->modules);
		break;
	case SP_RECORD_SPAN_VALUES:
		sp_root_values_take(p->d->values, &record->span_values);
		break;
	case SP_RECORD_ROOT_END:
		sp_root_values_end(p->d->values, &record->root_end);
		break;
	case SP_RECORD_SLOW_ROOT:
		sp_slow_list_put(p->d->slow, &record->slow_root);
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

/* Whether the exporter may examine the mappings and threads of the process now. */
static bool may_look(const struct sp_core_ops *ops)
{
	return ops->may_open(ops->arg) && ops->confined_ns(ops->arg) == 0;
}

/*
 * Reads the mappings once in a drain, after the ring: module events tell in which order objects
 * came and went, the mappings only the present, with which snapshots are walked. And only if there
 * are snapshots, because reading the mappings takes the host's mmap lock.
 */
static void look_once(struct put_arg *p)
{
	if (!p->looked && sp_host_objects_due(sp_modules_host(p->d->modules)) && may_look(p->ops))
		(void)sp_modules_refresh(p->d->modules);
	p->looked = true;
	p->epoch = sp_modules_epoch(p->d->modules);
}

static void tell_frame_tables(struct sp_target_data *d, const struct sp_core_ops *ops)
{
	d->has_no_frames = !sp_host_objects_have_frames(sp_modules_host(d->modules));
	ops->tell_frame_tables(ops->arg, !d->has_no_frames);
}

static void put_snapshot(const struct sp_snapshot *snap, void *arg)
{
	struct put_arg *p = arg;
	const struct sp_core_ops *ops = p->ops;
	struct sp_sample s;

	look_once(p);
	if (!sp_unwinder_walk(p->d->unwinder, snap, ops->config->stack_depth, &s)) {
		ops->counter_add(ops->arg, SP_COUNT_UNWIND_FAILED, 1);
		if (!p->d->has_no_frames)
			tell_frame_tables(p->d, ops);
	}
	if ((s.flags & SP_SAMPLE_TRUNCATED) != 0)
		ops->counter_add(ops->arg, SP_COUNT_UNWIND_TRUNCATED, 1);
	put_sample(&s, p);
}

static void tell_begin(struct sp_target *t, bool at_once)
{
	const struct sp_upload *u = sp_worker_upload(t->data->worker);
	const char *address[SP_SERVERS_MAX];
	unsigned n = sp_upload_servers(u);

	if (t->is_told)
		return;
	for (unsigned i = 0; i < n; i++)
		address[i] = sp_upload_address(u, i);
	t->is_told = sp_start_line_log(t->ops, address, n, at_once);
}

/* Samples without room in the tables stay in the rings, which hold some seconds of samples. */
static unsigned room_for(const struct sp_target_data *d, unsigned most)
{
	uint32_t room = sp_stack_map_room(d->map);

	if (d->allocations != NULL && sp_stack_map_room(d->allocations) < room)
		room = sp_stack_map_room(d->allocations);
	return room < most ? room : most;
}

/* True if the rings had records. */
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
		sp_live_blocks_snapshots_read(d->blocks);
	is_active = is_active || walked != 0;
	t->is_full = room_for(d, 1) == 0;
	t->has_more = more || walked == most_walked;
	t->has_taken = t->has_taken || is_active;
	return is_active;
}

/*
 * The rings of an active process are drained soon. Idle processes are checked together, at the next
 * whole second, because hundreds of them would wake us hundreds of times otherwise. Never later
 * than after an upload interval, because samples belong into the profile of their interval.
 */
static uint64_t next_look(const struct sp_target *t, bool is_active)
{
	uint64_t now_ns = sp_clock_mono_ns();
	uint64_t at = (now_ns / SP_DRAIN_IDLE_NS + 1) * SP_DRAIN_IDLE_NS;

	if (t->data->changed_ns != 0 && now_ns - t->data->changed_ns < SP_CHANGING_NS)
		at = now_ns + SP_DRAIN_CHANGING_NS;
	else if (is_active)
		at = now_ns + SP_DRAIN_ACTIVE_NS;
	else if (at < now_ns + SP_DRAIN_ACTIVE_NS)
		at += SP_DRAIN_IDLE_NS / 2;
	return earlier(at, now_ns + t->ops->config->upload_interval_ms * SP_NS_PER_MS);
}

/* CPU time of forked children that have ended without a sample, and that is in no profile yet. */
static uint64_t brief_children_us(const struct sp_core_ops *ops)
{
	uint64_t put = ops->counter_read(ops->arg, SP_COUNT_BRIEF_CHILDREN);
	uint64_t drained = ops->counter_read(ops->arg, SP_COUNT_BRIEF_CHILDREN_DRAINED);

	return put > drained ? put - drained : 0;
}

/*
 * Examines the processes below this one. An idle process may have started others that work; it is
 * examined more and more seldom. For an active process the pause is at most an upload interval.
 */
static void look_below(struct sp_target *t, bool rests)
{
	struct sp_target_data *d = t->data;
	uint64_t now_ns = sp_clock_mono_ns();
	uint64_t age = now_ns - d->met_ns;

	if (now_ns < d->below_ns)
		return;
	t->has_taken = t->has_taken || brief_children_us(t->ops) != 0;
	t->ops->look_below(t->ops->arg);
	d->has_told_below = d->has_told_below || sp_children_log(t->ops);
	age = age > SP_DRAIN_ACTIVE_NS ? age : SP_DRAIN_ACTIVE_NS;
	d->below_ns =
		now_ns +
		(rests ? age : earlier(age, t->ops->config->upload_interval_ms * SP_NS_PER_MS));
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
	look_below(t, news == SP_WAIT_RESTS);
	if (t->ops->confined_ns(t->ops->arg) == 0)
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
 * If the clock was set meanwhile, or the machine slept, the profile seems to have begun hours ago,
 * and the server, which compares it with the present time, would refuse it. So the profile keeps
 * its length and ends now.
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
	       (sp_stack_map_samples(d->map) != 0 || brief_children_us(t->ops) != 0 ||
		sp_live_blocks_changed(d->blocks) ||
		(d->allocations != NULL && sp_stack_map_samples(d->allocations) != 0) ||
		(waits != NULL && sp_stack_map_samples(waits) != 0));
}

static void begin_profile(struct sp_target *t, struct moment at)
{
	struct sp_target_data *d = t->data;
	uint32_t lost;

	/*
	 * Modules that were gone before the last profile began are no longer needed, except for
	 * sampled blocks that are not freed.
	 */
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
 * The samples since the profile began, with their names. Their maps go with the interval, and empty
 * ones take their place. NULL without memory: then the old maps stay.
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
	/*
	 * A profile of memory in use is made also when the last blocks have just been freed, so
	 * that the last profile shows nothing in use.
	 */
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

/* False also if there are more stacks than SP_STACKS_ASKED. */
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

			if (m == NULL || (!sp_module_has_file(m) && !m->vdso))
				return false;
		}
	}
	return true;
}

/*
 * Reads the mappings for addresses in objects that no walk has passed, such as a thread's start
 * routine, and for objects that are loaded later. That takes a third of a millisecond. If a process
 * that ends waits for it, the mappings are read only if the object of an address is not known.
 */
static void look_at_mappings(const struct sp_target *t, bool is_awaited)
{
	struct sp_target_data *d = t->data;

	if (!is_awaited || !knows_objects(d, d->map) || !knows_objects(d, d->allocations) ||
	    !knows_objects(d, sp_waits_map(t->waits)))
		(void)sp_modules_refresh(d->modules);
	/* A library that was loaded since may have frame tables. */
	if (d->has_no_frames)
		tell_frame_tables(d, t->ops);
}

static enum sp_latency latency_of(void *arg, const struct sp_root_end *end)
{
	return sp_slow_list_latency(arg, end);
}

/* slow: the roots of the interval that are listed, which keep their ids; NULL = none. */
static void judge_roots(struct sp_target_data *d, const struct sp_slow_batch *slow)
{
	if (d->values == NULL)
		return;
	sp_slow_list_update(d->slow);
	sp_root_values_decide(d->values, latency_of, d->slow);
	for (uint32_t i = 0; slow != NULL && i < sp_slow_batch_roots(slow); i++)
		sp_root_values_keep_id(d->values, sp_slow_batch_id(slow, i));
}

static void put_brief_children(struct sp_target_data *d, const struct sp_core_ops *ops)
{
	uint64_t us = brief_children_us(ops);
	const struct sp_cpu_time time = {.ns = us * 1000};

	if (us == 0)
		return;
	sp_stack_loss_count(
		ops, sp_stack_map_put_cpu_time(d->map, &time, sp_modules_epoch(d->modules), 0));
	ops->counter_add(ops->arg, SP_COUNT_BRIEF_CHILDREN_DRAINED, us);
}

/*
 * A sample stands for a whole period, of which a process that ends may have used a part only. Its
 * last profile has so much less that all its profiles together have the CPU time that it has used.
 * If they have even more, as by signals that a debugger sends, the samples stay as they are.
 */
#define TRIM_MOST_NS (20 * SP_NS_PER_MS)
static void trim(struct sp_target_data *d, const struct sp_core_ops *ops)
{
	struct sp_core_cpu cpu;
	uint64_t most_ns, over_ns;

	ops->cpu(ops->arg, &cpu);
	most_ns = cpu.own_ns - cpu.before_ns;
	over_ns = d->profiled_ns > most_ns ? d->profiled_ns - most_ns : 0;
	if (cpu.is_live && !d->is_successor && over_ns != 0 && over_ns <= TRIM_MOST_NS &&
	    sp_stack_map_take_ns(d->map, SP_NS_PER_S / ops->config->sample_rate_hz, over_ns))
		d->profiled_ns = most_ns;
}

/* Hands over the collected samples, and begins the next interval. */
static void hand_over(struct sp_target *t, bool is_awaited, const struct sp_slow_batch *slow)
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
	/* The collected samples are lost then: the process is told that it is served no more. */
	if (!ops->may_open(ops->arg))
		return;
	if (may_look(ops))
		look_at_mappings(t, is_awaited);
	end = now();
	follow_clock(&d->begun, end);
	samples = sp_stack_map_count(d->map) + sp_stack_map_count(d->allocations);
	waits = sp_stack_map_count(sp_waits_map(t->waits));
	modules = sp_modules_copy(d->modules);
	if (modules != NULL && ops->confined_ns(ops->arg) != 0)
		sp_modules_forget_perf_map(modules);
	judge_roots(d, slow);
	sp_name_times_correct(d->name_times, d->map, end.mono_ns - d->begun.mono_ns);
	if (is_awaited)
		trim(d, ops);
	put_brief_children(d, ops);
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

/*
 * Hands over an interval. Its slow roots are those from one tick to the next, even if the samples had
 * to be handed over in between.
 */
static void end_interval(struct sp_target *t, bool is_awaited)
{
	struct sp_target_data *d = t->data;
	struct moment begun = d->slow_begun;
	struct sp_slow_batch *slow = sp_slow_list_end(d->slow, d->values);

	hand_over(t, is_awaited, slow);
	d->slow_begun = now();
	follow_clock(&begun, d->slow_begun);
	if (slow == NULL)
		return;
	if (t->ops->config->output_dir != NULL) {
		sp_worker_put_slow(d->worker, &t->origin, slow, begun.real_ns);
		return;
	}
	/* They are known for their ids alone. */
	t->ops->counter_add(t->ops->arg, SP_COUNT_SLOW_ROOTS_FASTER, sp_slow_batch_roots(slow));
	sp_slow_batch_free(slow);
}

void sp_target_make_room(struct sp_target *t)
{
	const struct sp_target_data *d = t->data;
	const struct sp_stack_map *waits = sp_waits_map(t->waits);

	if (!t->has_taken || (!sp_stack_map_is_crowded(d->map) &&
			      (waits == NULL || !sp_stack_map_is_crowded(waits)) &&
			      (d->allocations == NULL || !sp_stack_map_is_crowded(d->allocations))))
		return;
	hand_over(t, false, NULL);
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
	struct sp_status_input in = {
		.state = sp_target_ending(t) ? "ending" : "active",
		.servers = sp_upload_servers(u),
		.with_span = d->sampled[1],
		.without_span = d->sampled[0],
		.waits = sp_config_wants_waits(t->ops->config) ? &d->waits_results : NULL,
		.missing = &t->origin.missing,
		.file_error = t->origin.files != NULL ? sp_file_sink_error(t->origin.files) : 0,
		.profiled_ns = d->is_successor ? UINT64_MAX : d->profiled_ns,
	};

	for (unsigned i = 0; i < in.servers; i++)
		in.server[i] = (struct sp_status_server){
			sp_upload_address(u, i), sp_upload_results(u, i), &t->origin.delivery[i]};
	(void)sp_waits_results(t->waits, &d->waits_results);
	(void)sp_status_write(d->status, &in);
}

void sp_target_report(struct sp_target *t)
{
	t->report_due = false;
	sp_losses_log(&t->origin.losses, t->ops);
	write_status(t);
}

void sp_target_tick(struct sp_target *t)
{
	uint64_t interval = t->ops->config->upload_interval_ms * SP_NS_PER_MS;
	uint64_t now_ns = sp_clock_mono_ns();

	if (t->report_due)
		sp_target_report(t);
	tell_begin(t, true);
	end_interval(t, false);
	/*
	 * The report waits until the profiles of this interval are sent or lost, at most until the
	 * next tick.
	 */
	t->report_due = true;
	/* In step with the first tick. Missed ticks are skipped. */
	t->tick_ns += interval;
	if (t->tick_ns <= now_ns)
		t->tick_ns = now_ns + interval;
}

void sp_target_finish(struct sp_target *t)
{
	/*
	 * A killed host leaves samples in its rings, and no later drain will take them. So this one
	 * takes those of a host that seems idle, too, because the kernel charges CPU time late.
	 */
	t->has_more = true;
	t->data->below_ns = 0;
	for (unsigned i = 0; i < SP_FLUSH_DRAINS && sp_target_drain(t); i++)
		sp_target_make_room(t);
	tell_begin(t, true);
	end_interval(t, true);
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
	sp_slow_list_abandon(t->data->slow);
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
	 * Without samples no tick is needed: the status is renewed at the next drain. Otherwise
	 * each of hundreds of idle processes would wake us for its tick.
	 */
	return has_collected(t) ? earlier(due, t->tick_ns) : due;
}

static int make(struct sp_target *t, const struct sp_core_ops *ops)
{
	struct sp_target_data *d = t->data;

	d->modules = sp_modules_new(ops->proc, ops->maps);
	if (d->modules != NULL)
		sp_modules_set_own(d->modules, ops->own_object);
	d->map = sp_stack_map_new(&sp_stack_limits_default);
	if (ops->config->alloc) {
		d->allocations = sp_stack_map_new(&sp_stack_limits_default);
		d->blocks = sp_live_blocks_new(ops);
	}
	if (d->modules != NULL)
		d->unwinder = sp_unwinder_new(sp_modules_host(d->modules));
	if (ops->config->thread_name)
		d->threads = sp_thread_names_new(ops);
	if (sp_config_joins_roots(ops->config))
		d->values = sp_root_values_new(ops);
	if (ops->config->slow != NULL)
		d->slow = sp_slow_list_new(ops);
	if (sp_config_measures_roots(ops->config))
		d->name_times = sp_name_times_new(ops);
	if (sp_config_wants_waits(ops->config) && d->unwinder != NULL)
		t->waits = sp_waits_new(
			&(struct sp_waits_env){ops, d->modules, d->unwinder, d->threads});
	return d->modules == NULL || d->map == NULL || d->unwinder == NULL ||
			       (ops->config->alloc &&
				(d->allocations == NULL || d->blocks == NULL)) ||
			       (ops->config->thread_name && d->threads == NULL) ||
			       (sp_config_joins_roots(ops->config) && d->values == NULL) ||
			       (ops->config->slow != NULL && d->slow == NULL) ||
			       (sp_config_measures_roots(ops->config) && d->name_times == NULL) ||
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
	t->data->is_successor = ops->counter_read(ops->arg, SP_COUNT_SAMPLES_DRAINED) != 0;
	if (may_look(ops))
		(void)sp_modules_refresh(t->data->modules);
	begin_profile(t, now());
	t->data->slow_begun = t->data->begun;
	t->data->met_ns = t->data->begun.mono_ns;
	t->data->below_ns = t->data->met_ns + SP_DRAIN_ACTIVE_NS;
	t->tick_ns =
		t->data->begun.mono_ns + sp_clock_first_wait(interval, sp_clock_seed(ops->pid));
	write_status(t);
	return 0;
}

void sp_target_retire(struct sp_target *t)
{
	struct sp_target_data *d = t->data;

	(void)sp_waits_results(t->waits, &d->waits_results);
	sp_status_hide(d->status);
	sp_waits_free(t->waits);
	sp_unwinder_free(d->unwinder);
	sp_modules_free(d->modules);
	sp_stack_map_free(d->map);
	sp_stack_map_free(d->allocations);
	sp_live_blocks_free(d->blocks);
	sp_bounded_names_free(d->threads);
	sp_root_values_free(d->values);
	sp_slow_list_free(d->slow);
	sp_name_times_free(d->name_times);
	t->waits = NULL;
	d->unwinder = NULL;
	d->modules = NULL;
	d->map = NULL;
	d->allocations = NULL;
	d->blocks = NULL;
	d->threads = NULL;
	d->values = NULL;
	d->slow = NULL;
	d->name_times = NULL;
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
