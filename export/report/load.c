/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and checks profiles: every index is checked before the first sample is handed on. Context:
 * the report tool.
 */
#define _GNU_SOURCE
#include "export/report/load.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/profile_type.h"
#include "export/report/otlp.h"
#include "export/report/short_name.h"
#include "export/util/containers.h"
#include "export/util/log.h"
#include "profile.pb-c.h"
#include "sampler/base/compiler.h"
#include "sampler/base/text.h"

double sp_report_amount(bool in_bytes, uint64_t n)
{
	return (double)n / (in_bytes ? (double)(1 << 20) : (double)SP_NS_PER_S);
}

const char *sp_report_unit(bool in_bytes)
{
	return in_bytes ? "MiB" : "s";
}

/* Whose code a frame is follows from the names of its function, its object and its source file. */

const char *const sp_frame_kind_words[SP_FRAME_KIND_N] = {
	[SP_FRAME_OWN] = "own",
	[SP_FRAME_LIBRARY] = "library",
	[SP_FRAME_KERNEL] = "kernel",
	[SP_FRAME_WAITING] = "waiting",
	[SP_FRAME_UNSAMPLED] = "unsampled",
	[SP_FRAME_MARKER] = "marker",
	[SP_FRAME_SPAN] = "span",
};

static bool starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool starts_as(const char *s, const char *const *prefix, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (starts(s, prefix[i]))
			return true;
	return false;
}

#define STARTS_AS(s, table) starts_as(s, table, sizeof(table) / sizeof((table)[0]))

static bool is_kernel(const char *object)
{
	static const char *const names[] = {"[vdso]", "[kernel", "[vmlinux", "/proc/kcore"};

	return STARTS_AS(object, names) || strstr(object, "vmlinux") != NULL;
}

/*
 * Whether the object is in a folder for installed libraries. A shared object elsewhere is most
 * often a part of the program, delivered with it.
 */
static bool is_installed(const char *object)
{
	static const char *const folders[] = {"/lib",        "/usr/",       "/opt/",
					      "/nix/store/", "/gnu/store/", "/snap/"};
	const char *slash = strrchr(object, '/');

	return strstr(slash != NULL ? slash : object, ".so") != NULL && STARTS_AS(object, folders);
}

_Static_assert(SP_SHORT_NAME_MAX == SP_REPORT_TEXT_MAX, "any name of a frame can be shortened");

/*
 * Whether the function is from a library's header: templates and inlined functions are compiled
 * into the program. The name of a template instance begins with its return type, "void
 * std::__invoke_impl<...>(...)".
 */
static bool is_of_header(const char *name, const char *source)
{
	static const char *const names[] = {"std::", "__gnu_cxx::"};
	static const char *const folders[] = {"/usr/include/", "/usr/lib/", "/rustc/"};
	struct sp_short_name function;

	if (STARTS_AS(source, folders))
		return true;
	if (strstr(name, names[0]) == NULL && strstr(name, names[1]) == NULL)
		return false;
	sp_short_name(name, &function);
	return STARTS_AS(function.with_namespaces, names);
}

/*
 * Whether a leaf says what a thread waits for. Such a frame is no code. The exporter puts it into
 * an object of this name, like all its markers; other writers use no object. Markers for an unknown
 * stack may be leaves, too, but they name no wait.
 */
static bool is_wait(const char *name, const struct sp_frame_place *place)
{
	static const char *const missing[] = {"(other)", "[unknown]", "[truncated]",
					      "[incomplete]"};

	const bool is_ours = strcmp(place->object, "[spanprof]") == 0;

	/* If the leaf names the holder of a lock, the frame of the wait is the leaf's caller. */
	if (is_ours && name[0] != '[' && name[0] != '(')
		return true;
	if (!place->is_leaf_of_wait || (place->object[0] != '\0' && !is_ours))
		return false;
	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
		if (strcmp(name, missing[i]) == 0)
			return false;
	return true;
}

