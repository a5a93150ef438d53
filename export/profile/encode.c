/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes records of an interval as a profile, in either format: adds each with its frames, until the next one would
 * exceed a limit of the server. A profile stands for samples or for waits, so that each of them is counted once: one of
 * waiting time for the waits, one of both types for the waits if no other one does. Context: the exporter.
 */
#include "export/profile/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/otlp.h"
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
	uint32_t
		*location; /* ids, by the place in the interval's named[]; 0 = not in the profile */
	struct place_id *place;
	size_t places, place_cap;
	uint64_t marker[SP_MARKERS]; /* location ids */
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
 * The location has the run-time address, and its mapping has start, limit and offset, as "go tool
 * pprof" expects. The server zeroes the address, because the mapping says that all its functions
 * are known. A frame that is left to the server's symbolizer has its ELF address and no lines.
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

/* The frame of what was named. Its lines are in line. */
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

	/* All that is in an interval is named in it. */
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
	for (unsigned i = s.has_owner_pc; i < s.depth; i++)
		if (named_id(r, &r->interval->named[s.pc[i]], &id[(*n)++]) != 0)
			return -ENOMEM;
	if (*n == 0 && marker_id(r, MARK_UNKNOWN, &id[(*n)++]) != 0)
		return -ENOMEM;
	if ((s.flags & SP_SAMPLE_TRUNCATED) != 0)
		return marker_id(r, MARK_TRUNCATED, &id[(*n)++]);
	if (s.depth != 0 && (s.flags & SP_SAMPLE_ROOTED) == 0)
		return marker_id(r, MARK_INCOMPLETE, &id[(*n)++]);
	return 0;
}

/* The sums are of what a host wrote, and may be anything. */
static int64_t at_most(uint64_t n)
{
	return n < INT64_MAX ? (int64_t)n : INT64_MAX;
}

static int64_t ns_of(const struct sp_stack_entry *entry, int64_t period_ns)
{
	int64_t ns;

	if (__builtin_mul_overflow(entry->weight, period_ns, &ns) ||
	    __builtin_add_overflow(ns, entry->unsampled_ns, &ns))
		return INT64_MAX;
	return ns;
}

/* Record n of the interval, with that stack. -E2BIG: does not fit any more. */
static int add_entry(struct run *r, uint32_t n, uint32_t stack)
{
	const struct sp_stack_map *map;
	const struct sp_stack_entry *entry = sp_interval_record(r->interval, n, &map);
	uint64_t id[SP_ENCODE_FRAMES];
	struct sp_record_labels labels;
	struct sp_pprof_sample s = {
		.location = id,
		.count = (int64_t)entry->count,
		.ns = ns_of(entry, r->times.period_ns),
		.label = labels.label,
	};

	if (sp_profile_type_is_of_memory(r->times.type)) {
		s.count = at_most(entry->weight / SP_STACK_BLOCK);
		s.ns = at_most(entry->unsampled_ns);
	}
	if (locate(r, map, stack, id, &s.locations) != 0)
		return -ENOMEM;
	sp_interval_labels(r->interval, n, &labels);
	s.labels = labels.n;
	return sp_pprof_sample(r->profile, &s);
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

/* Instead of all that the profile holds, the stack without its frames, however much that is. */
static int add_other(struct run *r, uint32_t n)
{
	int err;

	close_profile(r);
	err = open_profile(r);
	return err == 0 ? add_entry(r, n, SP_STACK_OTHER) : err;
}

/* Whether the profile stands for the samples of that record. */
static bool counts(const struct sp_encode_range *range, uint32_t record)
{
	bool is_wait = record >= range->interval->end[SP_MAP_SAMPLES];

	switch (range->type) {
	case SP_PROFILE_WALL:
		return is_wait && !range->interval->ops->config->off_cpu;
	/* They were counted when they were allocated. */
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

/* Moves out->end on, to the first record that is not in the profile. */
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
		if (counts(range, out->end))
			out->samples += entry->count;
	}
	return err;
}

struct sp_encode_range sp_encode_all(const struct sp_interval *interval, enum sp_profile_type type)
{
	static const struct {
		enum sp_interval_map first, last;
	} of[SP_PROFILE_TYPES] = {
		[SP_PROFILE_CPU] = {SP_MAP_SAMPLES, SP_MAP_SAMPLES},
		[SP_PROFILE_OFF_CPU] = {SP_MAP_WAITS, SP_MAP_WAITS},
		[SP_PROFILE_WALL] = {SP_MAP_SAMPLES, SP_MAP_WAITS},
		[SP_PROFILE_MEMORY] = {SP_MAP_ALLOCATIONS, SP_MAP_ALLOCATIONS},
		[SP_PROFILE_IN_USE] = {SP_MAP_IN_USE, SP_MAP_IN_USE},
	};

	return (struct sp_encode_range){
		.interval = interval,
		.type = type,
		.from = of[type].first != 0 ? interval->end[of[type].first - 1] : 0,
		.end = interval->end[of[type].last],
	};
}

/* Of a type, in the unit that it has. */
static int64_t period_of(const struct sp_config *config, enum sp_profile_type type)
{
	if (sp_profile_type_is_of_memory(type))
		return config->alloc_interval;
	if (type == SP_PROFILE_OFF_CPU)
		return 0;
	return (int64_t)(SP_NS_PER_S / (config->sample_rate_hz != 0 ? config->sample_rate_hz : 1));
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
		.times = {.period_ns = period_of(i->ops->config, range->type),
			  .time_ns = i->time_ns,
			  .duration_ns = i->duration_ns,
			  .type = range->type,
			  .resource = range->resource},
		.location = calloc(i->named_n + 1, sizeof(*r.location)),
	};
	int err = r.location != NULL ? 0 : -ENOMEM;

	*out = (struct sp_encoded){.end = range->from};
	if (i->is_given_up)
		err = -ESTALE;
	if (err == 0)
		err = open_profile(&r);
	if (err == 0)
		err = add_records(&r, range, out);
	/* That nothing is in use any more is something to tell. */
	if (err == 0 && sp_pprof_samples(r.profile) == 0 && range->type != SP_PROFILE_IN_USE)
		err = -ENOENT;
	if (err == 0) {
		out->records = sp_pprof_samples(r.profile);
		err = sp_pprof_pack(r.profile, &out->bytes);
	}
	sp_pprof_free(r.profile);
	if (err == 0 && range->resource != NULL) {
		const struct sp_bytes pprof = out->bytes;

		err = sp_otlp_make(&pprof, &r.times, &out->bytes);
		free(pprof.data);
	}
	free(r.location);
	free(r.place);
	return err;
}
