/* SPDX-License-Identifier: Apache-2.0 */
/* Reads profiles into sums and stacks, and says what they are about (reading.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/reading.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "export/report/file.h"
#include "export/report/load.h"
#include "export/util/log.h"
#include "sampler/base/compiler.h"

/* The memory for tally and tree, which can grow with every file that differs from the others. */
#define SP_READING_SUMS_MAX ((size_t)1 << 30)

/* The path and the reason are of others, and are made printable. */
static int refuse(struct sp_reading *r, int status, const char *path, const char *why)
{
	char where[SP_REPORT_TEXT_MAX + 1];
	char what[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(path, where);
	(void)sp_report_clean(why, what);
	(void)snprintf(r->why, sizeof(r->why), "%.1000s%s%.1000s", where,
		       where[0] != '\0' ? ": " : "", what);
	return status;
}

static bool is_of_waits(const char *type)
{
	return strcmp(type, "off_cpu") == 0;
}

static void extend_time(struct sp_reading *r, const struct sp_report_about *about)
{
	uint64_t end = about->time_ns + about->duration_ns;

	if (about->time_ns == 0 || r->side != SP_SIDE_SELECTED)
		return;
	if (r->from_ns == 0 || about->time_ns < r->from_ns)
		r->from_ns = about->time_ns;
	if (end > r->to_ns)
		r->to_ns = end;
}

#define IN_USE "inuse_space"

static bool is_in_use(const struct sp_report_options *o)
{
	return o->type != NULL && strcmp(o->type, IN_USE) == 0;
}

/* "20261122T193000Z" */
static bool is_stamp(const char *s)
{
	static const char form[] = "ddddddddTddddddZ-";

	for (size_t i = 0; form[i] != '\0'; i++)
		if (form[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != form[i])
			return false;
	return true;
}

/*
 * Where service and process end in "SERVICE-PID-TIME-RANDOM-NUMBER...", as the exporter calls its files behind
 * "spanprof-". NULL if that is no such name.
 */
static const char *end_of_service(const char *name, const char **end_of_process)
{
	const char *pid = NULL;
	const char *end = NULL;

	for (const char *dash = strchr(name, '-'); dash != NULL; dash = strchr(dash + 1, '-')) {
		if (is_stamp(dash + 1)) {
			end = pid;
			*end_of_process = dash;
		}
		pid = dash;
	}
	return end;
}

/*
 * Profiles of memory in use are no sums: only the last one of each process is of interest. Processes differ by their
 * number and the random one. What has another name is of an unknown process, and is shown.
 */
static bool is_last(struct sp_reading *r, const struct sp_report_about *about)
{
	const int random = sizeof("-20261122T193000Z-") - 1;
	char process[SP_REPORT_TEXT_MAX];
	const char *time;
	uint32_t id;
	int len;

	if (end_of_service(sp_text_file_name(r->path), &time) == NULL)
		return !r->looks_for_last;
	len = snprintf(process, sizeof(process), "%.*s-%.8s", (int)(time - r->path), r->path,
		       time + random);
	if (len < 0 || (size_t)len >= sizeof(process))
		return !r->looks_for_last;
	if (!r->looks_for_last)
		return sp_strtab_find(&r->process, process, (size_t)len, &id) &&
		       about->time_ns == r->last_ns[id];
	if (sp_strtab_put(&r->process, process, (size_t)len, &id) != 0 ||
	    !SP_GROW(r->last_ns, r->last_cap, (size_t)id + 1, UINT32_MAX)) {
		r->tally.nomem = true;
		return false;
	}
	/* Ids come one after the other. */
	if (id >= r->last_n) {
		r->last_n = (size_t)id + 1;
		r->last_ns[id] = 0;
	}
	if (about->time_ns > r->last_ns[id])
		r->last_ns[id] = about->time_ns;
	return false;
}

/* For sp_report_sink. Unasked, waits and bytes are not added to CPU time. */
static bool begin(void *arg, const struct sp_report_about *about)
{
	struct sp_reading *r = arg;
	bool waits = is_of_waits(about->type);

	if (!sp_time_window_has(&r->window, about->time_ns, about->duration_ns))
		return false;
	r->is_shown = r->any_type || r->o->type != NULL ||
		      (!waits && !about->in_bytes && strcmp(about->type, "wall") != 0);
	r->has_memory |= about->in_bytes;
	if (r->is_shown && !r->any_type && is_in_use(r->o) && strcmp(about->type, IN_USE) == 0)
		r->is_shown = is_last(r, about);
	if (r->is_shown)
		extend_time(r, about);
	r->has_shown |= r->is_shown;
	r->in_bytes |= r->is_shown && about->in_bytes;
	return r->is_shown || waits;
}

static void learn(void *arg, const struct sp_report_sample *s)
{
	struct sp_reading *r = arg;

	if (r->is_shown)
		sp_selection_learn(&r->selection, s);
}

/* Which side a sample is on: by its span, or by the profile that it is in. */
static enum sp_side side_of(const struct sp_reading *r, const struct sp_report_sample *s)
{
	enum sp_side side = sp_selection_side(&r->selection, s);

	return side == SP_SIDE_SELECTED ? r->side : side;
}

/* Each value of a hostile profile can be 2^63 - 1, so that a sum of three does not fit. */
static void add(struct sp_reading *r, uint64_t *sum, uint64_t n)
{
	r->too_much |= __builtin_add_overflow(*sum, n, sum);
}

static void add_sample(void *arg, const struct sp_report_sample *s)
{
	struct sp_reading *r = arg;
	enum sp_side side = side_of(r, s);
	struct sp_sum sum = side == SP_SIDE_BASELINE ? r->tally.base : r->tally.total;

	if (r->too_large || r->too_much)
		return;
	if (r->side == SP_SIDE_SELECTED && r->selection.span_id != NULL &&
	    strcasecmp(r->selection.span_id, s->blocked_by_span_id) == 0)
		add(r, &r->blocked_ns, s->ns);
	if (!r->is_shown) {
		if (side == SP_SIDE_SELECTED)
			add(r, &r->waiting_ns, s->ns);
		return;
	}
	/* All other sums are of a part of these samples. */
	if (side != SP_SIDE_NONE) {
		add(r, &sum.ns, s->ns);
		add(r, &sum.samples, s->samples);
	}
	if (r->too_much)
		return;
	sp_tally_add(&r->tally, s, side);
	if (r->wants_tree)
		sp_tree_add(&r->tree, s, side);
	r->too_large = sp_tally_bytes(&r->tally) + sp_tree_bytes(&r->tree) > SP_READING_SUMS_MAX;
}

static void note_service(struct sp_reading *r, const char *path)
{
	static const char prefix[] = "spanprof-";
	const char *from = sp_text_file_name(path);
	const char *process;
	const char *to;
	char service[SP_READING_SERVICE];

	if (strncmp(from, prefix, strlen(prefix)) != 0)
		return;
	from += strlen(prefix);
	to = end_of_service(from, &process);
	if (to == NULL)
		return;
	(void)snprintf(service, sizeof(service), "%.*s", (int)(to - from), from);
	if (r->service[0] == '\0')
		memcpy(r->service, service, sizeof(service));
	else if (strcmp(r->service, service) != 0)
		r->services = true;
}

static int check_sums(struct sp_reading *r, const char *path)
{
	if (r->too_large)
		return refuse(r, SP_EXIT_DAMAGED, path,
			      "the report takes too much memory with this file; name fewer files, "
			      "or select spans");
	if (r->too_much)
		return refuse(r, SP_EXIT_DAMAGED, path, "its values are too large to be summed up");
	if (r->selection.too_many)
		return refuse(r, SP_EXIT_DAMAGED, path, "the selected spans have too many names");
	if (r->selection.nomem || r->tally.nomem || r->tree.nomem)
		return refuse(r, SP_EXIT_DAMAGED, "", "out of memory");
	return 0;
}

static bool is_named(const struct sp_reading *r, const char *path)
{
	for (char *const *named = r->named; *named != NULL; named++)
		if (strcmp(*named, path) == 0)
			return true;
	return r->o->baseline != NULL && strcmp(r->o->baseline, path) == 0;
}

/*
 * For sp_report_each(). Old files of a folder may be removed while the many that are there are read, and the last ones
 * before a loss of power may be without content.
 */
static int add_file(void *arg, const char *path)
{
	struct sp_reading *r = arg;
	char why[SP_REPORT_ERROR] = "";
	struct sp_bytes bytes;
	int err = sp_report_read(path, &bytes, why);

	r->path = path;
	r->has_shown = false;
	if (err == 0)
		err = sp_report_load(&bytes, SP_REPORT_MEMORY_MAX, &r->sink, why);
	free(bytes.data);
	if (err > 0 && !is_named(r, path))
		return 0;
	if (err != 0)
		return refuse(r, SP_EXIT_DAMAGED, path, why);
	err = check_sums(r, path);
	if (err != 0 || !r->has_shown)
		return err;
	if (r->side == SP_SIDE_BASELINE) {
		r->base_files++;
		return 0;
	}
	r->files++;
	note_service(r, path);
	return 0;
}

static void forget_last(struct sp_reading *r)
{
	sp_strtab_fini(&r->process);
	free(r->last_ns);
	r->process = (struct sp_strtab){0};
	r->last_ns = NULL;
	r->last_n = r->last_cap = 0;
}

static int read_each(struct sp_reading *r, char *const *path)
{
	char why[SP_REPORT_ERROR] = "";
	int err = 0;

	for (; err == 0 && *path != NULL; path++) {
		err = sp_report_each(*path, add_file, r, why);
		if (err < 0)
			err = refuse(r, SP_EXIT_DAMAGED, *path, why);
	}
	return err;
}

/* Hands every sample of every path to that. */
static int read_paths(struct sp_reading *r, char *const *path,
		      void (*sample)(void *arg, const struct sp_report_sample *s))
{
	int err = 0;

	r->sink = (struct sp_report_sink){.sample = sample,
					  .arg = r,
					  .kinds = r->wants_tree && r->o->form != SP_FORM_FOLDED,
					  .type = r->any_type ? NULL : r->o->type,
					  .by = r->o->label,
					  .begin = begin};
	if (is_in_use(r->o) && !r->any_type) {
		forget_last(r);
		r->looks_for_last = true;
		err = sp_strtab_init(&r->process) == 0
			      ? read_each(r, path)
			      : refuse(r, SP_EXIT_DAMAGED, "", "out of memory");
		r->looks_for_last = false;
	}
	return err == 0 ? read_each(r, path) : err;
}

static int say_no_profiles(struct sp_reading *r, char *const *path)
{
	const char *where = path[0] != NULL && path[1] == NULL ? path[0] : "";
	const char *type = r->o->type;
	char why[SP_REPORT_ERROR];

	if (sp_time_window_is_set(&r->o->window))
		return refuse(r, SP_EXIT_USAGE, where, "no profiles of that time found");
	if (type == NULL && r->waiting_ns != 0)
		return refuse(r, SP_EXIT_USAGE, where,
			      "no profiles of CPU time found, but of waits: use --type off_cpu");
	if (type == NULL && r->has_memory)
		return refuse(
			r, SP_EXIT_USAGE, where,
			"no profiles of CPU time found, but of memory: use --type alloc_space");
	if (type == NULL)
		return refuse(r, SP_EXIT_USAGE, where, "no profiles found");
	(void)snprintf(why, sizeof(why), "no profiles of type \"%.100s\" found%s", type,
		       is_of_waits(type)           ? "; the program needs SPANPROF_OFF_CPU=true"
		       : strcmp(type, "wall") == 0 ? "; the program needs SPANPROF_WALL=true"
		       : strcmp(type, "alloc_space") == 0 || strcmp(type, IN_USE) == 0
			       ? "; the program needs SPANPROF_ALLOC=true"
			       : "");
	return refuse(r, SP_EXIT_USAGE, where, why);
}

#define SP_READING_NEAR ((size_t)5)

enum kind { SPAN, TRACE, NAME };

static const char *row_text(const struct sp_tally *t, enum kind kind, size_t i)
{
	return sp_tally_text(t, kind == SPAN    ? t->span.row[i].text
				: kind == TRACE ? t->span.row[i].trace
						: t->name.row[i].text);
}

/* How many bytes at the beginning of both are the same, whatever their case. */
static size_t common(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] != '\0' && tolower((unsigned char)a[n]) == tolower((unsigned char)b[n]))
		n++;
	return n;
}

