/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status of a process, as JSON: how much is sampled, sent and lost, and in sentences what is
 * wrong with it and what to do. It is always in a memory file of this exporter that is named after
 * the process, where programs of the same user find it in /proc (spanprof-report --status PID), and
 * in the file that SPANPROF_STATUS_FILE names. A reader sees the old status or the new one, never
 * half of one.
 *
 * Only this file has the sentences: spanprof-report prints them, and spanprof-doctor prints the
 * output of spanprof-report. Each sentence is beside its condition. They are in the order in which
 * a user should read them. A sentence is true whenever its condition holds, and no sentence tells
 * of a state that may be intended. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/loop/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "export/export.h"
#include "export/util/clock.h"
#include "export/util/containers.h"
#include "export/util/log.h"
#include "export/util/losses.h"
#include "export/util/user_file.h"
#include "sampler/config/config_table.h"

#define SP_START_LINE_BYTES 900

void sp_signal_name(int number, char out[SP_SIGNAL_NAME])
{
	const char *word = sp_config_signal_name(number);

	out[0] = '\0';
	if (word != NULL)
		(void)snprintf(out, SP_SIGNAL_NAME, "SIG%s", word);
	else if (number >= SIGRTMIN)
		(void)snprintf(out, SP_SIGNAL_NAME, "RTMIN+%d", number - SIGRTMIN);
	else if (number > 0)
		(void)snprintf(out, SP_SIGNAL_NAME, "%d", number);
}

static void put_aims(struct sp_text_out *l, const struct sp_config *c, const char *const address[],
		     unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sp_text_out_put(l, "%s%.*s", i == 0 ? ", pushing to " : " and ", 300 / (int)n,
				address[i]);
	if (c->output_dir != NULL)
		sp_text_out_put(l, ", writing into %.200s", c->output_dir);
}

static void put_sdks(struct sp_text_out *l, const struct sp_core_facts *f)
{
	for (uint32_t i = 0; i < f->sdks; i++) {
		sp_text_out_put(l, "; SDK %s", f->sdk[i].name);
		if (f->sdk[i].release[0] != '\0')
			sp_text_out_put(l, ", release %s", f->sdk[i].release);
		if (f->sdk[i].object[0] != '\0')
			sp_text_out_put(l, " in %s", f->sdk[i].object);
	}
	if (f->sdks != 0)
		return;
	if (f->thread_context != NULL && strcmp(f->thread_context, "read") == 0)
		sp_text_out_put(l, "; spans come from the program's thread context");
	else
		sp_text_out_put(l, "; no SDK has recorded a span so far");
}

bool sp_start_line_log(const struct sp_core_ops *ops, const char *const address[], unsigned n,
		       bool at_once)
{
	const struct sp_config *c = ops->config;
	char text[SP_START_LINE_BYTES];
	struct sp_text_out l = {text, sizeof(text), 0};
	struct sp_core_facts f;
	char signal[SP_SIGNAL_NAME];

	if (c->log_level < SP_LOG_INFO)
		return true;
	ops->facts(ops->arg, &f);
	if (f.sdks == 0 && !at_once)
		return false;
	sp_signal_name(f.signal_number, signal);
	sp_text_out_put(&l, "profiling %" PRIu32 " as %.200s, %" PRIu32 " Hz", ops->pid,
			c->service_name, c->sample_rate_hz);
	if (signal[0] != '\0')
		sp_text_out_put(&l, ", %s", signal);
	put_aims(&l, c, address, n);
	put_sdks(&l, &f);
	ops->log(ops->arg, SP_LOG_INFO, text);
	return true;
}

#define PROBLEM_BYTES 700
#define SKEW_MAX_MS 600000
#define MINUTE_MS 60000U
/* Fewer samples outside of spans prove nothing: the program may have just begun. */
#define SAMPLES_ENOUGH 20U
/* At most this many objects without names or lines are listed. */
#define OBJECTS_MAX 20U
/* Linux 6.3: a memory file that can never be made executable. A machine may allow no others. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

struct sp_status {
	const struct sp_core_ops *ops;
	char path[PATH_MAX]; /* "" = no file is wanted */
	int memory;          /* the memory file; -1 = none */
	bool is_hidden;      /* the process has ended, so no reader looks for it by its number */
	uint64_t written;    /* a hash of the facts that the memory file shows */
	struct sp_export_log_site said;
};

/*
 * %p is replaced by the process id, so that forked children have files of their own. False: the
 * result is too long.
 */
static bool expand(char *out, size_t cap, const char *path, uint32_t pid)
{
	size_t n = 0;
	int len;

	for (; *path != '\0' && n < cap; path++) {
		if (path[0] == '%' && path[1] == 'p') {
			len = snprintf(out + n, cap - n, "%" PRIu32, pid);
			n += len > 0 ? (size_t)len : 0;
			path++;
		} else {
			out[n++] = *path;
		}
	}
	if (n < cap)
		out[n] = '\0';
	return n < cap;
}

