/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes records of an interval as a profile: adds each with its frames, until the next one would
 * exceed a limit of the server. A profile counts either samples or waits, and each must be counted in exactly one
 * profile: a profile of waiting time counts waits; the wall-clock profile counts waits if there is no profile of
 * waiting time. Context: the exporter.
 */
#include "export/profile/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/symbols/lines.h"
#include "export/util/containers.h"
#include "export/util/turn.h"
#include "sampler/base/compiler.h"
#include "sampler/base/text.h"

/* Marker frames may come at either end of the deepest stack. */
#define SP_ENCODE_FRAMES (SP_FRAMES_MAX + 3)
#define SP_MARKERS 5

struct place_id {
	uint64_t key;
	uint64_t id;
};

struct run {
	const struct sp_interval *interval;
	const struct sp_pprof_limits *limits;
	struct sp_pprof_times times;
	struct sp_pprof *profile;
	struct sp_series_labels *series; /* NULL = samples have all their labels */
	/* a label value of the last entry was replaced by "(other)" */
	bool was_replaced;
	/* an entry has other labels than in a folder */
	bool has_changed_labels;
	uint32_t *location; /* ids, by index in the interval's named[]; 0 = not in the profile */
	struct place_id *place;
	size_t places, place_cap;
	uint64_t marker[SP_MARKERS]; /* location ids */
	/* Of a sample with a time. */
	int64_t end_ns;
	uint32_t thread_id;
	bool is_full;
};

static const char *const marker_text[SP_MARKERS] = {
	"(other)",        /* stacks over the limit */
	"[unknown]",      /* a sample without a single frame */
	"[truncated]",    /* the depth limit cut the outermost frames */
	"[incomplete]",   /* the walk stopped before the outermost frame */
	"[unsampled cpu]" /* CPU time between samples, by the thread's clock */
};

enum { MARK_OTHER, MARK_UNKNOWN, MARK_TRUNCATED, MARK_INCOMPLETE, MARK_UNSAMPLED };

static int place_id(struct run *r, const struct sp_place *place, uint64_t *id)
{
	char hex[(size_t)2 * SP_BUILD_ID_MAX + 1];
	const struct sp_pprof_mapping m = {
		.start = place->start,
		.limit = place->limit,
		.offset = place->offset,
		.file = place->file,
		.build_id = hex,
		.functions = !place->raw,
		.lines = place->lines,
	};

	for (size_t i = r->places; i-- != 0;) {
		if (r->place[i].key == place->key) {
			*id = r->place[i].id;
			return 0;
		}
	}
	if (!SP_GROW(r->place, r->place_cap, r->places + 1, SIZE_MAX))
		return -ENOMEM;
	sp_text_hex(hex, place->build_id, place->build_id_len);
	if (sp_pprof_mapping(r->profile, &m, id) != 0)
		return -ENOMEM;
	r->place[r->places++] = (struct place_id){place->key, *id};
	return 0;
}

/*
 * The location has the run-time address, and its mapping has start, limit and offset, as "go tool pprof" expects. The
 * server zeroes the address, because the mapping says that all its functions are known. A frame that the server's
 * symbolizer will name has its ELF address and no lines.
 */
static int add_location(struct run *r, const struct sp_frame *f, uint64_t *id)
{
	struct sp_pprof_line line[SP_LINES_DEPTH];
	size_t n = f->lines;
	uint64_t mapping;
	int err = place_id(r, &f->place, &mapping);

	for (size_t i = 0; err == 0 && i < n; i++) {
		const struct sp_line *from = &f->line[i];

		line[i].line = from->line;
		err = sp_pprof_function(r->profile, from->name, from->system_name, from->file,
					&line[i].function);
	}
	return err == 0 ? sp_pprof_location(r->profile, mapping, f->address, line, n, id) : err;
}