/* The row that begins most like it, of those whose text is not among the first n listed. SIZE_MAX: there is none. */
static size_t find_near(const struct sp_tally *t, enum kind kind, const char *wanted,
			const char *const *listed, size_t n)
{
	size_t rows = kind == NAME ? t->name.n : t->span.n;
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < rows; i++) {
		const char *text = row_text(t, kind, i);
		bool is_listed = text[0] == '\0';

		/* Spans of a trace have it again and again. */
		for (size_t k = 0; k < n; k++)
			is_listed = is_listed || listed[k] == text;
		if (!is_listed && (best == SIZE_MAX ||
				   common(text, wanted) > common(row_text(t, kind, best), wanted)))
			best = i;
	}
	return best;
}

/*
 * True if there is no such span, trace or name; then it says so, and which of those that there are begin most like
 * it, of equal ones the largest first. The tally is sorted.
 */
static bool say_unknown(struct sp_text_out *out, const struct sp_tally *t, enum kind kind,
			const char *wanted)
{
	static const char *const words[] = {"span", "trace", "span name"};
	int (*compare)(const char *a, const char *b) = kind == NAME ? strcmp : strcasecmp;
	const char *listed[SP_READING_NEAR] = {NULL};
	char clean[SP_REPORT_TEXT_MAX + 1];
	size_t row;

	if (wanted == NULL)
		return false;
	for (size_t i = 0; i < (kind == NAME ? t->name.n : t->span.n); i++)
		if (compare(row_text(t, kind, i), wanted) == 0)
			return false;
	(void)sp_report_clean(wanted, clean);
	sp_text_out_put(out, "there is no %s \"%.200s\"", words[kind], clean);
	for (size_t n = 0; n < SP_READING_NEAR; n++) {
		row = find_near(t, kind, wanted, listed, n);
		if (row == SIZE_MAX)
			break;
		listed[n] = row_text(t, kind, row);
		sp_text_out_put(out, "%s%.100s", n != 0 ? ", " : "; the nearest: ", listed[n]);
		if (kind != NAME)
			sp_text_out_put(out, " (%.100s)", sp_tally_text(t, t->span.row[row].name));
	}
	if (listed[0] == NULL)
		sp_text_out_put(out, "; no sample has a %s at all", words[kind]);
	/* Whoever knows the spans of a program looks for each of them, and by default finds the roots only. */
	else if (kind != TRACE)
		sp_text_out_put(out, " (child spans count for their local root, unless the program "
				     "runs with SPANPROF_SPAN_ID_SCOPE=all)");
	return true;
}