struct sp_status *sp_status_new(const struct sp_core_ops *ops)
{
	struct sp_status *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->ops = ops;
	s->memory = -1;
	if (ops->config->status_file == NULL ||
	    expand(s->path, sizeof(s->path), ops->config->status_file, ops->pid))
		return s;
	s->path[0] = '\0';
	sp_export_log(ops, SP_LOG_WARN, "SPANPROF_STATUS_FILE: the path is too long; ignored");
	return s;
}

void sp_status_hide(struct sp_status *s)
{
	if (s == NULL)
		return;
	if (s->memory >= 0)
		(void)close(s->memory);
	s->memory = -1;
	s->is_hidden = true;
}

void sp_status_free(struct sp_status *s)
{
	sp_status_hide(s);
	free(s);
}

static json_t *number(uint64_t n)
{
	return json_integer(n <= INT64_MAX ? (json_int_t)n : INT64_MAX);
}

/* Untrusted text: a server's message, a name from the environment. */
static json_t *text(const char *s)
{
	char clean[1024];

	if (s == NULL)
		return json_null();
	sp_export_log_clean(clean, sizeof(clean), s, strlen(s));
	return json_string(clean);
}

static json_t *counter(const struct sp_core_ops *ops, enum sp_counter c)
{
	return number(ops->counter_read(ops->arg, c));
}

static json_t *losses(const struct sp_core_ops *ops)
{
	static const char *const name[] = {
#define SP_NAME_(id, text_, is_loss) [SP_COUNT_##id] = (is_loss) == 1 ? (text_) : NULL,
		SP_FOR_EACH_COUNTER(SP_NAME_)
#undef SP_NAME_
	};
	json_t *all = json_object();

	for (unsigned i = 0; i < SP_COUNTER_N; i++)
		if (name[i] != NULL)
			json_object_set_new(all, name[i], counter(ops, (enum sp_counter)i));
	return all;
}

static json_t *unknowns(const struct sp_core_facts *f, unsigned sdk)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < f->sdk[sdk].unknowns; i++)
		json_array_append_new(list, json_pack("{s:o, s:o}", "fact",
						      text(f->sdk[sdk].unknown[i].fact), "instead",
						      text(f->sdk[sdk].unknown[i].instead)));
	return list;
}

static json_t *known(const char *word)
{
	return word[0] != '\0' ? text(word) : json_null();
}

static json_t *sdks(const struct sp_core_facts *f)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < f->sdks; i++)
		json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
						      text(f->sdk[i].name), "release",
						      known(f->sdk[i].release), "method",
						      text(f->sdk[i].method), "object",
						      known(f->sdk[i].object), "instances",
						      number(f->sdk[i].instances), "spans_started",
						      number(f->sdk[i].spans_started),
						      "not_understood", unknowns(f, i)));
	return list;
}

static json_t *push(const struct sp_status_server *s)
{
	const struct sp_push_results *n = s->results;

	return json_pack("{s:o, s:i, s:o, s:o, s:o, s:o}", "address", text(s->address),
			 "last_status", n->last_status, "last_error", text(n->last_error),
			 "last_success_unix_ms",
			 n->last_success_ms != 0 ? json_integer(n->last_success_ms) : json_null(),
			 "attempts", number(n->attempts), "server_time_skew_ms",
			 n->has_skew ? json_integer(n->skew_ms) : json_null());
}

/* If there are several servers, the counts of this process at each of them. */
static json_t *pushes(const struct sp_status_input *in)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < in->servers; i++) {
		const struct sp_delivery *d = in->server[i].delivery;
		json_t *one = push(&in->server[i]);

		json_object_set_new(one, "samples_sent", number(d->samples_sent));
		json_object_set_new(one, "samples_lost", number(d->samples_lost));
		json_object_set_new(one, "waits_sent", number(d->waits_sent));
		json_object_set_new(one, "waits_lost", number(d->waits_lost));
		json_array_append_new(list, one);
	}
	return list;
}

/* The name that SPANPROF_SIGNAL takes, or null. */
static json_t *signal_name(int number)
{
	char name[SP_SIGNAL_NAME];

	sp_signal_name(number, name);
	return name[0] != '\0' ? json_string(name) : json_null();
}

static json_t *off_cpu(const struct sp_core_ops *ops, const struct sp_off_cpu_results *n)
{
	if (n == NULL)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "waits", counter(ops, SP_COUNT_WAITS),
			 "sent", counter(ops, SP_COUNT_WAITS_SENT), "lost",
			 counter(ops, SP_COUNT_WAITS_UNSENT), "time_ns", number(n->ns),
			 "threads_in_spans", number(n->threads), "no_stacks_because",
			 text(n->refusal));
}