static int marker_id(struct run *r, unsigned which, uint64_t *id)
{
	struct sp_line line;
	struct sp_frame f;
	int err = 0;

	if (r->marker[which] == 0) {
		sp_symbolize_marker(marker_text[which], &line, &f);
		err = add_location(r, &f, &r->marker[which]);
	}
	*id = r->marker[which];
	return err;
}

/* Makes the frame of a named address. Its lines are in line. */
static void frame_of(const struct sp_interval *i, const struct sp_named *n,
		     struct sp_line line[SP_LINES_DEPTH], struct sp_frame *f)
{
	const struct sp_named_place *p = &i->place[n->place];

	*f = (struct sp_frame){
		.place = p->place, .address = n->address, .line = line, .lines = n->lines};
	f->place.file = sp_interval_text(i, p->file);
	f->place.build_id = p->build_id;
	for (unsigned k = 0; k < n->lines; k++) {
		const struct sp_named_line *from = &i->line[n->first + k];

		line[k] = (struct sp_line){
			.name = sp_interval_text(i, from->name),
			.system_name = sp_interval_text(i, from->system_name),
			.file = sp_interval_text(i, from->file),
			.line = from->line,
		};
	}
}

static int named_id(struct run *r, const struct sp_named *n, uint64_t *id)
{
	uint32_t *known = &r->location[n - r->interval->named];
	struct sp_line line[SP_LINES_DEPTH];
	struct sp_frame f;

	*id = *known;
	if (*known != 0)
		return 0;
	frame_of(r->interval, n, line, &f);
	if (add_location(r, &f, id) != 0)
		return -ENOMEM;
	*known = (uint32_t)*id;
	return 0;
}

static int number_id(struct run *r, uint64_t number, uint32_t kind, uint64_t *id)
{
	const struct sp_named *n = sp_interval_find(r->interval, number, kind);

	/* Every address of an interval is named in it. */
	return n != NULL ? named_id(r, n, id) : marker_id(r, MARK_UNKNOWN, id);
}

/* Location ids of a stack, leaf first. Never empty. */
static int locate(struct run *r, const struct sp_stack_map *map, uint32_t stack,
		  uint64_t id[SP_ENCODE_FRAMES], size_t *n)
{
	struct sp_stack s;

	*n = 0;
	if (stack == SP_STACK_OTHER)
		return marker_id(r, MARK_OTHER, &id[(*n)++]);
	sp_stack_map_stack(map, stack, &s);
	if (s.unsampled && marker_id(r, MARK_UNSAMPLED, &id[(*n)++]) != 0)
		return -ENOMEM;
	if (s.owner != 0 && number_id(r, sp_interval_owner(&s), SP_NAMED_OWNER, &id[(*n)++]) != 0)
		return -ENOMEM;
	if (s.wait != 0 && number_id(r, s.wait, SP_NAMED_WAIT, &id[(*n)++]) != 0)
		return -ENOMEM;
	for (unsigned i = s.has_owner_pc; i < s.depth; i++) {
		const struct sp_named *frame = &r->interval->named[s.pc[i]];

		/*
		 * Frames of the profiler's own objects are left out: threads run below our function if we saw them
		 * begin, and our hooks call the functions that they replace.
		 */
		if (r->interval->place[frame->place].place.own)
			continue;
		if (named_id(r, frame, &id[(*n)++]) != 0)
			return -ENOMEM;
	}
	if (*n == 0 && marker_id(r, MARK_UNKNOWN, &id[(*n)++]) != 0)
		return -ENOMEM;
	if ((s.flags & SP_SAMPLE_TRUNCATED) != 0)
		return marker_id(r, MARK_TRUNCATED, &id[(*n)++]);
	if (s.depth != 0 && (s.flags & SP_SAMPLE_ROOTED) == 0)
		return marker_id(r, MARK_INCOMPLETE, &id[(*n)++]);
	return 0;
}

/* The sums come from the host, and may be anything. */
static int64_t at_most(uint64_t n)
{
	return n < INT64_MAX ? (int64_t)n : INT64_MAX;
}

