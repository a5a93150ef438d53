/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the status file, by jansson. A reader sees the old file or the new one, never half of one,
 * and no descriptor stays open. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/loop/status.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/loop/start_line.h"
#include "export/util/clock.h"
#include "export/util/log.h"
#include "export/util/user_file.h"

struct sp_status {
	const struct sp_core_ops *ops;
	char path[PATH_MAX];
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
	struct sp_status *s;

	if (ops->config->status_file == NULL)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->ops = ops;
	if (expand(s->path, sizeof(s->path), ops->config->status_file, ops->pid))
		return s;
	sp_export_log(ops, SP_LOG_WARN, "SPANPROF_STATUS_FILE: the path is too long; ignored");
	free(s);
	return NULL;
}

void sp_status_free(struct sp_status *s)
{
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

/* As SPANPROF_SIGNAL takes it. */
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

static json_t *document(const struct sp_core_ops *ops, const struct sp_status_input *in)
{
	struct sp_core_facts f;
	json_t *root = json_object();

	ops->facts(ops->arg, &f);
	json_object_set_new(root, "version", text(ops->version));
	json_object_set_new(root, "pid", number(ops->pid));
	json_object_set_new(root, "service", text(ops->config->service_name));
	json_object_set_new(root, "state", text(f.sampling ? in->state : "stopped"));
	json_object_set_new(root, "upload_interval_ms", number(ops->config->upload_interval_ms));
	json_object_set_new(root, "sdks", sdks(&f));
	json_object_set_new(root, "signal", signal_name(f.signal_number));
	json_object_set_new(root, "threads",
			    json_pack("{s:o, s:o, s:o, s:o}", "armed", number(f.threads_armed),
				      "unarmed", number(f.threads_unarmed), "over_limit",
				      number(f.threads_limit), "refused",
				      number(f.threads_refused)));
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
			  "ended", counter(ops, SP_COUNT_SPANS_ENDED), "open", number(f.spans_open),
			  "aged", counter(ops, SP_COUNT_SPANS_AGED)));
	json_object_set_new(root, "off_cpu", off_cpu(ops, in->waits));
	json_object_set_new(root, "thread_context", text(f.thread_context));
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

int sp_status_write(struct sp_status *s, const struct sp_status_input *in)
{
	json_t *root;
	char *data;
	int err;

	if (s == NULL)
		return 0;
	root = document(s->ops, in);
	data = json_dumps(root, JSON_INDENT(1) | JSON_ENSURE_ASCII);
	json_decref(root);
	err = data != NULL ? replace(s, data) : -ENOMEM;
	free(data);
	if (err != 0)
		sp_export_log_limited(s->ops, &s->said, sp_clock_mono_ns(),
				      "cannot write the status file %s: %s", s->path,
				      sp_user_file_error(err));
	return err;
}