enum sp_frame_kind sp_frame_kind_of(const char *name, const struct sp_frame_place *place)
{
	if (strcmp(name, SP_REPORT_UNSAMPLED) == 0)
		return SP_FRAME_UNSAMPLED;
	if (is_wait(name, place))
		return SP_FRAME_WAITING;
	if (is_kernel(place->object))
		return SP_FRAME_KERNEL;
	if (name[0] == '[' || name[0] == '(')
		return SP_FRAME_MARKER;
	return is_installed(place->object) || is_of_header(name, place->source) ? SP_FRAME_LIBRARY
										: SP_FRAME_OWN;
}

/*
 * Limits for one stack and for all stacks: a small file can describe more frames than can be
 * processed in reasonable time.
 */
#define SP_REPORT_STACK_MAX ((size_t)1 << 16)
#define SP_REPORT_FRAMES_MAX ((size_t)1 << 25)
#define SP_REPORT_FILE_NAME 255

/*
 * The memory that may be allocated for a file: two bytes of protobuf can make us allocate more than
 * a hundred.
 */
struct budget {
	size_t left;
	bool exceeded; /* an allocation was refused */
	bool failed;   /* malloc() failed */
};

/* Overhead that counts for each allocation, because a hostile file may need many small ones. */
#define BUDGET_HEAD ((size_t)16)

/*
 * As malloc() and free(), in the form of protobuf-c's allocators. NULL if the budget does not allow
 * it.
 */
static void *budget_alloc(void *budget, size_t size)
{
	struct budget *b = budget;
	void *p = size < b->left ? malloc(size) : NULL;
	size_t taken = p != NULL ? malloc_usable_size(p) + BUDGET_HEAD : 0;

	if (p == NULL || taken > b->left) {
		b->exceeded = b->exceeded || size >= b->left || p != NULL;
		b->failed = true;
		free(p);
		return NULL;
	}
	b->left -= taken;
	return p;
}

static void budget_free(void *budget, void *p)
{
	struct budget *b = budget;

	if (p != NULL)
		b->left += malloc_usable_size(p) + BUDGET_HEAD;
	free(p);
}

/* The index of the message with an id. Writers may choose any ids. */
struct id_at {
	uint64_t id;
	size_t at;
};

struct id_index {
	struct id_at *row; /* NULL = the ids are 1, 2, 3 ..., as in nearly every file */
	size_t n;
};

