/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes the samples of an upload interval as profiles: names every frame of the stack map and
 * adds every entry; when the next sample would exceed a limit of the server, the profile is closed
 * and another one begun. Context: the exporter.
 */
#include "export/profile/encode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/symbols/lines.h"
#include "export/util/grow.h"
#include "export/util/hash_index.h"
#include "sampler/base/text.h"

/* A marker frame may come at either end of the deepest stack. */
#define SP_ENCODE_FRAMES (SP_FRAMES_MAX + 2)
/* No epoch is so late: the address is the number of what is waited for. */
#define WAIT_EPOCH UINT32_MAX
#define SP_MARKERS 5

/* Location ids of addresses seen in this profile. */
struct address {
	uint64_t pc;
	uint32_t epoch;
	uint32_t id;
};

struct place_id {
	uint64_t key;
	uint64_t id;
};

struct run {
	const struct sp_encoder *e;
	const struct sp_stack_map *map; /* the one whose entries are being added */
	bool counts;                    /* they are what the profile stands for */
	struct sp_pprof *profile;
	struct address *address;
	size_t addresses, address_cap;
	struct sp_hash_index by_pc;
	struct place_id *place;
	size_t places, place_cap;
	uint64_t marker[SP_MARKERS]; /* location ids */
	uint64_t samples;
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
	size_t n = f->place.raw ? 0 : f->lines;
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

/* What is at that address, or, for WAIT_EPOCH, waited for. */
static void frame_of(struct run *r, uint64_t pc, uint32_t epoch, struct sp_line *line,
		     struct sp_frame *f)
{
	if (epoch == WAIT_EPOCH)
		sp_symbolize_marker(sp_wait_names_text(r->e->wait_names, (uint32_t)pc), line, f);
	else
		sp_symbolize(r->e->symbolizer, pc, epoch, f);
}

static int address_id(struct run *r, uint64_t pc, uint32_t epoch, uint64_t *id)
{
	uint32_t hash = (uint32_t)sp_hash_add(sp_hash_add(0, epoch), pc);
	struct sp_line line;
	struct sp_frame f;
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&r->by_pc, hash, &step, &i);) {
		/* The index contains only items of the array. */
		const struct address *a = &r->address[i];

		*id = a->id; // NOLINT(clang-analyzer-core.NullDereference)
		if (a->pc == pc && a->epoch == epoch)
			return 0;
	}
	frame_of(r, pc, epoch, &line, &f);
	if (add_location(r, &f, id) != 0 ||
	    !SP_GROW(r->address, r->address_cap, r->addresses + 1, UINT32_MAX) ||
	    !sp_hash_index_put(&r->by_pc, hash, (uint32_t)r->addresses))
		return -ENOMEM;
	r->address[r->addresses++] = (struct address){pc, epoch, (uint32_t)*id};
	return 0;
}