static int64_t ns_of(const struct sp_stack_entry *entry, int64_t period_ns)
{
	return (int64_t)sp_stack_entry_ns(entry, (uint64_t)period_ns);
}

/* Adds record n of the interval, with the stack and the values of entry. -E2BIG: it does not fit. */
static int add_values(struct run *r, uint32_t n, const struct sp_stack_entry *entry)
{
	const struct sp_stack_map *map;
	uint64_t id[SP_ENCODE_FRAMES];
	struct sp_record_labels labels;
	struct sp_pprof_sample s = {
		.location = id,
		.count = (int64_t)entry->count,
		.ns = ns_of(entry, r->times.period_ns),
		.label = labels.label,
		.end_ns = r->end_ns,
		.thread_id = r->thread_id,
	};

	(void)sp_interval_record(r->interval, n, &map);
	if (sp_profile_type_row(r->times.type)->is_of_memory) {
		s.count = at_most(entry->weight / SP_STACK_BLOCK);
		s.ns = at_most(entry->unsampled_ns);
	}
	if (locate(r, map, entry->stack, id, &s.locations) != 0)
		return -ENOMEM;
	sp_interval_labels(r->interval, n, &labels);
	s.labels = labels.n;
	r->was_replaced = r->series != NULL && sp_series_labels_apply(r->series, &labels);
	r->has_changed_labels = r->has_changed_labels || r->was_replaced || labels.n != s.labels;
	s.labels = labels.n;
	return sp_pprof_sample(r->profile, &s);
}

static int add_entry(struct run *r, uint32_t n, uint32_t stack)
{
	const struct sp_stack_map *map;
	struct sp_stack_entry entry = *sp_interval_record(r->interval, n, &map);

	entry.stack = stack;
	return add_values(r, n, &entry);
}

/* Every profile carries the loss counters. */
static int add_comments(const struct run *r)
{
	static const struct {
		enum sp_counter counter;
		const char *name;
		int loss;
	} all[] = {
#define SP_COMMENT_(id, text, is_loss) {SP_COUNT_##id, text, is_loss},
		SP_FOR_EACH_COUNTER(SP_COMMENT_)
#undef SP_COMMENT_
	};
	uint64_t count[SP_ARRAY_LEN(all)];
	char text[96];
	bool had = sp_turn_set(true);
	int err;

	for (size_t i = 0; i < SP_ARRAY_LEN(all); i++)
		count[i] = r->interval->ops->counter_read(r->interval->ops->arg, all[i].counter);
	(void)sp_turn_set(had);
	(void)snprintf(text, sizeof(text), "spanprof %s", r->interval->ops->version);
	err = sp_pprof_comment(r->profile, text);
	for (size_t i = 0; err == 0 && i < SP_ARRAY_LEN(all); i++) {
		if (!all[i].loss || count[i] == 0)
			continue;
		(void)snprintf(text, sizeof(text), "%s=%" PRIu64, all[i].name, count[i]);
		err = sp_pprof_comment(r->profile, text);
	}
	return err;
}

static void close_profile(struct run *r)
{
	sp_pprof_free(r->profile);
	r->profile = NULL;
	r->places = 0;
	memset(r->marker, 0, sizeof(r->marker));
	memset(r->location, 0, r->interval->named_n * sizeof(*r->location));
}

static int open_profile(struct run *r)
{
	const struct sp_interval *i = r->interval;
	struct sp_place program;
	uint64_t id;

	r->profile = sp_pprof_new(r->limits, &r->times);
	if (r->profile == NULL || add_comments(r) != 0)
		return -ENOMEM;
	/* Readers take the first mapping for the program. */
	if (!i->has_program)
		return 0;
	program = i->place[i->program].place;
	program.file = sp_interval_text(i, i->place[i->program].file);
	program.build_id = i->place[i->program].build_id;
	return place_id(r, &program, &id);
}