/* What is selected has only waited: short spans are often without a sample of CPU time. */
static int say_waits(struct sp_reading *r)
{
	char why[SP_REPORT_ERROR];

	(void)snprintf(
		why, sizeof(why),
		"no sample of CPU time is selected, but %.3f s of waiting: use --type off_cpu",
		(double)r->waiting_ns / (double)SP_NS_PER_S);
	return refuse(r, SP_EXIT_USAGE, "", why);
}

/*
 * Nothing is selected. All samples are read once more, of every type and time, to tell what was
 * perhaps meant.
 */
static int say_no_samples(struct sp_reading *r, char *const *path)
{
	char why[SP_READING_WHY] = "no sample is selected";
	struct sp_text_out out = {why, sizeof(why), 0};
	struct sp_selection asked = r->selection;

	sp_tally_fini(&r->tally);
	r->wants_tree = false;
	r->any_type = true;
	r->window = (struct sp_time_window){0};
	r->side = SP_SIDE_SELECTED;
	r->selection = (struct sp_selection){.names = 0};
	if (sp_tally_init(&r->tally) == 0 && read_paths(r, path, add_sample) == 0) {
		sp_tally_sort(&r->tally);
		if (!say_unknown(&out, &r->tally, SPAN, asked.span_id) &&
		    !say_unknown(&out, &r->tally, TRACE, asked.trace_id) &&
		    !say_unknown(&out, &r->tally, NAME, asked.span_name))
			sp_text_out_put(&out,
					"what is selected has samples, but not of this type, in "
					"this time, or under all of these conditions at once");
	}
	r->selection = asked;
	return refuse(r, SP_EXIT_USAGE, "", why);
}

