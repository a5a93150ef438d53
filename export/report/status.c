/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the status of a process, which its exporter has written (export/loop/status.c); problems
 * come first. The file is untrusted: missing and wrong keys count as zeros, and texts lose their
 * control characters. Context: the report tool.
 */
#define _GNU_SOURCE
#include "export/report/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/report/file.h"
#include "export/report/load.h"
#include "export/util/losses.h"
#include "sampler/base/counters.h"

#define SP_STATUS_FILE_MAX ((off_t)1 << 20)
#define SP_STATUS_LATE_S 60

struct words {
	const char *reason;
	const char *text;
};

/* The name of each loss in a status file. */
static const char *const names[] = {
#define SP_REASON_(id, name, kind) [SP_COUNT_##id] = (name),
	SP_FOR_EACH_COUNTER(SP_REASON_)
#undef SP_REASON_
};

static json_int_t integer(const json_t *root, const char *object, const char *key)
{
	return json_integer_value(json_object_get(json_object_get(root, object), key));
}

static const char *string(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/*
 * Prints our words, and then a text of the file without control characters, which terminals would
 * obey.
 */
static void put(FILE *out, const char *before, const char *s)
{
	char text[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(s != NULL ? s : "?", text);
	(void)fprintf(out, "%s%s", before, text);
}

static void print_age(FILE *out, int64_t seconds)
{
	if (seconds < 0)
		(void)fputs("in the future", out);
	else if (seconds < 120)
		(void)fprintf(out, "%" PRId64 " s ago", seconds);
	else if (seconds < 7200)
		(void)fprintf(out, "%" PRId64 " min ago", seconds / 60);
	else
		(void)fprintf(out, "%" PRId64 " h ago", seconds / 3600);
}

/*
 * Whether the exporter has stopped writing the file: an exporter that was killed leaves its last
 * status. A living one may be late by the time that a server makes it wait.
 */
static bool is_forgotten(const json_t *root, int64_t age_s)
{
	json_int_t interval_s =
		json_integer_value(json_object_get(root, "upload_interval_ms")) / 1000;

	return interval_s >= 0 && interval_s < INT32_MAX &&
	       age_s > 2 * interval_s + SP_STATUS_LATE_S &&
	       json_object_get(root, "upload_interval_ms") != NULL;
}

static void print_head(FILE *out, const json_t *root, int64_t age_s)
{
	static const struct words states[] = {
		{"active", "active: samples are taken"},
		{"ending", "ending: the process was about to end or to start another program"},
		{"stopped", "stopped: nothing is sampled any more, its stderr says why"},
	};
	const char *state = string(root, "state");

	put(out, "", string(root, "service"));
	(void)fprintf(out, ", process %" JSON_INTEGER_FORMAT,
		      json_integer_value(json_object_get(root, "pid")));
	put(out, ", spanprof ", string(root, "version"));
	(void)fputs(", written ", out);
	print_age(out, age_s);
	if (state != NULL && strcmp(state, "active") == 0 && is_forgotten(root, age_s))
		state = "unknown: the exporter does not write this file any more, it has ended or "
			"hangs";
	for (size_t i = 0; state != NULL && i < SP_ARRAY_LEN(states); i++)
		if (strcmp(state, states[i].reason) == 0)
			state = states[i].text;
	put(out, "\nstate     ", state);
	(void)fputc('\n', out);
}

/*
 * Prints the problems. spanprof-doctor shows only these lines, and finds them by their first word.
 */
static void print_problems(FILE *out, const json_t *root)
{
	const json_t *problem;
	size_t i;

	json_array_foreach(json_object_get(root, "problems"), i, problem)
	{
		put(out, "WRONG     ", string(problem, "text"));
		if (string(problem, "remedy") != NULL)
			put(out, "\n          change: ", string(problem, "remedy"));
		(void)fputc('\n', out);
	}
}

static void print_sdks(FILE *out, const json_t *root)
{
	const json_t *list = json_object_get(root, "sdks");
	const json_t *sdk, *unknown;
	size_t i, k;

	if (json_array_size(list) == 0)
		(void)fputs("SDK       none has recorded a span so far\n", out);
	json_array_foreach(list, i, sdk)
	{
		json_int_t instances = json_integer_value(json_object_get(sdk, "instances"));

		put(out, "SDK       ", string(sdk, "name"));
		if (string(sdk, "release") != NULL)
			put(out, ", release ", string(sdk, "release"));
		(void)fprintf(out, ": %" JSON_INTEGER_FORMAT " spans",
			      json_integer_value(json_object_get(sdk, "spans_started")));
		put(out, ", seen by its ", string(sdk, "method"));
		/* Older status files lack these keys. */
		if (string(sdk, "object") != NULL)
			put(out, ", in ", string(sdk, "object"));
		if (string(sdk, "object") != NULL && instances > 1)
			(void)fprintf(out, " and %" JSON_INTEGER_FORMAT " more", instances - 1);
		(void)fputc('\n', out);
		json_array_foreach(json_object_get(sdk, "not_understood"), k, unknown)
		{
			put(out, "          not understood: ", string(unknown, "fact"));
			put(out, "; ", string(unknown, "instead"));
			(void)fputc('\n', out);
		}
	}
}

/* Prints why threads are not sampled, if that is known. */
static void print_unarmed(FILE *out, const json_t *root)
{
	static const struct words reasons[] = {
		{"over_limit", "over half of RLIMIT_SIGPENDING"},
		{"refused", "refused by the kernel"},
	};
	const char *before = ": ";

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		json_int_t n = integer(root, "threads", reasons[i].reason);

		if (n == 0)
			continue;
		(void)fprintf(out, "%s%" JSON_INTEGER_FORMAT " %s", before, n, reasons[i].text);
		before = ", ";
	}
}

static void print_counts(FILE *out, const json_t *root)
{
	json_int_t with = integer(root, "samples", "with_span");
	json_int_t without = integer(root, "samples", "without_span");
	const char *signal = string(root, "signal");

	(void)fprintf(out,
		      "spans     %" JSON_INTEGER_FORMAT " started, %" JSON_INTEGER_FORMAT
		      " ended, %" JSON_INTEGER_FORMAT " open, %" JSON_INTEGER_FORMAT " given up\n",
		      integer(root, "spans", "started"), integer(root, "spans", "ended"),
		      integer(root, "spans", "open"), integer(root, "spans", "aged"));
	(void)fprintf(out, "threads   %" JSON_INTEGER_FORMAT " sampled",
		      integer(root, "threads", "armed"));
	if (signal != NULL)
		put(out, signal[0] >= '0' && signal[0] <= '9' ? " by signal " : " by ", signal);
	(void)fprintf(out, ", %" JSON_INTEGER_FORMAT " not", integer(root, "threads", "unarmed"));
	print_unarmed(out, root);
	(void)fputc('\n', out);
	(void)fprintf(out,
		      "samples   %" JSON_INTEGER_FORMAT " taken: %" JSON_INTEGER_FORMAT
		      " in spans, %" JSON_INTEGER_FORMAT " outside",
		      with + without, with, without);
	(void)fputc('\n', out);
}

/* Prints waits, if the process measures them. */
static void print_waits(FILE *out, const json_t *root)
{
	const json_t *waits = json_object_get(root, "off_cpu");
	const char *refusal = string(waits, "no_stacks_because");

	if (!json_is_object(waits))
		return;
	(void)fprintf(out,
		      "waits     %" JSON_INTEGER_FORMAT
		      " in spans, %.3f s; sent: %" JSON_INTEGER_FORMAT "\n",
		      integer(root, "off_cpu", "waits"),
		      (double)integer(root, "off_cpu", "time_ns") / 1e9,
		      integer(root, "off_cpu", "sent"));
	if (refusal == NULL)
		return;
	put(out, "          without stacks: ", refusal);
	(void)fputc('\n', out);
}

/* Prints whether profilers outside of the process can find its spans. */
static void print_context(FILE *out, const json_t *root)
{
	static const struct words states[] = {
		{"published", "published: profilers outside of the process find its spans"},
		{"waiting", "not published so far: there was no span"},
		{"foreign", "not published by spanprof: another library of the program can"},
		{"read", "read: another library of the program publishes the spans"},
		{"refused", "not published: the kernel does not allow it"},
	};
	const char *is = string(root, "thread_context");

	for (size_t i = 0; is != NULL && i < sizeof(states) / sizeof(states[0]); i++)
		if (strcmp(is, states[i].reason) == 0)
			(void)fprintf(out, "context   %s\n", states[i].text);
}

/*
 * Prints objects without names or lines. A remedy for several objects in a row is printed after the
 * last of them.
 */
static void print_missing(FILE *out, const json_t *root)
{
	const json_t *all = json_object_get(root, "missing_names");
	double whole = (double)integer(root, "missing_names", "cpu_ns") / 100;
	json_int_t others = integer(root, "missing_names", "others_cpu_ns");
	const char *remedy = NULL;
	const json_t *o;
	size_t i;

	whole = whole > 0 ? whole : 1;
	json_array_foreach(json_object_get(all, "objects"), i, o)
	{
		const char *helps = string(o, "remedy");

		if (remedy != NULL && (helps == NULL || strcmp(helps, remedy) != 0)) {
			put(out, "          helps: ", remedy);
			(void)fputc('\n', out);
		}
		remedy = helps;
		(void)fprintf(out, "missing   %.2f %% of the CPU time is in ",
			      (double)json_integer_value(json_object_get(o, "cpu_ns")) / whole);
		put(out, "", string(o, "object"));
		put(out,
		    json_is_true(json_object_get(o, "has_unnamed_functions"))
			    ? ", functions of which have no names: "
			    : ", whose functions have no lines: ",
		    string(o, "text"));
		(void)fputc('\n', out);
	}
	if (remedy != NULL) {
		put(out, "          helps: ", remedy);
		(void)fputc('\n', out);
	}
	if (others != 0)
		(void)fprintf(out, "missing   %.2f %% of the CPU time is in other such objects\n",
			      (double)others / whole);
}

/* NULL: the reason is unknown, because a newer exporter has written the file. */
static const struct sp_loss_words *words_of(const char *reason)
{
	for (size_t i = 0; i < sp_loss_words_n; i++)
		if (strcmp(names[sp_loss_words[i].counter], reason) == 0)
			return &sp_loss_words[i];
	return NULL;
}

/* Prints the losses of the kinds from first to last. Returns how many lines. */
static unsigned print_losses_of(FILE *out, json_t *root, enum sp_loss_kind first,
				enum sp_loss_kind last)
{
	static const char *const begin[] = {
		[SP_LOSS_WHOLE] = "lost      ",
		[SP_LOSS_PART] = "          ",
		[SP_LOSS_LESS] = "reduced   ",
	};
	const char *reason;
	json_t *count;
	unsigned lines = 0;

	json_object_foreach(json_object_get(root, "loss"), reason, count)
	{
		const struct sp_loss_words *w = words_of(reason);
		enum sp_loss_kind kind = w != NULL ? sp_loss_kind_of(w->counter) : SP_LOSS_WHOLE;
		json_int_t n = json_integer_value(count);

		if (n == 0 || kind < first || kind > last)
			continue;
		lines++;
		(void)fprintf(out, "%s%" JSON_INTEGER_FORMAT " ", begin[kind], n);
		put(out, "", w != NULL ? sp_loss_words_for(w, (uint64_t)n) : reason);
		(void)fputc('\n', out);
	}
	return lines;
}

/*
 * Prints losses. The sum of the numbers of samples after "lost" is exact, because no sample is in
 * two of these lines.
 */
static void print_losses(FILE *out, json_t *root)
{
	if (print_losses_of(out, root, SP_LOSS_WHOLE, SP_LOSS_PART) == 0)
		(void)fputs("lost      nothing\n", out);
	(void)print_losses_of(out, root, SP_LOSS_LESS, SP_LOSS_LESS);
}

static void print_push_to(FILE *out, const json_t *push, time_t now)
{
	const char *error = string(push, "last_error");
	json_int_t success = json_integer_value(json_object_get(push, "last_success_unix_ms"));

	put(out, "push      to ", string(push, "address"));
	(void)fprintf(out, ", %" JSON_INTEGER_FORMAT " tries, ",
		      json_integer_value(json_object_get(push, "attempts")));
	(void)fputs(success != 0 ? "last success " : "nothing was sent", out);
	if (success != 0)
		print_age(out, (int64_t)now - success / 1000);
	(void)fputc('\n', out);
	if (error != NULL && error[0] != '\0') {
		put(out, "          the last try failed: ", error);
		(void)fputc('\n', out);
	}
}

/*
 * Prints the pushes. With several servers, each has numbers of its own: one may have lost what
 * another one has.
 */
static void print_pushes(FILE *out, const json_t *pushes, time_t now)
{
	const json_t *push;
	size_t i;

	json_array_foreach(pushes, i, push)
	{
		print_push_to(out, push, now);
		(void)fprintf(out,
			      "          samples sent there: %" JSON_INTEGER_FORMAT
			      ", lost: %" JSON_INTEGER_FORMAT,
			      json_integer_value(json_object_get(push, "samples_sent")),
			      json_integer_value(json_object_get(push, "samples_lost")));
		(void)fprintf(out,
			      "; waits sent: %" JSON_INTEGER_FORMAT ", lost: %" JSON_INTEGER_FORMAT
			      "\n",
			      json_integer_value(json_object_get(push, "waits_sent")),
			      json_integer_value(json_object_get(push, "waits_lost")));
	}
}

static void print_push(FILE *out, const json_t *root, time_t now)
{
	const json_t *push = json_object_get(root, "push");
	const json_t *pushes = json_object_get(root, "pushes");

	if (json_array_size(pushes) != 0)
		print_pushes(out, pushes, now);
	else if (json_is_object(push))
		print_push_to(out, push, now);
	else
		(void)fputs("push      nothing is pushed\n", out);
}

/* The reason is cleaned, because jansson quotes the text that it did not understand. */
static int no_status(const char *reason, char why[160])
{
	char text[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(reason, text);
	(void)snprintf(why, 160, "not a status file%s%.120s", text[0] != '\0' ? ": " : "", text);
	return -1;
}

/* Reads name and effective user of a process. False: the process has ended. */
static bool read_identity(int proc, const char *pid, char comm[16], unsigned *uid)
{
	char path[NAME_MAX + sizeof("/status")];
	char text[4096];
	const char *at;
	char *end;
	ssize_t n = -1;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/status", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		(void)close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "\nUid:");
	if (at == NULL || strncmp(text, "Name:\t", 6) != 0)
		return false;
	(void)snprintf(comm, 16, "%.*s", (int)strcspn(text + 6, "\n"), text + 6);
	/* The real user is before the effective one. */
	(void)strtoul(at + strlen("\nUid:"), &end, 10);
	*uid = (unsigned)strtoul(end, NULL, 10);
	return true;
}

/*
 * Opens the memory file with that name among the descriptors of an exporter; -1 = none. Other files
 * may have that name, too.
 */
static int open_among(int fds, const char *name, struct stat *st)
{
	DIR *dir = fdopendir(fds);
	char why[SP_REPORT_ERROR];
	int found = -1;

	if (dir == NULL) {
		(void)close(fds);
		return -1;
	}
	for (const struct dirent *e; found < 0 && (e = readdir(dir)) != NULL;) {
		char link[128];
		ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = '\0';
		if (strcmp(link, name) == 0)
			found = sp_report_open(dirfd(dir), e->d_name, st, why);
	}
	(void)closedir(dir);
	return found;
}

/*
 * Opens the newest status of a process. Only exporters of the process's user are searched, because
 * other users may give a file that name. After an exec the exporter of the former program may still
 * run, so there may be two. -1 with a reason.
 */
static int open_of_process(const char *pid, struct stat *st, char reason[SP_REPORT_ERROR])
{
	DIR *proc = opendir("/proc");
	unsigned user;
	char comm[16];
	char name[64];
	int newest = -1;

	(void)snprintf(name, sizeof(name), "/memfd:" SP_STATUS_MEMORY "%s (deleted)", pid);
	(void)snprintf(reason, SP_REPORT_ERROR, "there is no such process");
	if (proc == NULL || !read_identity(dirfd(proc), pid, comm, &user)) {
		if (proc != NULL)
			(void)closedir(proc);
		return -1;
	}
	(void)snprintf(reason, SP_REPORT_ERROR, "the process has no exporter");
	for (const struct dirent *e; (e = readdir(proc)) != NULL;) {
		char path[NAME_MAX + sizeof("/fd")];
		struct stat seen;
		unsigned owner;
		int fd;

		if (e->d_name[0] < '1' || e->d_name[0] > '9' ||
		    !read_identity(dirfd(proc), e->d_name, comm, &owner) || owner != user ||
		    strcmp(comm, SP_STATUS_COMM) != 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/fd", e->d_name);
		fd = openat(dirfd(proc), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 && newest < 0)
			(void)snprintf(
				reason, SP_REPORT_ERROR,
				"its exporter may be process %.10s, which cannot be read: %s",
				e->d_name, strerror(errno));
		fd = fd >= 0 ? open_among(fd, name, &seen) : -1;
		if (fd < 0)
			continue;
		if (newest >= 0 && seen.st_mtime < st->st_mtime) {
			(void)close(fd);
			continue;
		}
		if (newest >= 0)
			(void)close(newest);
		newest = fd;
		*st = seen;
	}
	(void)closedir(proc);
	return newest;
}

static bool is_number(const char *of)
{
	size_t digits = strspn(of, "0123456789");

	return digits != 0 && digits <= 10 && of[digits] == '\0';
}

int sp_report_status(FILE *out, const char *of, time_t now, char why[160])
{
	char reason[SP_REPORT_ERROR];
	struct stat st;
	json_error_t error;
	json_t *root;
	int fd = is_number(of) ? open_of_process(of, &st, reason)
			       : sp_report_open(AT_FDCWD, of, &st, reason);

	if (fd < 0 && is_number(of)) {
		(void)snprintf(why, 160, "%.150s", reason);
		return -1;
	}
	if (fd < 0)
		return no_status(reason, why);
	if (st.st_size > SP_STATUS_FILE_MAX) {
		(void)close(fd);
		return no_status("it is too large", why);
	}
	root = json_loadfd(fd, JSON_REJECT_DUPLICATES, &error);
	(void)close(fd);
	if (!json_is_object(root) || json_object_get(root, "samples") == NULL) {
		json_decref(root);
		return no_status(root == NULL ? error.text : "other content", why);
	}
	print_head(out, root, (int64_t)(now - st.st_mtime));
	print_problems(out, root);
	print_sdks(out, root);
	print_counts(out, root);
	print_waits(out, root);
	print_context(out, root);
	print_missing(out, root);
	print_losses(out, root);
	print_push(out, root, now);
	json_decref(root);
	return 0;
}