/* reason: a word for programs; text and remedy: for people. */
static const struct {
	const char *reason;
	const char *text;
	const char *remedy; /* NULL = no remedy is known */
} lacks[SP_LACKS] = {
	[SP_LACK_DEBUG_FILE] = {"debug_file_not_found",
				"its debug information is in a separate file, which was not found",
				"install its debug symbols (the -dbgsym, -dbg or -debuginfo "
				"package), or set DEBUGINFOD_URLS"},
	[SP_LACK_DEBUG_INFO] = {"no_debug_info",
				"it has no debug information, and no build id to find it by",
				"build it with -g and -Wl,--build-id, and do not strip it"},
	[SP_LACK_OVER_LIMIT] = {"over_limit",
				"its debug information is compressed, and unpacked too large",
				"do not compress the debug information (-gz=none)"},
	[SP_LACK_PACKED] = {"zstd",
			    "its debug information is packed with zstd, which this libelf cannot "
			    "read",
			    "build it with -gz=zlib, or install elfutils 0.192"},
	[SP_LACK_PARTS] = {"split",
			   "its debug information is in a .dwp file, which this libdw cannot read, "
			   "or its .dwo files are gone",
			   "keep the .dwo files beside it, build without -gsplit-dwarf, or install "
			   "elfutils 0.192"},
	[SP_LACK_DAMAGED] = {"damaged", "its debug information cannot be read", NULL},
	[SP_LACK_FILE] = {"file_gone", "its file is gone, or cannot be read as ELF",
			  "keep the file as long as it is in use"},
	[SP_LACK_RIGHTS] = {"no_rights", "its file may not be read by the user of the process",
			    "let that user read the file"},
	[SP_LACK_SAME_FILE] = {"file_changed",
			       "another file has taken its place, or it was "
			       "overwritten",
			       "replace files by rename, and start the program again"},
	[SP_LACK_MAP] = {"generated_code",
			 "generated at run time, and there is no /tmp/perf-PID.map",
			 "let the runtime write one (node --perf-basic-prof, python -X perf)"},
};

static json_t *build_id(const struct sp_missing_object *o)
{
	char hex[2 * SP_BUILD_ID_MAX + 1] = "";

	for (size_t i = 0; i < o->build_id_len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", o->build_id[i]);
	return o->build_id_len != 0 ? json_string(hex) : json_null();
}

/* The objects with the largest times, and the time of all others. */
static json_t *missing(const struct sp_missing *m)
{
	json_t *list = json_array();
	uint64_t others_ns = m->other_ns;
	uint64_t others = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct sp_missing_object *o = &m->object[i];

		/* The debug file of the object may have been found meanwhile. */
		if (o->lack == SP_LACK_NOTHING)
			continue;
		if (json_array_size(list) == OBJECTS_MAX) {
			others++;
			others_ns += o->ns;
			continue;
		}
		json_array_append_new(
			list, json_pack("{s:o, s:o, s:o, s:o, s:b, s:s, s:o, s:o}", "object",
					text(o->file), "build_id", build_id(o), "cpu_ns",
					number(o->ns), "unnamed_cpu_ns", number(o->unnamed_ns),
					"has_unnamed_functions", o->has_unnamed, "reason",
					lacks[o->lack].reason, "text", text(lacks[o->lack].text),
					"remedy", text(lacks[o->lack].remedy)));
	}
	return json_pack("{s:o, s:o, s:o, s:o}", "cpu_ns", number(m->ns), "objects", list, "others",
			 number(others), "others_cpu_ns", number(others_ns));
}

/* The facts that the sentences use, and the list that they are added to. */
struct view {
	const struct sp_core_ops *ops;
	const struct sp_core_facts *facts;
	const struct sp_status_input *in;
	const struct sp_core_cpu *cpu;
	json_t *list;
};

/* fmt describes the problem; remedy NULL = no remedy is known. */
static SP_PRINTF(3, 4) void problem(const struct view *v, const char *remedy, const char *fmt, ...)
{
	char sentence[PROBLEM_BYTES];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(sentence, sizeof(sentence), fmt, args);
	va_end(args);
	json_array_append_new(
		v->list, json_pack("{s:o, s:o}", "text", text(sentence), "remedy", text(remedy)));
}

static void sampling_stopped(const struct view *v)
{
	uint64_t filters = v->ops->counter_read(v->ops->arg, SP_COUNT_SECCOMP_STOPPED);

	if (v->facts->sampling)
		return;
	if (filters == 0 && v->facts->confined != NULL)
		problem(v, NULL,
			"the exporter has stopped serving this process, which is more confined "
			"than "
			"the exporter: %s",
			v->facts->confined);
	else if (filters != 0)
		problem(v, NULL,
			"profiling has stopped for good: the program installed a seccomp filter");
	else if (v->ops->counter_read(v->ops->arg, SP_COUNT_SIGNAL_TAKEN) == 0)
		problem(v, "look for \"spanprof[\" on its stderr, which says why",
			"profiling has stopped in this process");
}

/* The service that the variables name, as an SDK reads them. "" = none. */
static void name_service_by_variables(const struct sp_config *c, char *out, size_t cap)
{
	const char *variable = getenv("OTEL_SERVICE_NAME");
	const char *attributes = c->resource_attributes;
	struct sp_config_resource r = {.service_name = variable};
	char *buf = NULL;

	if (variable == NULL || variable[0] == '\0') {
		buf = attributes != NULL ? malloc(strlen(attributes) + 2) : NULL;
		r.service_name = NULL;
		if (buf != NULL)
			(void)sp_config_resource_read(attributes, NULL, buf, &r);
	}
	(void)snprintf(out, cap, "%s", r.service_name != NULL ? r.service_name : "");
	free(buf);
}