static int say_no_values(struct sp_reading *r)
{
	char why[SP_REPORT_ERROR];
	char label[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(r->o->label, label);
	(void)snprintf(why, sizeof(why),
		       "no sample has the label \"%.60s\"; the program needs "
		       "SPANPROF_SPAN_LABELS=%.60s, if that is an attribute of its local roots",
		       label, label);
	return refuse(r, SP_EXIT_USAGE, "", why);
}

static bool is_selective(const struct sp_selection *x)
{
	return x->span_id != NULL || x->span_name != NULL || x->trace_id != NULL;
}

static int read_baseline(struct sp_reading *r, char *const *path)
{
	char *const paths[] = {r->o->baseline, NULL};
	int err;

	r->side = SP_SIDE_BASELINE;
	r->window = r->o->baseline_window;
	err = read_paths(r, r->o->baseline != NULL ? paths : path, add_sample);
	if (err != 0 || r->tally.base.ns != 0)
		return err;
	return refuse(r, SP_EXIT_USAGE, "",
		      r->base_files == 0 ? "there are no profiles to compare with"
					 : "the profiles to compare with have no such samples");
}

static int read_all(struct sp_reading *r, char *const *path)
{
	int err = 0;

	/* The names of the selected spans are known only after all samples were read. */
	if (r->selection.diff) {
		err = read_paths(r, path, learn);
		r->files = 0;
	}
	if (err == 0)
		err = read_paths(r, path, add_sample);
	if (err != 0)
		return err;
	if (r->files == 0)
		return say_no_profiles(r, path);
	if (is_selective(&r->selection) && r->tally.total.samples == 0 && r->tally.total.ns == 0)
		return r->waiting_ns != 0 ? say_waits(r) : say_no_samples(r, path);
	if (r->o->label != NULL && r->tally.by.n == 0)
		return say_no_values(r);
	if (r->selection.diff && r->tally.base.ns == 0)
		return refuse(r, SP_EXIT_USAGE, "", "--diff: there is no other span of that name");
	return sp_report_options_compare(r->o) && !r->selection.diff ? read_baseline(r, path) : 0;
}

int sp_reading_run(struct sp_reading *r, char *const *path)
{
	int err;

	if (r->named == NULL)
		r->named = path;
	err = read_all(r, path);
	if (err != 0)
		return err;
	sp_tally_sort(&r->tally);
	if (r->wants_tree && sp_tree_sort(&r->tree) != 0)
		return refuse(r, SP_EXIT_DAMAGED, "", "out of memory");
	return 0;
}

int sp_reading_init(struct sp_reading *r, const struct sp_report_options *o)
{
	*r = (struct sp_reading){
		.o = o, .selection = o->selection, .side = SP_SIDE_SELECTED, .window = o->window};
	/* The options' own may be gone before more is read. */
	if (o->selection.span_id != NULL) {
		(void)sp_report_clean(o->selection.span_id, r->span_id);
		r->selection.span_id = r->span_id;
	}
	if (o->selection.span_name != NULL) {
		(void)sp_report_clean(o->selection.span_name, r->span_name);
		r->selection.span_name = r->span_name;
	}
	if (sp_tally_init(&r->tally) != 0 || sp_tree_init(&r->tree) != 0)
		return refuse(r, SP_EXIT_DAMAGED, "", "out of memory");
	r->tally.lines = r->tree.lines = o->lines;
	r->tree.by_label = o->by == SP_BY_LABEL;
	r->tally.diff = sp_report_options_compare(o);
	r->tally.left_behind = is_in_use(o);
	return 0;
}

static bool same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool sp_reading_may_go_on(const struct sp_reading *r, const struct sp_report_options *o)
{
	/* Of other times other files are left out, and what is compared with is known only when all was read. */
	return !sp_report_options_compare(o) && !sp_time_window_is_set(&o->window) &&
	       !is_in_use(o) && same(r->o->type, o->type) &&
	       same(r->selection.span_id, o->selection.span_id) &&
	       same(r->selection.span_name, o->selection.span_name);
}

void sp_reading_fini(struct sp_reading *r)
{
	forget_last(r);
	sp_tree_fini(&r->tree);
	sp_tally_fini(&r->tally);
	sp_selection_fini(&r->selection);
}

const char *sp_reading_time_of(const struct sp_reading *r)
{
	const char *type = r->o->type != NULL ? r->o->type : "cpu";

	if (strcmp(type, "cpu") == 0)
		return "CPU";
	if (strcmp(type, "alloc_space") == 0)
		return "allocated";
	if (strcmp(type, IN_USE) == 0)
		return "in use";
	return strcmp(type, "off_cpu") == 0 ? "off-CPU" : type;
}

/* A function is worth a hint from this part of the time on. */
#define SP_HINT_SHARE 100

/* The name of the selected spans, if they have one, and only one. */
static const char *name_of(const struct sp_reading *r)
{
	const struct sp_tally *t = &r->tally;

	return t->name.n == 1 && t->labelled.ns == t->total.ns
		       ? sp_tally_text(t, t->name.row[0].text)
		       : "";
}

void sp_describe_title(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT])
{
	const struct sp_selection *x = &r->selection;
	struct sp_text_out t = {out, SP_DESCRIBE_TEXT, 0};

	out[0] = '\0';
	if (r->service[0] != '\0')
		sp_text_out_put(&t, "%s%s: ", r->service, r->services ? " and others" : "");
	sp_text_out_put(&t, "%s %s", sp_reading_time_of(r), r->in_bytes ? "memory" : "time");
	if (x->trace_id != NULL)
		sp_text_out_put(&t, " of trace %.64s", x->trace_id);
	if (x->span_id != NULL)
		sp_text_out_put(&t, " of span %.64s", x->span_id);
	if (x->span_name != NULL && x->span_id == NULL)
		sp_text_out_put(&t, " of spans named %.512s", x->span_name);
	else if (name_of(r)[0] != '\0')
		sp_text_out_put(&t, " (%.512s)", name_of(r));
}

