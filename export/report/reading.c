/* SPDX-License-Identifier: Apache-2.0 */
/* Reads profiles into sums and stacks, and says what they are about (reading.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/reading.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "export/profile/profile_type.h"
#include "export/report/file.h"
#include "export/report/load.h"
#include "export/report/roots.h"
#include "export/util/log.h"
#include "sampler/base/compiler.h"

/* Limit for the memory of tally and tree, which each further file may enlarge. */
#define SP_READING_SUMS_MAX ((size_t)1 << 30)

/* Path and reason are untrusted, so they are made printable. */
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

static bool is_in_use(const struct sp_report_options *o)
{
	return o->type != NULL && sp_profile_type_find(o->type) == SP_PROFILE_IN_USE;
}

/* Whether only the last profile of each process is shown: that is so for memory in use. */
static bool shows_last(const struct sp_reading *r)
{
	return is_in_use(r->o) && !r->any_type;
}

/* Whether a text begins with a time such as "20261122T193000Z-". */
static bool is_stamp(const char *s)
{
	static const char form[] = "ddddddddTddddddZ-";

	for (size_t i = 0; form[i] != '\0'; i++)
		if (form[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != form[i])
			return false;
	return true;
}

/*
 * Finds the ends of service and process in "SERVICE-PID-TIME-RANDOM-NUMBER...", the name of an
 * exporter's file behind "spanprof-". NULL: the file has another name.
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
 * Whether the process has ended, or its exporter was killed: after its last profile, no other one
 * came for as long as that profile lasts.
 */
static bool has_ended(const struct sp_reading *r, const struct sp_reading_last *last)
{
	return last->due_ns != 0 && last->due_ns < r->newest_ns;
}

/*
 * The process of a file, by the file's name: a process is identified by its number and the random
 * number. adds: a new process is added. NULL: the name does not show the process; the process is
 * unknown, and adds is false; or out of memory, which sets r->tally.nomem.
 */
static struct sp_reading_last *process_of(struct sp_reading *r, const char *path, bool adds)
{
	const int random = sizeof("-20261122T193000Z-") - 1;
	char process[SP_REPORT_TEXT_MAX];
	const char *time;
	uint32_t id;
	int len;

	if (end_of_service(sp_text_file_name(path), &time) == NULL)
		return NULL;
	len = snprintf(process, sizeof(process), "%.*s-%.8s", (int)(time - path), path,
		       time + random);
	if (len < 0 || (size_t)len >= sizeof(process))
		return NULL;
	if (!adds)
		return sp_strtab_find(&r->process, process, (size_t)len, &id) ? &r->last[id] : NULL;
	if (sp_strtab_put(&r->process, process, (size_t)len, &id) != 0 ||
	    !SP_GROW(r->last, r->last_cap, (size_t)id + 1, UINT32_MAX)) {
		r->tally.nomem = true;
		return NULL;
	}
	/* A new id is always the next number. */
	if (id >= r->last_n) {
		r->last_n = (size_t)id + 1;
		r->last[id] = (struct sp_reading_last){.time_ns = 0};
	}
	return &r->last[id];
}

/*
 * Whether a profile of memory in use is shown. Such profiles must not be added up: only the last
 * one of each process counts, and only if the process lived when the newest profile of all ended. A
 * file with another name belongs to an unknown process, and is shown.
 */
static bool is_last(struct sp_reading *r, const struct sp_report_about *about)
{
	struct sp_reading_last *last = process_of(r, r->path, r->looks_for_last);
	uint64_t end_ns = about->time_ns + about->duration_ns;

	if (end_ns > r->newest_ns)
		r->newest_ns = end_ns;
	if (last == NULL)
		return !r->looks_for_last;
	if (!r->looks_for_last)
		return about->time_ns == last->time_ns && !has_ended(r, last);
	if (about->time_ns > last->time_ns) {
		last->time_ns = about->time_ns;
		last->due_ns = about->duration_ns != 0 ? end_ns + about->duration_ns : 0;
	}
	return false;
}

/* For sp_report_sink. Waits and bytes are not added to CPU time unless the user asked for them. */
static bool begin(void *arg, const struct sp_report_about *about)
{
	struct sp_reading *r = arg;
	enum sp_profile_type type = sp_profile_type_find(about->type);

	if (!sp_time_window_has(&r->window, about->time_ns, about->duration_ns))
		return false;
	r->is_shown = r->any_type || r->o->type != NULL ||
		      (!about->in_bytes && !sp_profile_type_row(type)->is_of_waits);
	r->has_memory |= about->in_bytes;
	if (r->is_shown && shows_last(r) && type == SP_PROFILE_IN_USE)
		r->is_shown = is_last(r, about);
	if (r->is_shown)
		extend_time(r, about);
	r->has_shown |= r->is_shown;
	r->in_bytes |= r->is_shown && about->in_bytes;
	return r->is_shown || type == SP_PROFILE_OFF_CPU;
}

static void learn_latency(void *arg, const struct sp_report_sample *s)
{
	struct sp_reading *r = arg;

	r->selection.has_latency |= s->latency[0] != '\0';
}

static void learn(void *arg, const struct sp_report_sample *s)
{
	struct sp_reading *r = arg;

	if (r->is_shown)
		sp_selection_learn(&r->selection, s);
}

/* The side of a sample in a comparison: by its span, or by the profile that contains it. */
static enum sp_side side_of(const struct sp_reading *r, const struct sp_report_sample *s)
{
	enum sp_side side = sp_selection_side(&r->selection, s);

	return side == SP_SIDE_SELECTED ? r->side : side;
}

/* A hostile profile can have values of 2^63 - 1, and a sum of three of them overflows. */
static void add(struct sp_reading *r, uint64_t *sum, uint64_t n)
{
	r->too_much |= __builtin_add_overflow(*sum, n, sum);
}

static void add_sample(void *arg, const struct sp_report_sample *asked)
{
	struct sp_reading *r = arg;
	struct sp_report_sample shown = *asked;
	const struct sp_report_sample *s = &shown;
	enum sp_side side = side_of(r, s);
	struct sp_sum sum = side == SP_SIDE_BASELINE ? r->tally.base : r->tally.total;

	if (r->too_large || r->too_much)
		return;
	r->has_added = true;
	if (r->side == SP_SIDE_SELECTED && r->is_shown &&
	    __builtin_add_overflow(r->tally.read, s->samples, &r->tally.read))
		r->tally.read = UINT64_MAX;
	if (side == SP_SIDE_SELECTED && r->is_shown) {
		add(r, &r->unfiltered.ns, s->ns);
		add(r, &r->unfiltered.samples, s->samples);
	}
	if (!sp_filter_sample(&r->o->filter, &r->filter, &shown, &r->tally.nomem))
		return;
	if (r->side == SP_SIDE_SELECTED && r->selection.span_id != NULL &&
	    strcasecmp(r->selection.span_id, s->blocked_by_span_id) == 0)
		add(r, &r->blocked_ns, s->ns);
	if (!r->is_shown) {
		if (side == SP_SIDE_SELECTED)
			add(r, &r->waiting_ns, s->ns);
		return;
	}
	/* All other sums are of some of these samples, so they overflow only if this one does. */
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

/* Facts about a profile in the name of the exporter's file. */
struct file_name {
	uint64_t begin_ns; /* in whole seconds */
	bool is_in_use;    /* the profile is of memory in use (SP_PROFILE_IN_USE) */
};

/* Parses the name that an exporter has given to a file. False: the file has another name. */
static bool read_name(const char *path, struct file_name *out)
{
	static const char digits[] = "0123456789abcdef";
	const char *name = sp_text_file_name(path);
	const char *stamp = NULL;
	const char *pid;
	const char *rest;
	struct tm tm = {.tm_sec = 0};
	time_t t;

	pid = strncmp(name, "spanprof-", 9) == 0 ? end_of_service(name + 9, &stamp) : NULL;
	if (pid == NULL || strspn(pid + 1, "0123456789") != (size_t)(stamp - pid - 1))
		return false;
	rest = strptime(stamp, "-%Y%m%dT%H%M%SZ-", &tm);
	t = rest != NULL ? timegm(&tm) : -1;
	if (t <= 0 || strspn(rest, digits) != 8 || rest[8] != '-' || strspn(rest + 9, digits) < 6)
		return false;
	rest += 9;
	rest += strspn(rest, digits);
	out->begin_ns = (uint64_t)t * SP_NS_PER_S;
	out->is_in_use = strncmp(rest, "-inuse.", 7) == 0;
	return true;
}

bool sp_reading_process_of(const char *path, char *process, size_t cap, uint64_t *number,
			   uint64_t *begin_ns)
{
	const int token = sizeof("-20261122T193000Z-") - 1;
	const char *name = sp_text_file_name(path);
	struct file_name read;
	const char *stamp = NULL;
	int len;

	if (!read_name(path, &read) || end_of_service(name + 9, &stamp) == NULL)
		return false;
	len = snprintf(process, cap, "%.*s-%.8s", (int)(stamp - name), name, stamp + token);
	*number = strtoull(stamp + token + 9, NULL, 10);
	*begin_ns = read.begin_ns;
	return len > 0 && (size_t)len < cap;
}

/* The clock of a file server may be this far behind ours. */
#define CLOCKS_DIFFER_NS (60 * SP_NS_PER_S)

/*
 * Whether a file is outside of the window. A file is written when its profile has ended, so it has
 * ended by written_ns. A file that seems older than its profile got another time later, which says
 * nothing.
 */
static bool leaves_out(const struct sp_time_window *w, uint64_t begin_ns, uint64_t written_ns)
{
	if (w->to_ns != 0 && begin_ns >= w->to_ns)
		return true;
	return written_ns >= begin_ns && written_ns + CLOCKS_DIFFER_NS < w->from_ns;
}

bool sp_reading_leaves_out(const struct sp_reading *r, const char *path, uint64_t written_ns)
{
	struct file_name name;

	return sp_time_window_is_set(&r->window) && read_name(path, &name) &&
	       leaves_out(&r->window, name.begin_ns, written_ns);
}

/* Whether the file is outside of r->window, without opening it: thousands of files may be. */
static bool is_of_other_time(const struct sp_reading *r, const char *path)
{
	struct file_name name;
	struct stat st;

	if (!sp_time_window_is_set(&r->window) || !read_name(path, &name))
		return false;
	if (name.begin_ns >= r->window.from_ns)
		return leaves_out(&r->window, name.begin_ns, 0);
	return stat(path, &st) == 0 &&
	       leaves_out(&r->window, name.begin_ns,
			  (uint64_t)st.st_mtim.tv_sec * SP_NS_PER_S + (uint64_t)st.st_mtim.tv_nsec);
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

/* At most this many files get a message; of further ones only the number is printed. */
#define SP_READING_TOLD_MAX 20U

static bool was_told(struct sp_strtab *told, const char *path)
{
	uint32_t id;

	if (told->n == 0 && sp_strtab_init(told) != 0)
		return true;
	return sp_strtab_find(told, path, strlen(path), &id) || told->n > SP_READING_TOLD_MAX ||
	       sp_strtab_put(told, path, strlen(path), &id) != 0;
}

/*
 * Passes a file over. A file of somebody else, or one that was cut off, does not prevent the report
 * of the rest.
 */
static int pass_over(struct sp_reading *r, const char *path, const char *why)
{
	/* A comparison with other times reads the same files twice, and counts them once. */
	if (r->side == SP_SIDE_SELECTED || r->o->baseline != NULL)
		r->passed++;
	(void)refuse(r, 0, path, why);
	if (!was_told(r->told, path))
		sp_report_complain("", r->why);
	if (!SP_GROW(r->again, r->again_cap, r->again_n + 2, UINT32_MAX))
		return refuse(r, SP_EXIT_DAMAGED, "", SP_REPORT_NO_MEMORY);
	r->again[r->again_n] = strdup(path);
	r->again_n += r->again[r->again_n] != NULL;
	r->again[r->again_n] = NULL;
	return 0;
}

static void free_paths(char **path)
{
	for (char **p = path; p != NULL && *p != NULL; p++)
		free(*p);
	free((void *)path);
}

/*
 * Reads a file. A missing or empty file is no error unless the user named it: old files of a folder
 * may be removed meanwhile, and the newest ones may be empty after a loss of power.
 */
static int read_file(struct sp_reading *r, const char *path)
{
	char why[SP_REPORT_ERROR] = "";
	struct sp_bytes bytes;
	int err;

	err = sp_report_read(path, &bytes, why);
	r->path = path;
	r->has_shown = r->has_added = false;
	if (err == 0)
		err = r->visitor != NULL
			      ? r->visitor->load(r->visitor->arg, &bytes, why)
			      : sp_report_load(&bytes, SP_REPORT_MEMORY_MAX, &r->sink, why);
	free(bytes.data);
	if (err > 0 && !is_named(r, path))
		return 0;
	/*
	 * If only a part of the file's samples was added, the sums are wrong. When out of memory,
	 * later files might be read although this good one was not.
	 */
	if (err != 0 && (r->has_added || strcmp(why, SP_REPORT_NO_MEMORY) == 0))
		return refuse(r, SP_EXIT_DAMAGED, path, why);
	if (err != 0)
		return pass_over(r, path, why);
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

/* A file of memory in use, and what its name says. */
struct sp_reading_in_use {
	char *path;
	uint64_t begin_ns;
	size_t process;
};

static int note_in_use(struct sp_reading *r, const char *path, const struct file_name *name)
{
	struct sp_reading_last *last = process_of(r, path, true);
	char *copy = last != NULL ? strdup(path) : NULL;

	if (copy == NULL || !SP_GROW(r->in_use, r->in_use_cap, r->in_use_n + 1, UINT32_MAX)) {
		free(copy);
		return refuse(r, SP_EXIT_DAMAGED, "", SP_REPORT_NO_MEMORY);
	}
	r->in_use[r->in_use_n++] =
		(struct sp_reading_in_use){copy, name->begin_ns, (size_t)(last - r->last)};
	return 0;
}

/*
 * For sp_report_each(): reads a file, but collects files of memory in use. A long-lived process has
 * thousands of those, and only one is shown.
 */
static int add_file(void *arg, const char *path)
{
	struct sp_reading *r = arg;
	const struct sp_reading_last *last;
	struct file_name name;

	if (is_of_other_time(r, path))
		return 0;
	if (!shows_last(r) || !read_name(path, &name))
		return read_file(r, path);
	if (!name.is_in_use)
		return 0;
	if (r->looks_for_last)
		return note_in_use(r, path, &name);
	last = process_of(r, path, false);
	return last != NULL && last->named_ns == name.begin_ns && !has_ended(r, last)
		       ? read_file(r, path)
		       : 0;
}

/* Sorts by process, the newest file first. */
static int compare_in_use(const void *a, const void *b)
{
	const struct sp_reading_in_use *x = a;
	const struct sp_reading_in_use *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns > y->begin_ns ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* Reads the files of each process, the newest first, until one has a profile that can be shown. */
static int read_newest(struct sp_reading *r)
{
	int err = 0;

	if (r->in_use_n != 0)
		qsort(r->in_use, r->in_use_n, sizeof(*r->in_use), compare_in_use);
	for (size_t i = 0; err == 0 && i < r->in_use_n; i++) {
		const struct sp_reading_in_use *file = &r->in_use[i];
		struct sp_reading_last *last = &r->last[file->process];

		/*
		 * If a profile is in several parts, each part has a file, all with the same time.
		 */
		if (last->time_ns != 0 && last->named_ns != file->begin_ns)
			continue;
		last->named_ns = file->begin_ns;
		err = read_file(r, file->path);
	}
	return err;
}

static void forget_in_use(struct sp_reading *r)
{
	for (size_t i = 0; i < r->in_use_n; i++)
		free(r->in_use[i].path);
	free(r->in_use);
	r->in_use = NULL;
	r->in_use_n = r->in_use_cap = 0;
}

static void forget_last(struct sp_reading *r)
{
	forget_in_use(r);
	sp_strtab_fini(&r->process);
	free(r->last);
	r->process = (struct sp_strtab){0};
	r->last = NULL;
	r->last_n = r->last_cap = 0;
	r->newest_ns = 0;
}

static int read_each(struct sp_reading *r, char *const *path)
{
	bool (*is_wanted)(const char *) = r->visitor != NULL ? r->visitor->is_wanted : NULL;
	char why[SP_REPORT_ERROR] = "";
	int err = 0;

	for (; err == 0 && *path != NULL; path++) {
		err = is_wanted != NULL ? sp_report_each_of_kind(*path, is_wanted, add_file, r, why)
					: sp_report_each(*path, add_file, r, why);
		if (err < 0)
			err = refuse(r, SP_EXIT_DAMAGED, *path, why);
	}
	return err;
}

/* Finds the last profile of memory in use of each process. */
static int find_last(struct sp_reading *r, char *const *path)
{
	int err;

	forget_last(r);
	if (sp_strtab_init(&r->process) != 0)
		return refuse(r, SP_EXIT_DAMAGED, "", SP_REPORT_NO_MEMORY);
	r->looks_for_last = true;
	err = read_each(r, path);
	/* Files with other names are read again when they are shown, and count then. */
	r->passed = 0;
	if (err == 0)
		err = read_newest(r);
	r->looks_for_last = false;
	forget_in_use(r);
	return err;
}

/* Calls sample() for every sample of every path. */
static int read_paths(struct sp_reading *r, char *const *path,
		      void (*sample)(void *arg, const struct sp_report_sample *s))
{
	int err = 0;

	r->sink = (struct sp_report_sink){.sample = sample,
					  .arg = r,
					  .kinds = r->o->form != SP_FORM_FOLDED &&
						   r->o->form != SP_FORM_JSON,
					  .type = r->any_type ? NULL : r->o->type,
					  .by = r->o->label,
					  .begin = begin};
	if (shows_last(r))
		err = find_last(r, path);
	return err == 0 ? read_each(r, path) : err;
}

static int say_no_profiles(struct sp_reading *r, char *const *path)
{
	const char *where = path[0] != NULL && path[1] == NULL ? path[0] : "";
	const char *type = r->o->type;
	const char *variable;
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
	variable = sp_profile_type_row(sp_profile_type_find(type))->variable;
	(void)snprintf(why, sizeof(why), "no profiles of type \"%.100s\" found%s%s", type,
		       variable != NULL ? "; the program needs " : "",
		       variable != NULL ? variable : "");
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

/* How many bytes at the beginning of both texts are equal, ignoring case. */
static size_t common(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] != '\0' && tolower((unsigned char)a[n]) == tolower((unsigned char)b[n]))
		n++;
	return n;
}

/*
 * The row whose text has the longest beginning in common with `wanted`, except for the n texts in
 * `listed`. SIZE_MAX: none.
 */
static size_t find_near(const struct sp_tally *t, enum kind kind, const char *wanted,
			const char *const *listed, size_t n)
{
	size_t rows = kind == NAME ? t->name.n : t->span.n;
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < rows; i++) {
		const char *text = row_text(t, kind, i);
		bool is_listed = text[0] == '\0';

		/* All spans of a trace have the same text. */
		for (size_t k = 0; k < n; k++)
			is_listed = is_listed || listed[k] == text;
		if (!is_listed && (best == SIZE_MAX ||
				   common(text, wanted) > common(row_text(t, kind, best), wanted)))
			best = i;
	}
	return best;
}

/*
 * If no row has the wanted span, trace or name, says so, and lists the rows with the most similar
 * beginnings; of equal ones the largest first. Returns whether that is so. The tally is sorted.
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
	/*
	 * Users who know their program search for child spans, but by default samples have only the
	 * ids and names of roots.
	 */
	else if (kind != TRACE)
		sp_text_out_put(out, " (child spans count for their local root, unless the program "
				     "runs with SPANPROF_SPAN_ID_SCOPE=all)");
	return true;
}

/* The selection has only waiting time: short spans often have no sample of CPU time. */
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
 * The selection has no samples. Reads all samples again, of every type and time, to suggest what
 * the user may have meant.
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
					"the selection has samples, but not of this type, in "
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
	return x->span_id != NULL || x->span_name != NULL || x->trace_id != NULL ||
	       x->latency != NULL;
}

/* --focus, --ignore and --hide leave nothing of the selection. */
static int say_filtered(struct sp_reading *r)
{
	const struct sp_filter *f = &r->o->filter;
	char why[SP_REPORT_ERROR];

	if (f->text[SP_FILTER_FOCUS] == NULL || r->filter.matched[SP_FILTER_FOCUS])
		return refuse(r, SP_EXIT_USAGE, "",
			      "--focus, --ignore and --hide leave out all that is selected");
	(void)snprintf(why, sizeof(why), "no function matches \"%.200s\"",
		       f->text[SP_FILTER_FOCUS]);
	return refuse(r, SP_EXIT_USAGE, "--focus", why);
}

/* There is nothing to show, and each file that was passed over has got a message. */
static int say_nothing(struct sp_reading *r)
{
	r->is_told = true;
	return SP_EXIT_DAMAGED;
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
	if (r->base_files == 0 && r->passed != 0)
		return say_nothing(r);
	return refuse(r, SP_EXIT_USAGE, "",
		      r->base_files == 0 ? "there are no profiles to compare with"
					 : "the profiles to compare with have no such samples");
}

static int load_slow(void *arg, const struct sp_bytes *file, char why[SP_REPORT_ERROR])
{
	struct sp_reading *r = arg;
	struct sp_report_roots roots = {.n = 0};
	int err = sp_report_roots_read(&roots, file, why);

	for (size_t i = 0; err == 0 && i < roots.n; i++)
		if (sp_slow_ids_add(&r->slow_ids, roots.root[i].id) != 0) {
			(void)snprintf(why, SP_REPORT_ERROR, "%s", SP_REPORT_NO_MEMORY);
			err = -1;
		}
	sp_report_roots_fini(&roots);
	return err;
}

/*
 * Finds the slow requests: by the label of their samples; if no sample has it, by the files of slow
 * roots. The root of a sample may have ended in the next interval, and so be in the file of that
 * one. So files of any time are read.
 */
static int find_slow(struct sp_reading *r, char *const *path)
{
	const struct sp_reading_visitor visitor = {load_slow, r, sp_report_is_of_slow_roots};
	char *const base[] = {r->o->baseline, NULL};
	struct sp_time_window window = r->window;
	int err = read_paths(r, path, learn_latency);

	r->files = r->passed = 0;
	if (err != 0 || r->selection.has_latency)
		return err;
	if (strcmp(r->selection.latency, SP_REPORT_SLOW) != 0 &&
	    strcmp(r->selection.latency, SP_REPORT_REST) != 0)
		return refuse(r, SP_EXIT_USAGE, "",
			      "no sample has the label latency; the program needs "
			      "SPANPROF_SPAN_LATENCY=true");
	r->window = (struct sp_time_window){0};
	r->visitor = &visitor;
	err = read_each(r, path);
	if (err == 0 && r->o->baseline != NULL)
		err = read_each(r, base);
	r->visitor = NULL;
	r->window = window;
	r->files = r->passed = 0;
	if (err == 0 && r->slow_ids.n == 0)
		err = refuse(r, SP_EXIT_USAGE, "",
			     "no slow requests are known; the program needs SPANPROF_SLOW with "
			     "SPANPROF_OUTPUT_DIR, or SPANPROF_SPAN_LATENCY=true");
	return err;
}

static int read_all(struct sp_reading *r, char *const *path)
{
	int err = r->selection.latency != NULL ? find_slow(r, path) : 0;

	if (err != 0)
		return err;
	/*
	 * The names of the selected spans are known only after all samples were read, so they are
	 * read twice.
	 */
	if (r->selection.diff) {
		err = read_paths(r, path, learn);
		r->files = r->passed = 0;
	}
	if (err == 0)
		err = read_paths(r, path, add_sample);
	if (err != 0)
		return err;
	if (r->files == 0 && r->passed != 0)
		return say_nothing(r);
	if (r->files == 0)
		return say_no_profiles(r, path);
	if (r->tally.total.samples == 0 && r->tally.total.ns == 0 &&
	    (r->unfiltered.samples != 0 || r->unfiltered.ns != 0))
		return say_filtered(r);
	if (is_selective(&r->selection) && r->tally.total.samples == 0 && r->tally.total.ns == 0)
		return r->waiting_ns != 0 ? say_waits(r) : say_no_samples(r, path);
	if (r->o->label != NULL && r->tally.by.n == 0)
		return say_no_values(r);
	if (r->selection.diff && r->tally.base.ns == 0)
		return refuse(r, SP_EXIT_USAGE, "", "--diff: there is no other span of that name");
	if (r->selection.base_latency != NULL && r->tally.base.ns == 0)
		return refuse(r, SP_EXIT_USAGE, "",
			      "--diff: no sample is of the requests to compare with");
	return sp_report_options_compare(r->o) && !r->selection.diff &&
			       r->selection.base_latency == NULL
		       ? read_baseline(r, path)
		       : 0;
}

/* Reads the files that the last run has passed over. */
static int read_again(struct sp_reading *r)
{
	char **path = r->again;
	int err;

	r->again = NULL;
	r->again_n = r->again_cap = 0;
	r->passed = 0;
	err = path != NULL ? read_paths(r, path, add_sample) : 0;
	free_paths(path);
	return err;
}

int sp_reading_run(struct sp_reading *r, char *const *path)
{
	int err;

	if (r->named == NULL)
		r->named = path;
	err = read_again(r);
	if (err == 0)
		err = read_all(r, path);
	if (err != 0)
		return err;
	sp_tally_sort(&r->tally);
	if (r->wants_tree && sp_tree_sort(&r->tree) != 0)
		return refuse(r, SP_EXIT_DAMAGED, "", "out of memory");
	return 0;
}

int sp_reading_visit(struct sp_reading *r, char *const *path,
		     const struct sp_reading_visitor *visitor)
{
	int err;

	r->named = path;
	r->visitor = visitor;
	err = read_each(r, path);
	r->visitor = NULL;
	return err;
}

int sp_reading_init(struct sp_reading *r, const struct sp_report_options *o, struct sp_strtab *told)
{
	*r = (struct sp_reading){.o = o,
				 .selection = o->selection,
				 .side = SP_SIDE_SELECTED,
				 .window = o->window,
				 .told = told};
	r->selection.slow_ids = &r->slow_ids;
	/* Copies, because the options' texts may be freed before the next run. */
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
	r->tally.by_looks =
		o->type != NULL && sp_profile_type_row(sp_profile_type_find(o->type))->is_of_waits;
	return 0;
}

static bool same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool sp_reading_may_go_on(const struct sp_reading *r, const struct sp_report_options *o)
{
	/* The baseline of a comparison is known only when all files were read. */
	return !sp_report_options_compare(o) && o->selection.latency == NULL &&
	       r->o->window.from_ns == o->window.from_ns && r->o->window.to_ns == o->window.to_ns &&
	       !is_in_use(o) && same(r->o->type, o->type) &&
	       same(r->selection.span_id, o->selection.span_id) &&
	       same(r->selection.span_name, o->selection.span_name);
}

void sp_reading_fini(struct sp_reading *r)
{
	free_paths(r->again);
	r->again = NULL;
	forget_last(r);
	sp_filter_use_fini(&r->filter);
	sp_slow_ids_fini(&r->slow_ids);
	sp_tree_fini(&r->tree);
	sp_tally_fini(&r->tally);
	sp_selection_fini(&r->selection);
}

const char *sp_reading_time_of(const struct sp_reading *r)
{
	const char *type = r->o->type != NULL ? r->o->type : "cpu";
	const char *time = sp_profile_type_row(sp_profile_type_find(type))->time;

	return time != NULL ? time : type;
}

/* A function gets a hint if it has at least one part in so many of the time. */
#define SP_HINT_SHARE 100

/* The name of the selected spans, if all have the same one; otherwise NULL. */
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
	if (x->latency != NULL)
		sp_text_out_put(&t, ", %s requests", x->latency);
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
	else if (r->selection.base_latency != NULL)
		sp_text_out_put(t, "; baseline: %.3f %s of requests that are \"%s\"",
				sp_report_amount(r->in_bytes, r->tally.base.ns),
				sp_report_unit(r->in_bytes), r->selection.base_latency);
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
	char filter[SP_DESCRIBE_TEXT];

	out[0] = '\0';
	put_time(&t, r);
	sp_text_out_put(&t, "%.3f %s %s, %" PRIu64 " %s, %zu %s, %zu %s",
			sp_report_amount(r->in_bytes, sums->total.ns), sp_report_unit(r->in_bytes),
			sp_reading_time_of(r), sums->total.samples,
			r->in_bytes ? "blocks" : "samples", sums->span.n,
			sums->span.n == 1 ? "span" : "spans", r->files,
			r->files == 1 ? "profile" : "profiles");
	if (r->passed != 0)
		sp_text_out_put(&t, "; passed over: %zu, the last is %.300s", r->passed, r->why);
	put_baseline(&t, r);
	sp_describe_filter(r, filter);
	if (filter[0] != '\0')
		sp_text_out_put(&t, "; %s", filter);
}