/* Location ids of a stack, leaf first. Never empty. */
static int locate(struct run *r, uint32_t stack, uint64_t id[SP_ENCODE_FRAMES], size_t *n)
{
	struct sp_stack s;

	*n = 0;
	if (stack == SP_STACK_OTHER)
		return marker_id(r, MARK_OTHER, &id[(*n)++]);
	sp_stack_map_stack(r->map, stack, &s);
	if (s.unsampled && marker_id(r, MARK_UNSAMPLED, &id[(*n)++]) != 0)
		return -ENOMEM;
	if (s.wait != 0 && address_id(r, s.wait, WAIT_EPOCH, &id[(*n)++]) != 0)
		return -ENOMEM;
	for (unsigned i = 0; i < s.depth; i++)
		if (address_id(r, s.pc[i], s.epoch, &id[(*n)++]) != 0)
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
static int64_t ns_of(const struct sp_stack_entry *entry, int64_t period_ns)
{
	int64_t ns;

	if (__builtin_mul_overflow(entry->weight, period_ns, &ns) ||
	    __builtin_add_overflow(ns, entry->unsampled_ns, &ns))
		return INT64_MAX;
	return ns;
}

/* -E2BIG: does not fit any more. */
static int add_entry(struct run *r, const struct sp_stack_entry *entry, uint32_t stack)
{
	static const uint8_t no_trace[16];
	const struct sp_stack_labels *l = &entry->labels;
	uint64_t id[SP_ENCODE_FRAMES];
	struct sp_pprof_sample s = {
		.location = id,
		.count = (int64_t)entry->count,
		.ns = ns_of(entry, r->e->times.period_ns),
	};
	char span_id[2 * sizeof(l->span_id) + 1];
	char trace_id[2 * sizeof(l->trace_id) + 1];
	uint8_t bytes[sizeof(l->span_id)];

	if (locate(r, stack, id, &s.locations) != 0)
		return -ENOMEM;
	if (l->span_id != 0) {
		memcpy(bytes, &l->span_id, sizeof(bytes));
		sp_text_hex(span_id, bytes, sizeof(bytes));
		s.span_id = span_id;
	}
	if (memcmp(l->trace_id, no_trace, sizeof(no_trace)) != 0) {
		sp_text_hex(trace_id, l->trace_id, sizeof(l->trace_id));
		s.trace_id = trace_id;
	}
	if (l->name_id != 0)
		s.span_name =
			r->e->ops->span_name_text(r->e->ops->arg, l->name_id, &s.span_name_len);
	if (r->e->threads != NULL)
		s.thread_name = sp_thread_names_text(r->e->threads, l->thread, &s.thread_name_len);
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
	char text[96];
	int err;

	(void)snprintf(text, sizeof(text), "spanprof %s", r->e->ops->version);
	err = sp_pprof_comment(r->profile, text);
	for (size_t i = 0; err == 0 && i < sizeof(all) / sizeof(all[0]); i++) {
		uint64_t n = r->e->ops->counter_read(r->e->ops->arg, all[i].counter);

		if (!all[i].loss || n == 0)
			continue;
		(void)snprintf(text, sizeof(text), "%s=%" PRIu64, all[i].name, n);
		err = sp_pprof_comment(r->profile, text);
	}
	return err;
}

static void close_profile(struct run *r)
{
	sp_pprof_free(r->profile);
	r->profile = NULL;
	r->samples = 0;
	r->places = 0;
	r->addresses = 0;
	memset(r->marker, 0, sizeof(r->marker));
	sp_hash_index_clear(&r->by_pc);
}

static int open_profile(struct run *r)
{
	struct sp_place main_place;
	uint64_t id;

	r->profile = sp_pprof_new(&r->e->limits, &r->e->times);
	if (r->profile == NULL || add_comments(r) != 0)
		return -ENOMEM;
	/* Tools take the first mapping for the program. */
	return sp_symbolize_main(r->e->symbolizer, &main_place) ? place_id(r, &main_place, &id) : 0;
}

static void drop_profile(struct run *r, uint64_t more)
{
	const struct sp_core_ops *ops = r->e->ops;

	ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
	ops->counter_add(ops->arg,
			 r->e->times.type == SP_PROFILE_CPU ? SP_COUNT_SAMPLES_UNSENT
							    : SP_COUNT_WAITS_UNSENT,
			 r->samples + (r->counts ? more : 0));
	close_profile(r);
}

static void finish_profile(struct run *r, sp_encoded put, void *arg)
{
	struct sp_bytes packed;

	if (r->profile == NULL || sp_pprof_samples(r->profile) == 0) {
		close_profile(r);
		return;
	}
	if (sp_pprof_pack(r->profile, &packed) != 0) {
		drop_profile(r, 0);
		return;
	}
	put(arg, &packed, r->samples);
	free(packed.data);
	close_profile(r);
}

/* Adds one entry to the open profile. 0, -ENOMEM, or -E2BIG with the profile as it was before. */
static int try_entry(struct run *r, const struct sp_stack_entry *entry, uint32_t stack)
{
	struct sp_pprof_mark mark;
	int err = r->profile == NULL ? open_profile(r) : 0;

	if (err != 0)
		return err;
	sp_pprof_mark(r->profile, &mark);
	err = add_entry(r, entry, stack);
	if (err == 0)
		r->samples += r->counts ? entry->count : 0;
	else if (err == -E2BIG)
		sp_pprof_rewind(r->profile, &mark);
	return err;
}

void sp_encode_want(struct sp_symbolizer *symbolizer, const struct sp_stack_map *map)
{
	for (uint32_t i = 0; map != NULL && i < sp_stack_map_entries(map); i++) {
		uint32_t stack = sp_stack_map_entry(map, i)->stack;
		struct sp_stack s;

		if (stack == SP_STACK_OTHER)
			continue;
		sp_stack_map_stack(map, stack, &s);
		for (unsigned k = 0; k < s.depth; k++)
			sp_symbolizer_want(symbolizer, s.pc[k], s.epoch);
	}
}

static void add_map(struct run *r, const struct sp_stack_map *map, sp_encoded put, void *arg)
{
	const struct sp_core_ops *ops = r->e->ops;

	r->map = map;
	for (uint32_t i = 0; map != NULL && i < sp_stack_map_entries(map); i++) {
		const struct sp_stack_entry *entry = sp_stack_map_entry(map, i);
		int err;

		if (entry->count == 0 && entry->unsampled_ns == 0)
			continue;
		err = try_entry(r, entry, entry->stack);
		if (err == -E2BIG) {
			finish_profile(r, put, arg);
			err = try_entry(r, entry, entry->stack);
		}
		/*
		 * A single stack that is too large for a profile keeps its time and loses its
		 * frames.
		 */
		if (err == -E2BIG) {
			close_profile(r);
			ops->counter_add(ops->arg, SP_COUNT_STACKS_OTHER, entry->count);
			err = try_entry(r, entry, SP_STACK_OTHER);
		}
		if (err != 0)
			drop_profile(r, entry->count);
	}
}

void sp_encode(const struct sp_encoder *e, const struct sp_stack_map *map, sp_encoded put,
	       void *arg)
{
	struct run r = {.e = e, .counts = !e->samples_elsewhere};

	sp_symbolizer_begin(e->symbolizer);
	add_map(&r, map, put, arg);
	r.counts = !e->waits_elsewhere;
	add_map(&r, e->waits, put, arg);
	finish_profile(&r, put, arg);
	sp_hash_index_fini(&r.by_pc);
	free(r.address);
	free(r.place);
}