static void put_time(struct sp_text_out *t, const struct sp_reading *r)
{
	time_t from = (time_t)(r->from_ns / SP_NS_PER_S);
	time_t to = (time_t)(r->to_ns / SP_NS_PER_S);
	char from_text[32];
	char to_text[32];
	struct tm a;
	struct tm b;
	bool one_day;

	if (r->from_ns == 0 || gmtime_r(&from, &a) == NULL || gmtime_r(&to, &b) == NULL)
		return;
	one_day = a.tm_yday == b.tm_yday && a.tm_year == b.tm_year;
	if (strftime(from_text, sizeof(from_text), "%Y-%m-%d %H:%M:%S", &a) != 0 &&
	    strftime(to_text, sizeof(to_text), one_day ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &b) != 0)
		sp_text_out_put(t, "%s to %s UTC; ", from_text, to_text);
}

static void put_baseline(struct sp_text_out *t, const struct sp_reading *r)
{
	if (r->selection.diff)
		sp_text_out_put(t, "; baseline: %.3f %s of %" PRIu32 " other spans of that name",
				sp_report_amount(r->in_bytes, r->tally.base.ns),
				sp_report_unit(r->in_bytes), r->tally.base_spans);
	else if (r->tally.diff)
		sp_text_out_put(t, "; baseline: %.3f %s in %zu %s",
				sp_report_amount(r->in_bytes, r->tally.base.ns),
				sp_report_unit(r->in_bytes), r->base_files,
				r->base_files == 1 ? "profile" : "profiles");
}