/*
 * The service that the program has given its SDK in code: the spans have this service. "" =
 * unknown.
 */
static const char *service_in_code(const struct view *v)
{
	for (unsigned i = 0; i < v->facts->sdks; i++)
		if (v->facts->sdk[i].service[0] != '\0')
			return v->facts->sdk[i].service;
	return "";
}

/* A link from a span leads to the profiles of the span's service, so both should have the same. */
static void services_differ(const struct view *v)
{
	const struct sp_config *c = v->ops->config;
	const char *code = service_in_code(v);
	char variables[512];
	const char *spans;

	name_service_by_variables(c, variables, sizeof(variables));
	spans = code[0] != '\0' ? code : variables;
	if (spans[0] != '\0' && strcmp(spans, c->service_name) != 0)
		problem(v,
			"give both the same name: remove SPANPROF_APPLICATION_NAME, "
			"PYROSCOPE_APPLICATION_NAME and OTEL_PYROSCOPE_APP_NAME, or set them to "
			"that of "
			"the spans",
			"the profiles have the service \"%.200s\", the spans \"%.200s\"",
			c->service_name, spans);
	else if (strncmp(c->service_name, SP_CONFIG_UNKNOWN_SERVICE,
			 sizeof(SP_CONFIG_UNKNOWN_SERVICE) - 1) == 0)
		problem(v, "set OTEL_SERVICE_NAME to the service.name of the spans",
			"no service name is set, so the profiles have the service \"%.200s\"",
			c->service_name);
	else if (variables[0] != '\0' && strcmp(variables, spans) != 0)
		problem(v,
			"look for that service, or have the program leave its name to "
			"OTEL_SERVICE_NAME",
			"the environment names the service \"%.200s\", but the program gives its "
			"SDK the name \"%.200s\", "
			"which its spans and profiles have",
			variables, spans);
}

/* The log has the same sentence once (preload/lifecycle/allocations.c). */
static void allocations_untold(const struct view *v)
{
	if (!v->ops->config->alloc)
		return;
	if (v->facts->allocations == SP_ALLOCATIONS_ABSENT)
		problem(v,
			"set LD_PRELOAD to \"libspanprof.so libspanprof-alloc.so\", with the "
			"folder "
			"that both are in, or use spanprof-run --alloc",
			"SPANPROF_ALLOC is set, and libspanprof-alloc.so is not loaded: no profile "
			"of allocations");
	else if (v->facts->allocations == SP_ALLOCATIONS_SANITIZED)
		problem(v, NULL,
			"the program has a sanitizer, whose allocator is not replaced: no profile "
			"of "
			"allocations");
	else if (v->facts->allocations == SP_ALLOCATIONS_HIDDEN)
		problem(v,
			"if that is preloaded, name it behind libspanprof-alloc.so in LD_PRELOAD",
			"the program has an allocator of its own in front of "
			"libspanprof-alloc.so: no profile of allocations");
}

static void threads_unseen(const struct view *v)
{
	const uint32_t n = v->facts->threads_unseen;

	if (n == 0 || !v->facts->sampling)
		return;
	problem(v,
		v->facts->signal_number != SP_ROUSING_SIGNAL
			? "remove SPANPROF_SIGNAL, so that the exporter can have their timers made"
			: "have the program start a span or a thread now and then, or open the "
			  "library without RTLD_DEEPBIND",
		"%" PRIu32
		" thread%s not sampled: %s calls do not pass the profiler's hooks, as in a "
		"library that was opened with RTLD_DEEPBIND",
		n, n == 1 ? " is" : "s are", n == 1 ? "its" : "their");
}

/* A fact is not mentioned if another mechanism gives the same result (is_harmless). */
static void sdk_not_understood(const struct view *v)
{
	const struct sp_core_facts *f = v->facts;

	for (unsigned i = 0; i < f->sdks; i++)
		for (unsigned j = 0; j < f->sdk[i].unknowns; j++)
			if (f->sdk[i].unknown[j].is_limit)
				problem(v, "let its plugins share one library of the SDK",
					"%s: %s, %s", f->sdk[i].name, f->sdk[i].unknown[j].fact,
					f->sdk[i].unknown[j].instead);
			else if (!f->sdk[i].unknown[j].is_harmless)
				problem(v,
					"use a newer spanprof, or a release of the SDK that this "
					"one knows",
					"%s: %s not understood, %s", f->sdk[i].name,
					f->sdk[i].unknown[j].fact, f->sdk[i].unknown[j].instead);
}

static void no_span_at_work(const struct view *v)
{
	const struct sp_config *c = v->ops->config;
	bool reads =
		v->facts->thread_context != NULL && strcmp(v->facts->thread_context, "read") == 0;

	if (v->in->with_span != 0 || v->in->without_span < SAMPLES_ENOUGH)
		return;
	/*
	 * If samples get neither span id nor span name, they do not show whether they are in spans.
	 * Thread contexts of another library have no span names.
	 */
	if (c->span_id_scope == SP_SCOPE_NONE && (c->span_name_scope == SP_SCOPE_NONE || reads))
		return;
	if (v->ops->counter_read(v->ops->arg, SP_COUNT_SPANS_STARTED) != 0 || reads)
		problem(v, "attach the spans on the threads that do the work",
			"%" PRIu64 " samples were taken, none of them in a span",
			v->in->without_span);
	else
		problem(v,
			"look with spanprof-run --check whether its SDK can be hooked, and at the "
			"sampler of its traces (OTEL_TRACES_SAMPLER, or in its code)",
			"%" PRIu64 " samples were taken, and no span was recorded",
			v->in->without_span);
}

