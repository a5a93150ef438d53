/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status of a process, as JSON: what is sampled, sent and lost, and in sentences what is wrong with it
 * and what to do. It is always in a memory file of this exporter that is named after the process, where
 * programs of the same user find it in /proc (spanprof-report --status PID), and in the file that
 * SPANPROF_STATUS_FILE names. A reader sees the old status or the new one, never half of one.
 *
 * The sentences exist here alone: spanprof-report prints them, and spanprof-doctor prints what it prints.
 * Each is beside its condition, in the order in which somebody should read them. A sentence is true whenever
 * its condition holds, also where nobody asked: what may be as it should be is not told.
 * Context: the exporter.
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

static void put_aims(struct sp_text_out *l, const struct sp_config *c, const char *address)
{
	if (address != NULL)
		sp_text_out_put(l, ", pushing to %.300s", address);
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

bool sp_start_line_tell(const struct sp_core_ops *ops, const char *address, bool at_once)
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
	put_aims(&l, c, address);
	put_sdks(&l, &f);
	ops->log(ops->arg, SP_LOG_INFO, text);
	return true;
}

#define PROBLEM_BYTES 700
#define SKEW_MAX_MS 600000
#define MINUTE_MS 60000U
/* Fewer samples than these may be outside of spans by chance: the program may have just begun. */
#define SAMPLES_ENOUGH 20U
/* Linux 6.3: a memory file that nobody can make executable, which a machine may ask for. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

struct sp_status {
	const struct sp_core_ops *ops;
	char path[PATH_MAX]; /* "" = no file is wanted */
	int memory;          /* the memory file; -1 = there is none */
	bool is_hidden;      /* the process has ended, so nobody looks for it by its number */
	uint64_t written;    /* a hash of what the memory file was made of */
	struct sp_export_log_site said;
};

/* %p is the process id, so that forked children have files of their own. False: too long. */
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

static json_t *push(const struct sp_status_input *in)
{
	const struct sp_push_news *n = in->news;

	if (n == NULL)
		return json_null();
	return json_pack("{s:o, s:i, s:o, s:o, s:o, s:o}", "address", text(in->address),
			 "last_status", n->last_status, "last_error", text(n->last_error),
			 "last_success_unix_ms",
			 n->last_success_ms != 0 ? json_integer(n->last_success_ms) : json_null(),
			 "attempts", number(n->attempts), "server_time_skew_ms",
			 n->has_skew ? json_integer(n->skew_ms) : json_null());
}

/* As SPANPROF_SIGNAL takes it, or a number. */
static json_t *signal_name(int number)
{
	char name[SP_SIGNAL_NAME];

	sp_signal_name(number, name);
	return name[0] != '\0' ? json_string(name) : json_null();
}

static json_t *off_cpu(const struct sp_core_ops *ops, const struct sp_off_cpu_news *n)
{
	if (n == NULL)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "waits", counter(ops, SP_COUNT_WAITS),
			 "sent", counter(ops, SP_COUNT_WAITS_SENT), "lost",
			 counter(ops, SP_COUNT_WAITS_UNSENT), "time_ns", number(n->ns),
			 "threads_in_spans", number(n->threads), "no_stacks_because",
			 text(n->refusal));
}

/* What the sentences are about, and the one that is being made. */
struct view {
	const struct sp_core_ops *ops;
	const struct sp_core_facts *facts;
	const struct sp_status_input *in;
	json_t *list;
};

/* fmt is of the problem; remedy NULL = nothing that is known helps. */
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
	if (filters != 0)
		problem(v, NULL,
			"profiling has stopped for good: the program installed a seccomp filter");
	else if (v->ops->counter_read(v->ops->arg, SP_COUNT_SIGNAL_TAKEN) == 0)
		problem(v, "look for \"spanprof[\" on its stderr, which says why",
			"profiling has stopped in this process");
}

/* The name of the spans' service as variables, and the SDK's own resource, have it. "" = unknown. */
static void name_service_of_spans(const struct sp_config *c, char *out, size_t cap)
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

/* Links lead from a span to the profiles of the service that the span names. */
static void services_differ(const struct view *v)
{
	const struct sp_config *c = v->ops->config;
	char spans[512];

	name_service_of_spans(c, spans, sizeof(spans));
	if (strncmp(c->service_name, SP_CONFIG_UNKNOWN_SERVICE,
		    sizeof(SP_CONFIG_UNKNOWN_SERVICE) - 1) == 0)
		problem(v, "set OTEL_SERVICE_NAME to the service.name of the spans",
			"no service name is set, so the profiles have the service \"%.200s\"",
			c->service_name);
	else if (spans[0] != '\0' && strcmp(spans, c->service_name) != 0)
		problem(v,
			"give both the same name: remove SPANPROF_APPLICATION_NAME, "
			"PYROSCOPE_APPLICATION_NAME and OTEL_PYROSCOPE_APP_NAME, or set them to it",
			"the profiles have the service \"%.200s\", the spans \"%.200s\"",
			c->service_name, spans);
}