/* Begins the profile anew, with only this record, and without the frames of its stack. */
static int add_other(struct run *r, uint32_t n)
{
	int err;

	close_profile(r);
	err = open_profile(r);
	return err == 0 ? add_entry(r, n, SP_STACK_OTHER) : err;
}

/* Whether the profile counts the samples of that record. */
static bool counts(const struct sp_encode_range *range, uint32_t record)
{
	bool is_wait = record >= range->interval->end[SP_MAP_SAMPLES];

	switch (range->type) {
	case SP_PROFILE_WALL:
		return is_wait && !range->interval->ops->config->off_cpu;
	/* These blocks were counted when they were allocated. */
	case SP_PROFILE_IN_USE:
		return false;
	case SP_PROFILE_CPU:
	case SP_PROFILE_OFF_CPU:
	case SP_PROFILE_MEMORY:
	case SP_PROFILE_TYPES:
	default:
		return true;
	}
}

/* Notes how many samples the profile counts of its newest record, which is the record with that number. */
static int note_counted(struct sp_encoded *out, uint32_t record, uint64_t samples)
{
	uint32_t n = samples < UINT32_MAX ? (uint32_t)samples : UINT32_MAX;

	if (!SP_GROW(out->counted, out->counted_cap, record + 1, SIZE_MAX))
		return -ENOMEM;
	out->counted[record] = n;
	out->samples += n;
	return 0;
}

/* Moves out->end to the first record that is not in the profile. */
static int add_records(struct run *r, const struct sp_encode_range *range, struct sp_encoded *out)
{
	int err = 0;

	for (; err == 0 && out->end < range->end; out->end++) {
		const struct sp_stack_map *map;
		const struct sp_stack_entry *entry =
			sp_interval_record(range->interval, out->end, &map);
		struct sp_pprof_mark mark;

		if (entry->count == 0 && entry->unsampled_ns == 0)
			continue;
		sp_pprof_mark(r->profile, &mark);
		err = add_entry(r, out->end, entry->stack);
		if (err == -E2BIG && mark.samples != 0) {
			sp_pprof_rewind(r->profile, &mark);
			return 0;
		}
		/* A single stack that is too large for a profile keeps its time and loses its frames. */
		if (err == -E2BIG) {
			out->others += entry->count;
			err = add_other(r, out->end);
		}
		if (r->was_replaced)
			out->over_series += entry->count;
		if (err == 0)
			err = note_counted(out, sp_pprof_samples(r->profile) - 1,
					   counts(range, out->end) ? entry->count : 0);
	}
	return err;
}

struct sp_encode_range sp_encode_all(const struct sp_interval *interval, enum sp_profile_type type)
{
	const struct sp_profile_type_row *row = sp_profile_type_row(type);

	return (struct sp_encode_range){
		.interval = interval,
		.type = type,
		.from = row->first != 0 ? interval->end[row->first - 1] : 0,
		.end = interval->end[row->last],
	};
}

/* The period of a type, in its own unit. */
static int64_t period_of(const struct sp_config *config, enum sp_profile_type type)
{
	if (sp_profile_type_row(type)->is_of_memory)
		return config->alloc_interval;
	if (type == SP_PROFILE_OFF_CPU)
		return 0;
	return (int64_t)(SP_NS_PER_S / (config->sample_rate_hz != 0 ? config->sample_rate_hz : 1));
}

uint64_t sp_encode_cpu_ns(const struct sp_config *config, const struct sp_stack_entry *entry)
{
	return (uint64_t)ns_of(entry, period_of(config, SP_PROFILE_CPU));
}

uint64_t sp_encode_samples(const struct sp_encode_range *range)
{
	const struct sp_stack_map *map;
	uint64_t sum = 0;

	for (uint32_t i = range->from; i < range->end; i++)
		if (counts(range, i))
			sum += sp_interval_record(range->interval, i, &map)->count;
	return sum;
}