static bool has_skew(const struct sp_push_results *n)
{
	return n->has_skew && (n->skew_ms > SKEW_MAX_MS || n->skew_ms < -SKEW_MAX_MS);
}

static void push_fails_at(const struct view *v, const struct sp_status_server *s)
{
	const struct sp_push_results *n = s->results;
	const char *remedy = n->last_error + n->remedy_at;
	bool is_one = v->in->servers == 1;

	if (n->last_error[0] != '\0')
		problem(v, remedy[0] != '\0' ? remedy + strlen("; ") : NULL,
			"the last push to %.200s failed: %.*s", s->address, (int)n->remedy_at,
			n->last_error);
	else if (has_skew(n))
		problem(v, "set the clocks", "the %s%.200s is %" PRId64 " s %s this one",
			is_one ? "server's clock" : "clock of ", is_one ? "" : s->address,
			(n->skew_ms < 0 ? -n->skew_ms : n->skew_ms) / 1000,
			n->skew_ms < 0 ? "behind" : "ahead of");
}

static void push_fails(const struct view *v)
{
	for (unsigned i = 0; i < v->in->servers; i++)
		push_fails_at(v, &v->in->server[i]);
}

/*
 * A missing folder is made with the first profile, so it is a problem only after a failure. A
 * failure of an earlier write may be over, so the folder is checked now.
 */
static void folder_closed(const struct view *v)
{
	const char *folder = v->ops->config->output_dir;
	int failed = v->in->file_error;
	struct stat st;
	int err = 0;

	if (folder == NULL)
		return;
	if (stat(folder, &st) == 0 && !S_ISDIR(st.st_mode))
		err = ENOTDIR;
	else if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
		err = errno;
	if (err != 0 && (failed != 0 || err != ENOENT))
		problem(v, "give the program's user a folder to write to in SPANPROF_OUTPUT_DIR",
			"profiles cannot be written into %.400s by the program's user: %s", folder,
			err != ENOENT ? strerror(err) : sp_user_file_error(failed));
	else if (failed != 0)
		problem(v, failed == -ENOSPC || failed == -EDQUOT ? "make room there" : NULL,
			"the last profile could not be written into %.400s: %s", folder,
			sp_user_file_error(failed));
}

/*
 * Debug information that the build put into the file, and that our libraries cannot read. Most
 * objects of a system have no debug information, which is no fault.
 */
static void debug_info_unread(const struct view *v)
{
	const struct sp_missing *m = v->in->missing;

	for (size_t i = 0; i < m->n; i++) {
		enum sp_lack lack = m->object[i].lack;

		if (lack != SP_LACK_PACKED && lack != SP_LACK_PARTS && lack != SP_LACK_OVER_LIMIT)
			continue;
		problem(v, lacks[lack].remedy,
			"functions of %.300s have no lines, and what is inlined into them is not "
			"seen: %s",
			m->object[i].file, lacks[lack].text);
		return;
	}
}

static void waits_without_stacks(const struct view *v)
{
	if (v->in->waits != NULL && v->in->waits->refusal != NULL)
		problem(v, "make the process dumpable, and let its own user trace it",
			"waits have no stacks: %s", v->in->waits->refusal);
}

static void losses_with_remedy(const struct view *v)
{
	for (size_t i = 0; i < sp_loss_words_n; i++) {
		const struct sp_loss_words *w = &sp_loss_words[i];
		uint64_t n = v->ops->counter_read(v->ops->arg, w->counter);

		if (n != 0 && w->remedy != NULL)
			problem(v, w->remedy, "%" PRIu64 " %s", n, sp_loss_words_for(w, n));
	}
}

/* Up to this share of the CPU time is missing in most programs. */
#define MISSING_PERCENT 3U
#define MISSING_LEAST_NS SP_NS_PER_MS

static bool is_much(uint64_t ns, uint64_t of_ns)
{
	return ns >= MISSING_LEAST_NS && ns / MISSING_PERCENT >= of_ns / 100;
}

static const struct {
	const char *word, *one, *more, *remedy; /* for one process, for several */
} unprofiled[] = {
	[SP_UNPROFILED_NOT] = {"", "", "", NULL},
	[SP_UNPROFILED_ENVIRONMENT] =
		{"environment", "LD_PRELOAD is not in its environment",
		 "LD_PRELOAD is not in their environment",
		 "let the program that executes it keep LD_PRELOAD and the variables that begin "
		 "with SPANPROF_"},
	[SP_UNPROFILED_SECURE] = {"secure",
				  "its loader ignores LD_PRELOAD, because it has other rights",
				  "their loader ignores LD_PRELOAD, because they have other rights",
				  NULL},
	[SP_UNPROFILED_STATIC] = {"static", "it is static", "they are static", NULL},
	[SP_UNPROFILED_OTHER] = {"other", "its loader has not loaded it",
				 "their loader has not loaded it", NULL},
	[SP_UNPROFILED_UNSEEN] = {"unseen", "the exporter may not look into it",
				  "the exporter may not look into them", NULL},
};