/* Not where there is another way to the same. */
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
	/* Samples that are to have neither an id nor a name do not tell. A context that is read has no name. */
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

static bool has_skew(const struct sp_push_news *n)
{
	return n->has_skew && (n->skew_ms > SKEW_MAX_MS || n->skew_ms < -SKEW_MAX_MS);
}

static void push_fails(const struct view *v)
{
	const struct sp_push_news *n = v->in->news;
	const char *remedy;

	if (n == NULL)
		return;
	remedy = n->last_error + n->remedy_at;
	if (n->last_error[0] != '\0')
		problem(v, remedy[0] != '\0' ? remedy + strlen("; ") : NULL,
			"the last push to %.200s failed: %.*s", v->in->address, (int)n->remedy_at,
			n->last_error);
	else if (has_skew(n))
		problem(v, "set the clocks", "the server's clock is %" PRId64 " s %s this one",
			(n->skew_ms < 0 ? -n->skew_ms : n->skew_ms) / 1000,
			n->skew_ms < 0 ? "behind" : "ahead of");
}

/* A folder that is not there is made with the first profile, if it can be. What failed once may be long over. */
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

static json_t *problems(const struct sp_core_ops *ops, const struct sp_core_facts *f,
			const struct sp_status_input *in)
{
	static void (*const all[])(const struct view *v) = {
		sampling_stopped, sdk_not_understood, no_span_at_work,    push_fails,
		folder_closed,    services_differ,    losses_with_remedy, waits_without_stacks,
	};
	const struct view v = {ops, f, in, json_array()};

	for (size_t i = 0; i < SP_ARRAY_LEN(all); i++)
		all[i](&v);
	return v.list;
}

static json_t *document(const struct sp_core_ops *ops, const struct sp_core_facts *f,
			const struct sp_status_input *in)
{
	json_t *root = json_object();

	json_object_set_new(root, "version", text(ops->version));
	json_object_set_new(root, "pid", number(ops->pid));
	json_object_set_new(root, "service", text(ops->config->service_name));
	json_object_set_new(root, "state", text(f->sampling ? in->state : "stopped"));
	json_object_set_new(root, "problems", problems(ops, f, in));
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
	json_object_set_new(root, "off_cpu", off_cpu(ops, in->waits));
	json_object_set_new(root, "thread_context", text(f->thread_context));
	json_object_set_new(root, "loss", losses(ops));
	json_object_set_new(root, "push", push(in));
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
	/* With the process id, because other processes may write the same file. */
	len = snprintf(temp, sizeof(temp), "%s.%" PRIu32 ".tmp", p.name, s->ops->pid);
	err = len > 0 && (size_t)len < sizeof(temp) ? 0 : -ENAMETOOLONG;
	if (err == 0)
		err = sp_user_file_replace(p.folder, p.name, temp, data, strlen(data), 0644);
	close(p.folder);
	return err;
}

/*
 * A whole new memory file takes the number of the one before. It is sealed, as programs of the same user
 * could otherwise write to it. Where there is none nobody is told: there may be a file, too.
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
 * Of all processes of the exporter. As long as the server takes what is pushed, only the time of the last success,
 * the number of tries and some milliseconds between the clocks change, with each push: these may be a minute old.
 */
static uint64_t hash_of_news(const struct sp_push_news *n)
{
	bool fails = n->last_error[0] != '\0';
	uint64_t hash = sp_hash_add_bytes(0, n->last_error, strlen(n->last_error));

	hash = sp_hash_add(sp_hash_add(hash, (uint64_t)n->last_status), fails ? n->attempts : 0);
	hash = sp_hash_add(hash, (uint64_t)n->last_success_ms / MINUTE_MS);
	return sp_hash_add(hash, has_skew(n));
}

/*
 * Hundreds of processes that do nothing are to cost nothing: what would be the same is not made again, and
 * the time of the memory file says that it is as new.
 */
static bool is_unchanged(struct sp_status *s, const struct sp_core_facts *f,
			 const struct sp_status_input *in)
{
	uint64_t before = s->written;
	uint64_t hash =
		sp_hash_add_bytes(sp_hash_add(in->with_span, in->without_span), f, sizeof(*f));

	hash = sp_hash_add(hash, (unsigned char)in->state[0]);
	hash = sp_hash_add(hash, (uint64_t)-in->file_error);
	if (in->news != NULL)
		hash = sp_hash_add(hash, hash_of_news(in->news));
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
	json_t *root;
	char *data;
	int err = 0;

	if (s == NULL || (s->is_hidden && s->path[0] == '\0'))
		return 0;
	s->ops->facts(s->ops->arg, &f);
	if (is_unchanged(s, &f, in))
		return 0;
	/* The text says whether folders can be written to, and the file has a name that the host gave. */
	if (!s->ops->may_open(s->ops->arg))
		return -EPERM;
	root = document(s->ops, &f, in);
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