static int compare_ids(const void *a, const void *b)
{
	const struct id_at *x = a;
	const struct id_at *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static void id_index_fini(struct id_index *x)
{
	free(x->row);
	x->row = NULL;
}

/* Takes over rows, sorted by `at`. False if two of them have the same id. */
static bool id_index_init(struct id_index *x, struct id_at *row, size_t n)
{
	size_t i = 0;

	x->row = row;
	x->n = n;
	while (i < n && row[i].id == i + 1)
		i++;
	if (i == n) {
		id_index_fini(x);
		return true;
	}
	qsort(row, n, sizeof(*row), compare_ids);
	for (i = 1; i < n; i++)
		if (row[i].id == row[i - 1].id)
			return false;
	return true;
}

/* Returns the index of the message with this id, or SIZE_MAX. */
static size_t id_index_find(const struct id_index *x, uint64_t id)
{
	size_t lo = 0;
	size_t hi = x->n;

	if (x->row == NULL)
		return id >= 1 && id <= x->n ? (size_t)id - 1 : SIZE_MAX;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (x->row[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < x->n && x->row[lo].id == id ? x->row[lo].at : SIZE_MAX;
}

typedef Spanprof__Pprof__Profile pb_profile;
typedef Spanprof__Pprof__Sample pb_sample;
typedef Spanprof__Pprof__Location pb_location;
typedef Spanprof__Pprof__Line pb_line;
typedef Spanprof__Pprof__Function pb_function;

/*
 * The functions of a location, inlined ones first. They are made once, because thousands of samples
 * contain the location.
 */
struct place {
	struct sp_report_frame *frame; /* NULL = no sample has used it so far */
	struct sp_report_memo *memo;   /* one for each frame */
	size_t frames;
	char *made;                   /* the name of a location without function */
	enum sp_frame_kind leaf_kind; /* kind of the first frame if it is the leaf of a sample */
};

struct reader {
	pb_profile *p;
	struct budget *budget;
	size_t ns_type;
	size_t count_type; /* index of the counts; n_sample_type = none */
	uint64_t factor;   /* nanoseconds or bytes per unit of the value */
	uint64_t period;   /* of a sample, in nanoseconds or bytes; 0 = unknown */
	bool in_bytes;
	struct id_index location, function, mapping;
	struct place *place; /* by location */
	struct sp_report_frame *frame;
	size_t frames, frame_cap, all_frames;
	bool of_waits; /* samples are of waiting time, or of waiting and CPU time */
	bool kinds;    /* the caller wants the kinds of frames */
	char *why;
};

static int refuse(const struct reader *r, const char *why)
{
	(void)snprintf(r->why, SP_REPORT_ERROR, "%s", why);
	return -1;
}

/* Out of memory: either the file's budget or the machine's memory is exhausted. */
static int refuse_memory(const struct reader *r)
{
	return refuse(r, r->budget->exceeded ? "reading it takes too much memory"
					     : SP_REPORT_NO_MEMORY);
}

static bool text_ok(const pb_profile *p, int64_t id)
{
	return id >= 0 && (uint64_t)id < p->n_string_table;
}

static const char *text(const pb_profile *p, int64_t id)
{
	return p->string_table[id];
}

static uint64_t positive(int64_t n)
{
	return n > 0 ? (uint64_t)n : 0;
}

/* Makes the id index for a kind of message. */
#define SP_INDEX(reader, kind)                                                                     \
	do {                                                                                       \
		struct id_at *row = calloc((reader)->p->n_##kind + 1, sizeof(*row));               \
                                                                                                   \
		if (row == NULL)                                                                   \
			return refuse(reader, SP_REPORT_NO_MEMORY);                                \
		for (size_t i = 0; i < (reader)->p->n_##kind; i++)                                 \
			row[i] = (struct id_at){(reader)->p->kind[i]->id, i};                      \
		/* This happens if two profiles were written into one file. */                     \
		if (!id_index_init(&(reader)->kind, row, (reader)->p->n_##kind))                   \
			return refuse(reader, "it has two " #kind "s with the same id");           \
	} while (0)

static int index_ids(struct reader *r)
{
	SP_INDEX(r, location);
	SP_INDEX(r, function);
	SP_INDEX(r, mapping);
	return 0;
}

static int check_sample(const struct reader *r, const pb_sample *s)
{
	const pb_profile *p = r->p;

	if (s->n_value != p->n_sample_type)
		return refuse(r, "a sample has the wrong number of values");
	for (size_t i = 0; i < s->n_value; i++)
		if (s->value[i] < 0)
			return refuse(r, "it has negative values, as the difference of two "
					 "profiles has");
	for (size_t i = 0; i < s->n_location_id; i++)
		if (id_index_find(&r->location, s->location_id[i]) == SIZE_MAX)
			return refuse(r, "a sample refers to a location that is not there");
	for (size_t i = 0; i < s->n_label; i++)
		if (!text_ok(p, s->label[i]->key) || !text_ok(p, s->label[i]->str))
			return refuse(r, "a label refers to a string that is not there");
	return 0;
}

static int check_location(const struct reader *r, const pb_location *l)
{
	if (l->id == 0)
		return refuse(r, "a location has the id 0");
	if (l->mapping_id != 0 && id_index_find(&r->mapping, l->mapping_id) == SIZE_MAX)
		return refuse(r, "a location refers to a mapping that is not there");
	for (size_t i = 0; i < l->n_line; i++)
		if (id_index_find(&r->function, l->line[i]->function_id) == SIZE_MAX)
			return refuse(r, "a location refers to a function that is not there");
	return 0;
}

static int check(const struct reader *r)
{
	const pb_profile *p = r->p;

	if (p->n_string_table == 0 || p->string_table[0][0] != '\0')
		return refuse(r, "the string table does not begin with an empty string");
	if (p->n_sample_type == 0)
		return refuse(r, "it has no sample types");
	for (size_t i = 0; i < p->n_sample_type; i++)
		if (!text_ok(p, p->sample_type[i]->type) || !text_ok(p, p->sample_type[i]->unit))
			return refuse(r, "a sample type refers to a string that is not there");
	for (size_t i = 0; i < p->n_mapping; i++)
		if (!text_ok(p, p->mapping[i]->filename))
			return refuse(r, "a mapping refers to a string that is not there");
	for (size_t i = 0; i < p->n_function; i++)
		if (!text_ok(p, p->function[i]->name) || !text_ok(p, p->function[i]->system_name) ||
		    !text_ok(p, p->function[i]->filename))
			return refuse(r, "a function refers to a string that is not there");
	for (size_t i = 0; i < p->n_location; i++)
		if (check_location(r, p->location[i]) != 0)
			return -1;
	for (size_t i = 0; i < p->n_sample; i++)
		if (check_sample(r, p->sample[i]) != 0)
			return -1;
	return 0;
}

/* Units as pprof understands them (internal/measurement): a kilobyte has 1,024 bytes. */
static const struct unit {
	const char *const name[4];
	uint64_t factor; /* nanoseconds or bytes per unit */
	bool in_bytes;
} units[] = {
	{{"nanoseconds", "nanosecond", "ns"}, 1, false},
	{{"microseconds", "microsecond", "us", "\xc2\xb5s"}, SP_NS_PER_S / 1000000, false},
	{{"milliseconds", "millisecond", "ms"}, SP_NS_PER_S / 1000, false},
	{{"seconds", "second", "sec", "s"}, SP_NS_PER_S, false},
	{{"minutes", "minute", "min"}, 60 * SP_NS_PER_S, false},
	{{"hours", "hour", "h"}, 3600 * SP_NS_PER_S, false},
	{{"bytes", "byte", "b", "B"}, 1, true},
	{{"kilobytes", "kilobyte", "kb", "KiB"}, 1 << 10, true},
	{{"megabytes", "megabyte", "mb", "MiB"}, 1 << 20, true},
	{{"gigabytes", "gigabyte", "gb", "GiB"}, 1 << 30, true},
};

/* The unit of a value type; NULL if it is neither time nor memory. */
static const struct unit *unit_of(const pb_profile *p, const Spanprof__Pprof__ValueType *type)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		for (size_t k = 0; k < 4 && units[i].name[k] != NULL; k++)
			if (strcmp(text(p, type->unit), units[i].name[k]) == 0)
				return &units[i];
	return NULL;
}

static bool is_count(const pb_profile *p, size_t type)
{
	return strcmp(text(p, p->sample_type[type]->unit), "count") == 0;
}

static bool is_time(const pb_profile *p, size_t type)
{
	const struct unit *u = unit_of(p, p->sample_type[type]);

	return u != NULL && !u->in_bytes;
}

/*
 * Chooses the sample type with the wanted name. By default that is "cpu"; otherwise the last type
 * in a unit of time, otherwise the last type. False: the profile has no type of the wanted name.
 */
static bool choose_types(struct reader *r, const char *wanted)
{
	const pb_profile *p = r->p;
	const char *name = wanted != NULL ? wanted : "cpu";
	bool found = false;

	r->ns_type = p->n_sample_type - 1;
	r->count_type = p->n_sample_type;
	for (size_t i = 0; i < p->n_sample_type; i++) {
		bool is_named = strcmp(text(p, p->sample_type[i]->type), name) == 0;

		if (is_count(p, i) && r->count_type == p->n_sample_type)
			r->count_type = i;
		if (found || (!is_named && !is_time(p, i)))
			continue;
		r->ns_type = i;
		found = is_named;
	}
	if (r->ns_type != 0 && is_count(p, r->ns_type - 1))
		r->count_type = r->ns_type - 1;
	return found || wanted == NULL;
}

/*
 * Chooses the factor from values to nanoseconds or bytes. If a profile has only a count of samples,
 * each sample is worth the sampling period.
 */
static int choose_unit(struct reader *r)
{
	const pb_profile *p = r->p;
	const struct unit *of_period = p->period_type != NULL && text_ok(p, p->period_type->unit)
					       ? unit_of(p, p->period_type)
					       : NULL;
	const struct unit *unit = unit_of(p, p->sample_type[r->ns_type]);
	uint64_t period = positive(p->period);
	uint64_t most = 0;

	/* Some writers omit the type of the period, which is nanoseconds then. */
	if (p->period_type == NULL)
		of_period = &units[0];
	if (of_period == NULL || __builtin_mul_overflow(period, of_period->factor, &r->period))
		r->period = 0;
	if (unit == NULL && (!is_count(p, r->ns_type) || r->period == 0))
		return refuse(r, "its values are in no unit of time or memory");
	r->factor = unit != NULL ? unit->factor : r->period;
	r->in_bytes = unit != NULL ? unit->in_bytes : of_period->in_bytes;
	for (size_t i = 0; i < p->n_sample; i++)
		if ((uint64_t)p->sample[i]->value[r->ns_type] > most)
			most = (uint64_t)p->sample[i]->value[r->ns_type];
	return __builtin_mul_overflow(most, r->factor, &most)
		       ? refuse(r, "its values are too large")
		       : 0;
}

static const char *object_of(const struct reader *r, const pb_location *l)
{
	size_t m = l->mapping_id != 0 ? id_index_find(&r->mapping, l->mapping_id) : SIZE_MAX;

	return m != SIZE_MAX ? text(r->p, r->p->mapping[m]->filename) : "";
}

/* Makes the name of a location that has no function: "file!0xaddress". NULL when out of memory. */
static char *bare_name(const struct reader *r, const pb_location *l)
{
	const char *file = sp_text_file_name(object_of(r, l));
	char raw[SP_REPORT_FILE_NAME + 32];
	char name[SP_REPORT_TEXT_MAX + 1];
	char *made;

	(void)snprintf(raw, sizeof(raw), "%.*s!0x%" PRIx64, SP_REPORT_FILE_NAME,
		       file[0] != '\0' ? file : "unknown", l->address);
	/* A file name that was cut may end in the middle of a character. */
	(void)sp_report_clean(raw, name);
	made = budget_alloc(r->budget, strlen(name) + 1);
	return made != NULL ? memcpy(made, name, strlen(name) + 1) : NULL;
}

/* Makes the frames of a location, for all samples with it. */
static int read_place(const struct reader *r, size_t at)
{
	const pb_profile *p = r->p;
	const pb_location *l = p->location[at];
	struct place *place = &r->place[at];
	struct sp_frame_place where = {.object = object_of(r, l)};
	size_t n = l->n_line != 0 ? l->n_line : 1;

	if (n > SP_REPORT_STACK_MAX)
		return refuse(r, "it has too many frames");
	place->frame = budget_alloc(r->budget, n * sizeof(*place->frame));
	place->memo = budget_alloc(r->budget, n * sizeof(*place->memo));
	if (l->n_line == 0)
		place->made = bare_name(r, l);
	if (place->frame == NULL || place->memo == NULL || (l->n_line == 0 && place->made == NULL))
		return refuse_memory(r);
	memset(place->memo, 0, n * sizeof(*place->memo));
	for (size_t i = 0; i < n; i++) {
		struct sp_report_frame frame = {
			.name = place->made, .file = "", .memo = &place->memo[i]};

		if (place->made == NULL) {
			const pb_line *line = l->line[i];
			const pb_function *f =
				p->function[id_index_find(&r->function, line->function_id)];

			frame.name = text(p, f->name);
			frame.file = text(p, f->filename);
			frame.line = line->line > 0 ? (uint64_t)line->line : 0;
		}
		where.source = frame.file;
		if (r->kinds)
			frame.kind = sp_frame_kind_of(frame.name, &where);
		place->frame[i] = frame;
	}
	place->frames = n;
	where.source = place->frame[0].file;
	where.is_leaf_of_wait = r->of_waits;
	if (r->kinds)
		place->leaf_kind = sp_frame_kind_of(place->frame[0].name, &where);
	return 0;
}

static int add_place(struct reader *r, size_t at)
{
	const struct place *place = &r->place[at];
	bool is_leaf = r->frames == 0;

	if (place->frame == NULL && read_place(r, at) != 0)
		return -1;
	if (place->frames > SP_REPORT_STACK_MAX - r->frames ||
	    place->frames > SP_REPORT_FRAMES_MAX - r->all_frames)
		return refuse(r, "it has too many frames");
	r->all_frames += place->frames;
	if (!SP_GROW(r->frame, r->frame_cap, r->frames + place->frames, SP_REPORT_STACK_MAX))
		return refuse(r, SP_REPORT_NO_MEMORY);
	/* read_place() has set it. NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
	memcpy(r->frame + r->frames, place->frame, place->frames * sizeof(*r->frame));
	r->frames += place->frames;
	if (is_leaf && r->kinds)
		r->frame[0].kind = place->leaf_kind;
	return 0;
}

static int read_frames(struct reader *r, const pb_sample *s)
{
	r->frames = 0;
	for (size_t i = 0; i < s->n_location_id; i++)
		if (add_place(r, id_index_find(&r->location, s->location_id[i])) != 0)
			return -1;
	return 0;
}

/*
 * Whether a label has the wanted name. "http.route" also matches "http_route", because some label
 * names cannot contain dots.
 */
static bool is_named(const char *label, const char *wanted)
{
	char name[SP_LABEL_NAME_MAX];

	if (wanted == NULL)
		return false;
	(void)sp_label_name(name, wanted, strlen(wanted));
	return strcmp(label, wanted) == 0 || sp_label_is(label, name);
}

static void read_labels(const pb_profile *p, const pb_sample *s, const char *by,
			struct sp_report_sample *out)
{
	for (size_t i = 0; i < s->n_label; i++) {
		const char *key = text(p, s->label[i]->key);
		const char *value = text(p, s->label[i]->str);

		if (is_named(key, by))
			out->by = value;
		/* profile_id is an earlier name of span_id. */
		if (strcmp(key, "span_id") == 0 || strcmp(key, "profile_id") == 0)
			out->span_id = value;
		else if (strcmp(key, "span_name") == 0)
			out->span_name = value;
		else if (strcmp(key, "trace_id") == 0)
			out->trace_id = value;
		else if (sp_label_is(key, "thread_name"))
			out->thread_name = value;
		else if (strcmp(key, "blocked_by_span_id") == 0)
			out->blocked_by_span_id = value;
		else if (strcmp(key, "latency") == 0)
			out->latency = value;
		else if (strcmp(key, SP_LABEL_END) == 0)
			out->end_ns = positive(s->label[i]->num);
		else if (strcmp(key, SP_LABEL_THREAD_ID) == 0)
			out->thread_id = positive(s->label[i]->num);
	}
}

static int visit(struct reader *r, const struct sp_report_sink *sink)
{
	const pb_profile *p = r->p;

	for (size_t i = 0; i < p->n_sample; i++) {
		const pb_sample *s = p->sample[i];
		struct sp_report_sample out = {.span_id = "",
					       .span_name = "",
					       .trace_id = "",
					       .thread_name = "",
					       .blocked_by_span_id = "",
					       .latency = "",
					       .by = ""};

		if (read_frames(r, s) != 0)
			return -1;
		out.frame = r->frame;
		out.frames = r->frames;
		out.ns = (uint64_t)s->value[r->ns_type] * r->factor;
		if (r->count_type != p->n_sample_type)
			out.samples = (uint64_t)s->value[r->count_type];
		else
			out.samples = r->period != 0 ? out.ns / r->period : 1;
		read_labels(p, s, sink->by, &out);
		sink->sample(sink->arg, &out);
	}
	return 0;
}

/*
 * All printed texts of a profile come from its string table, which is untrusted. Each string is
 * made printable here, once; in place, unless it becomes longer.
 */
static int make_printable(const struct reader *r)
{
	char clean[SP_REPORT_TEXT_MAX + 1];

	for (size_t i = 0; i < r->p->n_string_table; i++) {
		char **s = &r->p->string_table[i];
		size_t had = strlen(*s);
		size_t len = sp_report_clean(*s, clean);

		if (len > had) {
			char *more = budget_alloc(r->budget, len + 1);

			if (more == NULL)
				return refuse_memory(r);
			budget_free(r->budget, *s);
			*s = more;
		}
		memcpy(*s, clean, len + 1);
	}
	return 0;
}

static bool is_wanted(struct reader *r, const struct sp_report_sink *sink)
{
	const struct sp_report_about about = {
		.type = text(r->p, r->p->sample_type[r->ns_type]->type),
		.in_bytes = r->in_bytes,
		.time_ns = positive(r->p->time_nanos),
		.duration_ns = positive(r->p->duration_nanos),
	};

	r->kinds = sink->kinds;
	r->of_waits = sp_profile_type_row(sp_profile_type_find(about.type))->is_of_waits;
	return sink->begin == NULL || sink->begin(sink->arg, &about);
}

static int read_profile(struct reader *r, const struct sp_report_sink *sink)
{
	if (make_printable(r) != 0 || index_ids(r) != 0 || check(r) != 0)
		return -1;
	r->place = calloc(r->p->n_location + 1, sizeof(*r->place));
	if (r->place == NULL)
		return refuse(r, SP_REPORT_NO_MEMORY);
	if (!choose_types(r, sink->type))
		return 0;
	if (choose_unit(r) != 0)
		return -1;
	return is_wanted(r, sink) ? visit(r, sink) : 0;
}

struct load {
	struct budget budget;
	const struct sp_report_sink *sink;
	char *why;
};

static int load_message(void *arg, pb_profile *p)
{
	struct load *l = arg;
	struct reader r = {.p = p, .budget = &l->budget, .why = l->why};
	int err = read_profile(&r, l->sink);

	for (size_t i = 0; r.place != NULL && i < p->n_location; i++) {
		budget_free(r.budget, r.place[i].frame);
		budget_free(r.budget, r.place[i].memo);
		budget_free(r.budget, r.place[i].made);
	}
	free(r.place);
	free(r.frame);
	id_index_fini(&r.location);
	id_index_fini(&r.function);
	id_index_fini(&r.mapping);
	return err;
}

int sp_report_load(const struct sp_bytes *profile, size_t memory_max,
		   const struct sp_report_sink *sink, char why[SP_REPORT_ERROR])
{
	struct load l = {{.left = memory_max}, sink, why};
	ProtobufCAllocator counted = {budget_alloc, budget_free, &l.budget};
	const struct reader r = {.budget = &l.budget, .why = why};
	const char *reason = "not a pprof profile";
	pb_profile *p;
	int err;

	why[0] = '\0';
	if (sp_report_otlp_is(profile)) {
		err = sp_report_otlp(profile, &counted, load_message, &l, &reason);
		if (err == 0 || why[0] != '\0')
			return err;
		return reason != NULL ? refuse(&r, reason) : refuse_memory(&r);
	}
	p = spanprof__pprof__profile__unpack(&counted, profile->len, profile->data);
	if (p == NULL)
		return l.budget.failed ? refuse_memory(&r) : refuse(&r, reason);
	err = load_message(&l, p);
	spanprof__pprof__profile__free_unpacked(p, &counted);
	return err;
}

size_t sp_report_clean(const char *s, char out[SP_REPORT_TEXT_MAX + 1])
{
	size_t len = sp_text_clean(out, SP_REPORT_TEXT_MAX, s, strlen(s));

	sp_text_printable(out, len);
	out[len] = '\0';
	return len;
}

size_t sp_report_frame_text(const struct sp_report_frame *f, bool lines,
			    char out[SP_REPORT_TEXT_MAX + 1])
{
	char number[24] = "";
	char whole[2 * SP_REPORT_TEXT_MAX + 32];

	if (!lines || f->file[0] == '\0')
		return sp_report_clean(f->name, out);
	if (f->line != 0)
		(void)snprintf(number, sizeof(number), ":%" PRIu64, f->line);
	(void)snprintf(whole, sizeof(whole), "%s (%s%s)", f->name, f->file, number);
	/* A cut text may end in the middle of a character. */
	return sp_report_clean(whole, out);
}

void sp_report_complain(const char *path, const char *why)
{
	char where[SP_REPORT_TEXT_MAX + 1];
	char what[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(path, where);
	(void)sp_report_clean(why, what);
	(void)fprintf(stderr, "spanprof-report: %s%s%s\n", where, where[0] != '\0' ? ": " : "",
		      what);
}