static uint64_t cpu_of_all(const struct sp_core_cpu *c)
{
	uint64_t ns = c->own_ns + c->waited_ns;

	for (unsigned i = 0; i < c->programs; i++)
		ns += c->program[i].ns;
	return ns;
}

static void put_program(struct sp_text_out *l, const struct sp_core_program *p)
{
	bool one = p->processes == 1;

	sp_text_out_put(l,
			"%" PRIu32
			" process%s of \"%.15s\" %s without the profiler (%s): %.2f s of CPU time",
			p->processes, one ? "" : "es", p->name,
			p->why == SP_UNPROFILED_UNSEEN ? "may run"
			: one                          ? "runs"
						       : "run",
			one ? unprofiled[p->why].one : unprofiled[p->why].more,
			(double)p->ns / 1e9);
}

static void children_without_profiler(const struct view *v)
{
	const struct sp_core_cpu *c = v->cpu;

	for (unsigned i = 0; i < c->programs; i++) {
		char words[PROBLEM_BYTES] = "";
		struct sp_text_out l = {words, sizeof(words), 0};

		put_program(&l, &c->program[i]);
		if (is_much(c->program[i].ns, cpu_of_all(c)))
			problem(v, unprofiled[c->program[i].why].remedy, "%s", words);
	}
}

/* The log mentions only programs that used at least this much CPU time. */
#define TOLD_LEAST_NS SP_NS_PER_S

bool sp_children_log(const struct sp_core_ops *ops)
{
	char words[PROBLEM_BYTES] = "";
	struct sp_text_out l = {words, sizeof(words), 0};
	struct sp_core_cpu c;

	ops->cpu(ops->arg, &c);
	for (unsigned i = 0; i < c.programs && l.len == 0; i++) {
		const struct sp_core_program *p = &c.program[i];

		if (p->why == SP_UNPROFILED_UNSEEN || p->ns < TOLD_LEAST_NS ||
		    !is_much(p->ns, cpu_of_all(&c)))
			continue;
		put_program(&l, p);
		sp_export_log(ops, SP_LOG_WARN, "%s%s%s", words,
			      unprofiled[p->why].remedy != NULL ? "; " : "",
			      unprofiled[p->why].remedy != NULL ? unprofiled[p->why].remedy : "");
	}
	return l.len != 0;
}

static void children_unseen(const struct view *v)
{
	const struct sp_core_cpu *c = v->cpu;

	if (is_much(c->unknown_ns, cpu_of_all(c)))
		problem(v, NULL,
			"processes that it has started used %.2f s of CPU time and ended before "
			"they were looked at: a program that was executed with the profiler has "
			"profiles of its own, without the time of exec, loader and exit, and a "
			"process of a few milliseconds may have none",
			(double)c->unknown_ns / 1e9);
}

/*
 * Whether much of the process's own CPU time is missing: this part of it together with all other
 * missing parts. Only of an ended process are all samples taken, so only then the other parts
 * count.
 */
static bool is_much_missing(const struct view *v, uint64_t part_ns)
{
	const struct sp_core_cpu *c = v->cpu;
	uint64_t profiled = v->in->profiled_ns;
	bool is_over = profiled != UINT64_MAX && strcmp(v->in->state, "ending") == 0;
	uint64_t all = is_over && c->own_ns > profiled ? c->own_ns - profiled : 0;

	return part_ns >= MISSING_LEAST_NS && is_much(all > part_ns ? all : part_ns, c->own_ns);
}

/* With SPANPROF_PROFILE=span, profiling begins with the first span on purpose. */
static void began_late(const struct view *v)
{
	if (v->ops->config->profile == SP_PROFILE_ALWAYS && is_much_missing(v, v->cpu->before_ns))
		problem(v, NULL,
			"%.3f s of its CPU time were used before profiling began: by exec, the "
			"loader, constructors of libraries, or the program that executed this one",
			(double)v->cpu->before_ns / 1e9);
}

/*
 * The CPU time that a thread may have used since its last sample. The kernel checks timers only at
 * its ticks, so that may be longer than a sampling period.
 */
static uint64_t longest_ns(const struct sp_config *c)
{
	uint64_t period = SP_NS_PER_S / c->sample_rate_hz;
	struct timespec tick = {.tv_sec = 0};

	(void)clock_getres(CLOCK_REALTIME_COARSE, &tick);
	return (uint64_t)tick.tv_nsec > period ? (uint64_t)tick.tv_nsec : period;
}