int sp_encode(const struct sp_encode_range *range, const struct sp_pprof_limits *limits,
	      struct sp_encoded *out)
{
	const struct sp_interval *i = range->interval;
	struct run r = {
		.interval = i,
		.limits = limits,
		.series = range->series,
		.times = {.period_ns = period_of(i->ops->config, range->type),
			  .time_ns = i->time_ns,
			  .duration_ns = i->duration_ns,
			  .type = range->type,
			  .resource = range->resource},
		.location = calloc(i->named_n + 1, sizeof(*r.location)),
	};
	int err = r.location != NULL ? 0 : -ENOMEM;

	*out = (struct sp_encoded){.end = range->from};
	if (err == 0)
		err = open_profile(&r);
	if (err == 0)
		err = add_records(&r, range, out);
	/* A profile of memory in use without blocks is sent too: it says that all memory was freed. */
	if (err == 0 && sp_pprof_samples(r.profile) == 0 && range->type != SP_PROFILE_IN_USE)
		err = -ENOENT;
	if (err == 0) {
		out->records = sp_pprof_samples(r.profile);
		out->has_all_labels = !r.has_changed_labels;
		err = sp_pprof_pack(r.profile, &out->bytes);
	}
	sp_pprof_free(r.profile);
	free(r.location);
	free(r.place);
	return err;
}

/* Adds the samples of a map that are of slow roots. */
static int add_times(struct run *r, enum sp_interval_map kind, const struct sp_slow_batch *slow,
		     uint64_t *left)
{
	const struct sp_stack_map *map = r->interval->map[kind];
	const struct sp_stack_time *time;
	uint32_t n = sp_stack_map_times(map, &time);
	uint32_t first = kind != 0 ? r->interval->end[kind - 1] : 0;
	struct sp_pprof_mark mark;
	int err = 0;

	for (uint32_t i = 0; err == 0 && i < n; i++) {
		struct sp_stack_entry entry = *sp_stack_map_entry(map, time[i].entry);

		if (!sp_slow_batch_time(slow, entry.labels.span_id, time[i].monotonic_ns,
					&r->end_ns))
			continue;
		entry.count = 1;
		entry.weight = time[i].weight;
		entry.unsampled_ns = time[i].ns;
		r->thread_id = time[i].tid;
		sp_pprof_mark(r->profile, &mark);
		err = add_values(r, first + time[i].entry, &entry);
		if (err == -E2BIG) {
			sp_pprof_rewind(r->profile, &mark);
			*left += 1;
			/* Nothing may be added after a rewind. */
			r->is_full = true;
		}
		if (r->is_full)
			return 0;
	}
	return err;
}

int sp_encode_times(const struct sp_interval *interval, const struct sp_slow_batch *slow,
		    struct sp_encoded *out, uint64_t *left)
{
	const struct sp_pprof_limits limits = {SP_ENCODE_TIMES, SP_ENCODE_TIMES_BYTES};
	struct run r = {
		.interval = interval,
		.limits = &limits,
		.times = {.period_ns = period_of(interval->ops->config, SP_PROFILE_WALL),
			  .time_ns = interval->time_ns,
			  .duration_ns = interval->duration_ns,
			  .type = SP_PROFILE_WALL},
		.location = calloc(interval->named_n + 1, sizeof(*r.location)),
	};
	int err = r.location != NULL ? 0 : -ENOMEM;

	*out = (struct sp_encoded){.end = 0};
	*left = 0;
	if (err == 0)
		err = open_profile(&r);
	for (enum sp_interval_map kind = SP_MAP_SAMPLES; err == 0 && kind <= SP_MAP_WAITS; kind++)
		if (interval->map[kind] != NULL && !r.is_full)
			err = add_times(&r, kind, slow, left);
	if (err == 0 && sp_pprof_samples(r.profile) == 0)
		err = -ENOENT;
	if (err == 0) {
		out->records = sp_pprof_samples(r.profile);
		err = sp_pprof_pack(r.profile, &out->bytes);
	}
	sp_pprof_free(r.profile);
	free(r.location);
	free(r.place);
	return err;
}