void sp_describe_sums(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT])
{
	const struct sp_tally *sums = &r->tally;
	struct sp_text_out t = {out, SP_DESCRIBE_TEXT, 0};

	out[0] = '\0';
	put_time(&t, r);
	sp_text_out_put(&t, "%.3f %s %s, %" PRIu64 " %s, %zu %s, %zu %s",
			sp_report_amount(r->in_bytes, sums->total.ns), sp_report_unit(r->in_bytes),
			sp_reading_time_of(r), sums->total.samples,
			r->in_bytes ? "blocks" : "samples", sums->span.n,
			sums->span.n == 1 ? "span" : "spans", r->files,
			r->files == 1 ? "profile" : "profiles");
	put_baseline(&t, r);
}

/* The length of the object's name where a function is known by its address alone, "libm.so.6+0x702c0"; else 0. */
static size_t object_of(const char *function)
{
	const char *plus = strrchr(function, '+');

	if (plus == NULL || plus[1] != '0' || plus[2] != 'x' || plus[3] == '\0' ||
	    plus[3 + strspn(plus + 3, "0123456789abcdef")] != '\0')
		return 0;
	return (size_t)(plus - function);
}

static bool is_of_libc(const char *function)
{
	static const char *const names[] = {"libc.so.6+", "libm.so.6+", "ld-linux-",      "libc-2.",
					    "libm-2.",    "libpthread", "libresolv.so.2+"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(function, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/*
 * Only of functions that use some time themselves. Most programs have callers without a name at the root of
 * each stack, such as those of a thread pool, and a hint about these would be in every report.
 */
void sp_describe_hint(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT])
{
	const struct sp_tally *sums = &r->tally;
	struct sp_text_out t = {out, SP_DESCRIBE_TEXT, 0};
	const char *worst = NULL;
	uint64_t most_ns = sums->total.ns / SP_HINT_SHARE;

	out[0] = '\0';
	for (size_t i = 0; i < sums->functions; i++) {
		const struct sp_function_row *f = &sums->function[i];
		const char *name = sp_tally_text(sums, f->name);

		if (f->self.ns <= most_ns || object_of(name) == 0)
			continue;
		worst = name;
		most_ns = f->self.ns;
	}
	if (worst == NULL)
		return;
	sp_text_out_put(&t, "%.100s is a function without a name: install ", worst);
	if (is_of_libc(worst))
		sp_text_out_put(&t, "the symbols of the C library (libc6-dbg)");
	else
		sp_text_out_put(&t, "the debug symbols of %.*s", (int)object_of(worst), worst);
	sp_text_out_put(&t, ", or run the program with DEBUGINFOD_URLS");
}