static void ends_untold(const struct view *v)
{
	const struct sp_core_cpu *c = v->cpu;
	uint64_t longest = longest_ns(v->ops->config);
	uint64_t told = v->in->profiled_ns + c->before_ns;

	if (c->is_cut_off && is_much(v->facts->threads_armed * longest, c->own_ns))
		problem(v, NULL,
			"it ended by a system call of its own, or by a signal: what each of its "
			"%" PRIu32 " threads used since its last sample, up to %.0f ms, is in no "
			"profile",
			v->facts->threads_armed, (double)longest / 1e6);
	else if (v->in->profiled_ns != UINT64_MAX && strcmp(v->in->state, "ending") == 0 &&
		 v->ops->config->profile == SP_PROFILE_ALWAYS && c->own_ns > told &&
		 is_much_missing(v, c->own_ns - told))
		problem(v, NULL, "%.3f s of its CPU time are in no profile",
			(double)(c->own_ns - told) / 1e9);
}

static json_t *unprofiled_programs(const struct sp_core_cpu *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->programs; i++)
		json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:s}", "program",
						      text(c->program[i].name), "processes",
						      number(c->program[i].processes), "cpu_ns",
						      number(c->program[i].ns), "why",
						      unprofiled[c->program[i].why].word));
	return list;
}

static json_t *cpu_time(const struct view *v)
{
	const struct sp_core_cpu *c = v->cpu;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "process_ns", number(c->own_ns),
			 "before_ns", number(c->before_ns), "profiled_ns",
			 v->in->profiled_ns != UINT64_MAX ? number(v->in->profiled_ns)
							  : json_null(),
			 "children_ns", number(c->waited_ns), "children_unseen_ns",
			 number(c->unknown_ns), "without_profiler", unprofiled_programs(c));
}

static json_t *problems(const struct view *v)
{
	static void (*const all[])(const struct view *v) = {
		sampling_stopped,     sdk_not_understood, no_span_at_work,
		push_fails,           folder_closed,      services_differ,
		allocations_untold,   threads_unseen,     losses_with_remedy,
		waits_without_stacks, debug_info_unread,  children_without_profiler,
		children_unseen,      began_late,         ends_untold,
	};

	for (size_t i = 0; i < SP_ARRAY_LEN(all); i++)
		all[i](v);
	return v->list;
}

static json_t *document(const struct sp_core_ops *ops, const struct sp_core_facts *f,
			const struct sp_status_input *in, const struct sp_core_cpu *cpu)
{
	const struct view v = {ops, f, in, cpu, json_array()};
	json_t *root = json_object();

	json_object_set_new(root, "version", text(ops->version));
	json_object_set_new(root, "pid", number(ops->pid));
	json_object_set_new(root, "service", text(ops->config->service_name));
	json_object_set_new(root, "state", text(f->sampling ? in->state : "stopped"));
	json_object_set_new(root, "problems", problems(&v));
	json_object_set_new(root, "upload_interval_ms", number(ops->config->upload_interval_ms));
	json_object_set_new(root, "sdks", sdks(f));
	json_object_set_new(root, "signal", signal_name(f->signal_number));
	json_object_set_new(root, "threads",
			    json_pack("{s:o, s:o, s:o, s:o}", "armed", number(f->threads_armed),
				      "unarmed", number(f->threads_unarmed), "over_limit",
				      number(f->threads_limit), "refused",
				      number(f->threads_refused)));
	json_object_set_new(root, "samples",
			    json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "put",
				      counter(ops, SP_COUNT_SAMPLES_PUT), "drained",
				      counter(ops, SP_COUNT_SAMPLES_DRAINED), "unsampled",
				      counter(ops, SP_COUNT_UNSAMPLED_DRAINED), "with_span",
				      number(in->with_span), "without_span",
				      number(in->without_span), "sent",
				      counter(ops, SP_COUNT_SAMPLES_SENT)));
	json_object_set_new(
		root, "spans",
		json_pack("{s:o, s:o, s:o, s:o}", "started", counter(ops, SP_COUNT_SPANS_STARTED),
			  "ended", counter(ops, SP_COUNT_SPANS_ENDED), "open",
			  number(f->spans_open), "aged", counter(ops, SP_COUNT_SPANS_AGED)));
	json_object_set_new(root, "cpu_time", cpu_time(&v));
	json_object_set_new(root, "off_cpu", off_cpu(ops, in->waits));
	json_object_set_new(root, "thread_context", text(f->thread_context));
	json_object_set_new(root, "missing_names", missing(in->missing));
	json_object_set_new(root, "loss", losses(ops));
	json_object_set_new(root, "push", in->servers != 0 ? push(&in->server[0]) : json_null());
	if (in->servers > 1)
		json_object_set_new(root, "pushes", pushes(in));
	return root;
}

static int replace(const struct sp_status *s, const char *data)
{
	struct sp_user_place p;
	char temp[NAME_MAX + 1];
	int err = sp_user_file_find(s->path, &p);
	int len;

	if (err != 0)
		return err;
	/*
	 * Other processes may write the same file; after an exec the process has another exporter,
	 * beside the former one.
	 */
	len = snprintf(temp, sizeof(temp), "%s.%" PRIu32 ".%d.tmp", p.name, s->ops->pid, getpid());
	err = len > 0 && (size_t)len < sizeof(temp) ? 0 : -ENAMETOOLONG;
	if (err == 0)
		err = sp_user_file_replace(p.folder, p.name, temp, data, strlen(data), 0644);
	close(p.folder);
	return err;
}