void sp_describe_filter(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT])
{
	const struct sp_filter *f = &r->o->filter;
	const struct sp_sum *all = &r->unfiltered;
	const struct sp_sum *shown = &r->tally.total;
	struct sp_text_out t = {out, SP_DESCRIBE_TEXT, 0};

	out[0] = '\0';
	if (!sp_filter_is_set(f))
		return;
	for (size_t i = 0; i < SP_FILTER_N; i++)
		if (f->text[i] != NULL)
			sp_text_out_put(&t, "%s--%s \"%.200s\"", t.len != 0 ? ", " : "",
					sp_filter_word((enum sp_filter_by)i), f->text[i]);
	sp_text_out_put(&t, ": %.3f of %.3f %s, %" PRIu64 " of %" PRIu64 " %s",
			sp_report_amount(r->in_bytes, shown->ns),
			sp_report_amount(r->in_bytes, all->ns), sp_report_unit(r->in_bytes),
			shown->samples, all->samples, r->in_bytes ? "blocks" : "samples");
	if (all->ns != 0)
		sp_text_out_put(&t, " (%.1f %%)", 100.0 * (double)shown->ns / (double)all->ns);
}

/*
 * If a function's name is an object and an address, "libm.so.6+0x702c0", the length of the object's
 * name; otherwise 0.
 */
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
 * Only functions with time of their own get a hint. Most programs have nameless callers at the root
 * of each stack, such as those of a thread pool, and a hint about them would be in every report.
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