/*
 * Writes a new memory file and gives it the descriptor number of the old one. It is sealed, because
 * programs of the same user could otherwise write to it. A failure is not logged: the status may be
 * in a file as well.
 */
static void remember(struct sp_status *s, const char *data)
{
	const unsigned seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	char name[sizeof(SP_STATUS_MEMORY) + 16];
	size_t len = strlen(data);
	int fd;

	(void)snprintf(name, sizeof(name), SP_STATUS_MEMORY "%" PRIu32, s->ops->pid);
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return;
	if (write(fd, data, len) != (ssize_t)len || fcntl(fd, F_ADD_SEALS, seals) != 0 ||
	    (s->memory >= 0 && dup3(fd, s->memory, O_CLOEXEC) < 0)) {
		(void)close(fd);
		return;
	}
	if (s->memory >= 0)
		(void)close(fd);
	else
		s->memory = fd;
}

/*
 * The results of all processes of the exporter. As long as pushes succeed, each push changes only the
 * time of the last success, the number of tries, and the clock difference by milliseconds: these
 * may be a minute old.
 */
static uint64_t hash_of_results(const struct sp_push_results *n)
{
	bool fails = n->last_error[0] != '\0';
	uint64_t hash = sp_hash_add_bytes(0, n->last_error, strlen(n->last_error));

	hash = sp_hash_add(sp_hash_add(hash, (uint64_t)n->last_status), fails ? n->attempts : 0);
	hash = sp_hash_add(hash, (uint64_t)n->last_success_ms / MINUTE_MS);
	return sp_hash_add(hash, has_skew(n));
}

static uint64_t hash_of_server(uint64_t hash, const struct sp_status_server *s)
{
	hash = sp_hash_add(hash, hash_of_results(s->results));
	return s->delivery != NULL ? sp_hash_add_bytes(hash, s->delivery, sizeof(*s->delivery))
				   : hash;
}

/*
 * Hundreds of idle processes must cost nothing: a status that would be the same is not made again,
 * and only the time of the memory file is updated.
 */
static bool is_unchanged(struct sp_status *s, const struct sp_core_facts *f,
			 const struct sp_status_input *in, const struct sp_core_cpu *cpu)
{
	uint64_t before = s->written;
	uint64_t hash =
		sp_hash_add_bytes(sp_hash_add(in->with_span, in->without_span), f, sizeof(*f));

	hash = sp_hash_add(sp_hash_add_bytes(hash, cpu, sizeof(*cpu)), in->profiled_ns);
	hash = sp_hash_add(hash, (unsigned char)in->state[0]);
	hash = sp_hash_add(hash, (uint64_t)-in->file_error);
	hash = sp_hash_add(hash, in->missing->changes);
	for (unsigned i = 0; i < in->servers; i++)
		hash = hash_of_server(hash, &in->server[i]);
	if (in->waits != NULL)
		hash = sp_hash_add(sp_hash_add(hash, in->waits->ns), in->waits->refusal != NULL);
	for (unsigned c = 0; c < SP_COUNTER_N; c++)
		hash = sp_hash_add(hash, s->ops->counter_read(s->ops->arg, (enum sp_counter)c));
	s->written = hash;
	return hash == before && s->memory >= 0 && s->path[0] == '\0' &&
	       futimens(s->memory, NULL) == 0;
}

int sp_status_write(struct sp_status *s, const struct sp_status_input *in)
{
	struct sp_core_facts f;
	struct sp_core_cpu cpu;
	json_t *root;
	char *data;
	int err = 0;

	if (s == NULL || (s->is_hidden && s->path[0] == '\0'))
		return 0;
	s->ops->facts(s->ops->arg, &f);
	s->ops->cpu(s->ops->arg, &cpu);
	/*
	 * The process ended abruptly, maybe long after its clock was read for the last time, and
	 * has used at least the time that is in profiles.
	 */
	if (cpu.is_cut_off && in->profiled_ns != UINT64_MAX &&
	    cpu.own_ns < in->profiled_ns + cpu.before_ns)
		cpu.own_ns = in->profiled_ns + cpu.before_ns;
	if (is_unchanged(s, &f, in, &cpu))
		return 0;
	/*
	 * Writing the status needs the rights of the process: it checks folders, and the file has a
	 * name that the host gave.
	 */
	if (!s->ops->may_open(s->ops->arg))
		return -EPERM;
	root = document(s->ops, &f, in, &cpu);
	data = json_dumps(root, JSON_INDENT(1) | JSON_ENSURE_ASCII);
	json_decref(root);
	if (data == NULL)
		err = -ENOMEM;
	if (err == 0 && !s->is_hidden)
		remember(s, data);
	if (err == 0 && s->path[0] != '\0')
		err = replace(s, data);
	free(data);
	if (err != 0)
		sp_export_log_limited(s->ops, &s->said, sp_clock_mono_ns(),
				      "cannot write the status file %s: %s", s->path,
				      sp_user_file_error(err));
	return err;
}
