/* SPDX-License-Identifier: Apache-2.0 */
/* Steps, expectations and the verdict of one story; see story.h. */
#define _GNU_SOURCE
#include "test/conformance/story.h"

#include <endian.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test/conformance/probe.h"
#include "test/conformance/second.h"
#include "test/hosts/host.h"

#define LABELS_VARIABLE "CONFORMANCE_LABELS"
#define PIECES_MAX 4
#define THREADS_MAX 8
#define ERRNO_BEFORE 4242

const struct driver *sdk;
bool story_used_scopes;
/* Started spans are recorded. */
static bool sampled;

/* Spans of the second SDK that are always open. */
static unsigned open_around;
static struct span span[STORY_SPANS_MAX];
static unsigned spans;
static char failure[32768]; /* all spans of a story may fail, and each is reported */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct story_files *files;
static _Atomic unsigned pieces;
static _Atomic bool any_recorded;
/* Several threads do the same: their output would come in random order. */
static bool quiet;
static const struct driver_ids far = {{0x0a, 0xf7, 0x65, 0x19, [15] = 0x9c},
				      {0xb7, 0xad, 0x6b, [7] = 0x31}};

/* The configuration of the run: whose id and whose name label a sample, or that there is no hook. */
static struct {
	bool unasked;
	bool unseen;
	bool root_ids;
	bool root_names;
} labels;

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...)
{
	size_t used;
	va_list args;

	pthread_mutex_lock(&lock);
	used = strlen(failure);
	va_start(args, format);
	vsnprintf(failure + used, sizeof(failure) - used, format, args);
	va_end(args);
	pthread_mutex_unlock(&lock);
}

static void read_labels(void)
{
	const char *text = getenv(LABELS_VARIABLE);

	/* A script that checks something else. */
	if (text == NULL) {
		labels.unasked = true;
		return;
	}
	if (strcmp(text, "unseen") == 0) {
		labels.unseen = true;
		return;
	}
	HOST_CHECK(strcmp(text, "ids=all names=root") == 0 ||
		   strcmp(text, "ids=root names=all") == 0);
	labels.root_ids = strstr(text, "ids=root") != NULL;
	labels.root_names = strstr(text, "names=root") != NULL;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list args;

	if (quiet)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
}

/* Around each call to the SDK: errno is the host's. */
#define STEP(call) (errno = ERRNO_BEFORE, call)

static void say_errno(int after)
{
	say(" errno %d\n", after);
}

static struct span *started(const char *name, struct span *root, void *handle)
{
	int after = errno;
	struct span *s;

	pthread_mutex_lock(&lock);
	HOST_CHECK(spans < STORY_SPANS_MAX);
	s = &span[spans++];
	pthread_mutex_unlock(&lock);
	s->name = name;
	s->root = root != NULL ? root->root : s;
	s->handle = handle;
	s->recorded = handle != NULL && sdk->ids(handle, &s->ids);
	s->exported = s->recorded;
	if (s->recorded)
		any_recorded = true;
	if (sampled && sdk->lacks[NEED_NO_SCOPE] != NULL)
		story_used_scopes = true;
	say("start %s%s%s", name, handle != NULL ? "" : " none", s->recorded ? " ids" : "");
	say_errno(after);
	return s;
}

struct span *story_start(const char *name, struct span *parent)
{
	return started(name, parent,
		       STEP(sdk->start(name, parent != NULL ? parent->handle : NULL)));
}

struct span *story_start_ambient(const char *name, struct span *root)
{
	return started(name, root, STEP(sdk->start_ambient(name)));
}

struct span *story_start_remote(const char *name)
{
	struct span *s = started(name, NULL, STEP(sdk->start_remote(name, &far)));

	say("trace of the remote parent %d\n",
	    memcmp(s->ids.trace_id, far.trace_id, sizeof(far.trace_id)) == 0);
	return s;
}

struct span *story_start_with(const char *name, const char *key, const char *value)
{
	struct span *s = started(name, NULL, STEP(sdk->start_with(name, key, value)));

	if (strcmp(key, STORY_PROFILE_ID) == 0)
		s->own_id = value;
	return s;
}

struct span *story_start_ending(const char *name, struct span *other)
{
	return started(name, NULL, STEP(sdk->start_ending(name, other->handle)));
}

struct span *story_start_linked(const char *name, const struct span *other, bool is_remote)
{
	return started(name, NULL, STEP(sdk->start_linked(name, other->handle, &far, is_remote)));
}

static void has_value(struct span *s, const char *value)
{
	static bool told;

	s->value = strcmp(value, "-") != 0 && strcmp(value, "[]") != 0 ? value : NULL;
	if (strcmp(value, "[]") == 0 && !told) {
		told = true;
		story_expect_message(STORY_VALUE_KEY " is an array, which makes no label");
	}
}

struct span *story_start_with_value(const char *name, unsigned way)
{
	const char *value = NULL;
	void *handle = sdk->start_with_value != NULL
			       ? STEP(sdk->start_with_value(name, way, &value))
			       : NULL;
	struct span *s;

	if (value == NULL)
		return NULL;
	s = started(name, NULL, handle);
	has_value(s, value);
	return s;
}

bool story_set_value(struct span *s, unsigned way)
{
	const char *value;

	/* The waits of a root have the label, too. */
	if (getenv("STORY_WAITS") != NULL)
		usleep(150000);
	value = sdk->set_value != NULL ? STEP(sdk->set_value(s->handle, way)) : NULL;
	if (value == NULL)
		return false;
	say("value %s of %s", value, s->name);
	say_errno(errno);
	has_value(s, value);
	return true;
}

void story_set_status(struct span *s, bool is_error)
{
	STEP(sdk->set_status(s->handle, is_error));
	if (!s->ended)
		s->failed = is_error;
	say("status of %s %s", s->name, is_error ? "error" : "ok");
	say_errno(errno);
}

void story_rename(struct span *s, const char *name)
{
	STEP(sdk->rename(s->handle, name));
	s->name = name;
	say("rename %s", name);
	say_errno(errno);
}

void story_set(struct span *s, const char *key, const char *value)
{
	STEP(sdk->set_attribute(s->handle, key, value));
	if (strcmp(key, STORY_PROFILE_ID) == 0 && !s->ended)
		s->own_id = value;
	if (strcmp(key, STORY_VALUE_KEY) == 0 && !s->ended)
		has_value(s, value);
	say("set %s of %s", key, s->name);
	say_errno(errno);
}

void story_end(struct span *s)
{
	STEP(sdk->end(s->handle));
	s->ended = true;
	say("end %s", s->name);
	say_errno(errno);
}

void story_destroy(struct span *s)
{
	STEP(sdk->destroy(s->handle));
	s->handle = NULL;
	say("destroy %s", s->name);
	say_errno(errno);
}

void story_finish(struct span *s)
{
	story_end(s);
	story_destroy(s);
}

void *story_attach(const struct span *s)
{
	void *scope = STEP(sdk->attach(s != NULL ? s->handle : NULL));

	story_used_scopes = true;
	say("attach %s%s", s != NULL ? s->name : "nothing", scope != NULL ? "" : " refused");
	say_errno(errno);
	return scope;
}

void *story_attach_remote(void)
{
	story_used_scopes = true;
	return sdk->attach_remote(&far);
}

bool story_detach(void *scope)
{
	bool ok = STEP(sdk->detach(scope));

	say("detach %d", ok);
	say_errno(errno);
	return ok;
}

void story_use_scopes(void)
{
	struct span *s = story_start("warm", NULL);

	story_detach(story_attach(s));
	story_finish(s);
}

void story_shut_down(void)
{
	sdk->shut_down();
	say("shut down\n");
}

static bool is_zero(const void *bytes, size_t len)
{
	static const char zero[64];

	return memcmp(bytes, zero, len) == 0;
}

static bool is_none(const struct probe_label *l)
{
	return is_zero(l->span_id, sizeof(l->span_id)) &&
	       is_zero(l->trace_id, sizeof(l->trace_id)) && l->name[0] == '\0';
}

static void expect_none(const struct probe_label *l, int line)
{
	if (!is_none(l))
		fail(" line %d: no label expected, \"%s\" found;", line, l->name);
}

static void hex(const uint8_t *bytes, size_t len, char *out)
{
	for (size_t i = 0; i < len; i++)
		snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
}

static bool works(void)
{
	return files->piece_ms > 0 || files->piece_samples > 0;
}

/* The CPU time of one piece of work; samples take none. */
static int64_t piece(void)
{
	int64_t ns;

	/* Before the first span the profiler is inactive. */
	if (!any_recorded)
		return 0;
	if (files->piece_ms == 0)
		return (int64_t)probe_samples(files->piece_samples);
	if (atomic_fetch_add(&pieces, 1) >= PIECES_MAX)
		return 0;
	ns = host_cpu_ns();
	host_burn_ms(files->piece_ms);
	return host_cpu_ns() - ns;
}

/* The other way to check: the thread works, and the profile must show for which span. */
static void work_for(const struct span *s, const struct span *of_id, const struct span *of_name)
{
	char span_id[17] = "-";
	char trace_id[33] = "-";
	FILE *file;
	int64_t ns = piece();

	if (ns == 0)
		return;
	if (s != NULL)
		atomic_fetch_add(&s->root->ns, ns);
	if (of_id != NULL) {
		hex(of_id->ids.span_id, sizeof(of_id->ids.span_id), span_id);
		hex(of_id->ids.trace_id, sizeof(of_id->ids.trace_id), trace_id);
	}
	file = fopen(files->work, "ae");
	HOST_CHECK(file != NULL);
	fprintf(file, "%s %s %lld %s\n", span_id, trace_id, (long long)ns,
		of_name != NULL ? of_name->name : "-");
	HOST_CHECK(fclose(file) == 0);
}

void story_expect_message(const char *words)
{
	FILE *file;

	if (!works())
		return;
	file = fopen(files->work, "ae");
	HOST_CHECK(file != NULL);
	fprintf(file, "says %s\n", words);
	HOST_CHECK(fclose(file) == 0);
}

void story_expect_label(const struct span *s, int line)
{
	struct probe_label l;
	const struct span *of_id;
	const struct span *of_name;

	if (!probe_present())
		return;
	of_id = s != NULL && labels.root_ids ? s->root : s;
	of_name = s != NULL && labels.root_names ? s->root : s;
	if (works()) {
		work_for(s, labels.unseen ? NULL : of_id, labels.unseen ? NULL : of_name);
		return;
	}
	if (labels.unseen)
		s = NULL;
	if (labels.unasked)
		return;
	probe_sample(&l);
	if (s == NULL) {
		expect_none(&l, line);
		return;
	}
	if (is_none(&l)) {
		fail(" line %d: no label, not \"%s\";", line, of_name->name);
		return;
	}
	if (strcmp(l.name, of_name->name) != 0)
		fail(" line %d: name \"%s\", not \"%s\";", line, l.name, of_name->name);
	if (memcmp(l.span_id, of_id->ids.span_id, sizeof(l.span_id)) != 0)
		fail(" line %d: not the id of \"%s\";", line, of_id->name);
	if (memcmp(l.trace_id, s->ids.trace_id, sizeof(l.trace_id)) != 0)
		fail(" line %d: not the trace of \"%s\";", line, s->name);
}

void story_expect_root(const struct span *s, int line)
{
	struct probe_label l;

	if (!probe_present() || labels.unasked || works())
		return;
	probe_sample(&l);
	if (labels.unseen || !labels.root_ids) {
		expect_none(&l, line);
		return;
	}
	if (strcmp(l.name, labels.root_names ? s->root->name : "") != 0)
		fail(" line %d: name \"%s\";", line, l.name);
	if (memcmp(l.span_id, s->root->ids.span_id, sizeof(l.span_id)) != 0)
		fail(" line %d: not the id of the root;", line);
	if (memcmp(l.trace_id, s->ids.trace_id, sizeof(l.trace_id)) != 0)
		fail(" line %d: not the trace of \"%s\";", line, s->name);
}

void story_expect_open(unsigned count, int line)
{
	unsigned found = probe_open_spans();

	if (probe_present() && !labels.unasked &&
	    found != (labels.unseen ? 0 : count + open_around))
		fail(" line %d: %u spans open, not %u;", line, found, count);
}

/* --- Threads --- */

struct other {
	pthread_t thread;
	void (*run)(void *);
	void *argument;
};

static void *run_other(void *argument)
{
	const struct other *o = argument;

	o->run(o->argument);
	return NULL;
}

void story_elsewhere(void (*run)(void *), void *argument)
{
	struct other o = {.run = run, .argument = argument};

	HOST_CHECK(pthread_create(&o.thread, NULL, run_other, &o) == 0);
	HOST_CHECK(pthread_join(o.thread, NULL) == 0);
}

static struct other talker;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static bool others_turn;
static bool other_is_done;
static __thread bool is_other;

/* Gives the turn to the other thread, if it does not have it already, and waits to get it back. */
static void take_turns(bool other, bool give)
{
	pthread_mutex_lock(&turn_lock);
	if (give)
		others_turn = !other;
	pthread_cond_broadcast(&turned);
	while (others_turn != other && !other_is_done)
		pthread_cond_wait(&turned, &turn_lock);
	pthread_mutex_unlock(&turn_lock);
}

static void *run_talker(void *unused)
{
	(void)unused;
	is_other = true;
	talker.run(talker.argument);
	pthread_mutex_lock(&turn_lock);
	other_is_done = true;
	others_turn = false;
	pthread_cond_broadcast(&turned);
	pthread_mutex_unlock(&turn_lock);
	return NULL;
}

void story_begin_other(void (*run)(void *), void *argument)
{
	talker.run = run;
	talker.argument = argument;
	other_is_done = false;
	others_turn = true;
	HOST_CHECK(pthread_create(&talker.thread, NULL, run_talker, NULL) == 0);
	take_turns(false, false);
}

void story_turn(void)
{
	take_turns(is_other, true);
}

void story_end_other(void)
{
	take_turns(false, true);
	HOST_CHECK(pthread_join(talker.thread, NULL) == 0);
}

static pthread_barrier_t all_here;

static void *run_with_others(void *run)
{
	pthread_barrier_wait(&all_here);
	(*(void (**)(void))run)();
	return NULL;
}

void story_at_once(unsigned count, void (*run)(void))
{
	pthread_t thread[THREADS_MAX];

	HOST_CHECK(count <= THREADS_MAX && pthread_barrier_init(&all_here, NULL, count) == 0);
	quiet = true;
	for (unsigned i = 0; i < count; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, run_with_others, &run) == 0);
	for (unsigned i = 0; i < count; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
	quiet = false;
}

static void check_exported(const char *path, off_t from, unsigned first);

void story_forked(void (*run)(void))
{
	struct stat before = {0};
	int status = 0;
	unsigned first = spans;
	pid_t child;

	(void)stat(files->spans, &before);
	fflush(stdout);
	child = fork();
	HOST_CHECK(child >= 0);
	if (child == 0) {
		for (unsigned i = 0; i < first; i++)
			span[i].exported = false;
		run();
		check_exported(files->spans, before.st_size, first);
		HOST_CHECK(truncate(files->spans, before.st_size) == 0 || errno == ENOENT);
		fputs(failure, stderr);
		exit(failure[0] != '\0');
	}
	HOST_CHECK(waitpid(child, &status, 0) == child);
	if (status != 0)
		fail(" the child ended with %x;", (unsigned)status);
}

/* --- Verdict --- */

/* The text of a JSON string member of that line; "" if there is none. */
static void member(const char *line, const char *key, char *out, size_t size)
{
	const char *at = strstr(line, key);
	size_t len = 0;

	out[0] = '\0';
	if (at == NULL)
		return;
	at += strlen(key);
	at += strspn(at, ": \"");
	while (at[len] != '"' && at[len] != '\0' && len + 1 < size)
		len++;
	snprintf(out, len + 1, "%s", at);
}

/* The CPU time of a local root is a number; another SDK's attribute of that name is not. */
static void check_cpu_time(const struct span *s, const char *line)
{
	const char *at = strstr(line, "\"spanprof.cpu_time_ns\"");
	bool wanted = probe_present() && !labels.unseen && s->root == s && !s->is_shared &&
		      getenv("SPANPROF_SPAN_CPU_TIME") != NULL;

	if (at != NULL) {
		at += strlen("\"spanprof.cpu_time_ns\"");
		at += strspn(at, ": ");
	}
	if ((at != NULL) != wanted)
		fail(" span %s %s a CPU time;", s->name, wanted ? "lacks" : "has");
	if (at != NULL && (*at < '0' || *at > '9'))
		fail(" the CPU time of span %s is %.8s;", s->name, at);
}

#define KEY "\"" STORY_PROFILE_ID "\""
/* The id on samples must be in the span's attribute, once, and no other id. */
static void check_attribute(const struct span *s, const char *line)
{
	bool wanted = probe_present() && !labels.unseen && (!labels.root_ids || s->root == s);
	char own[17];
	char found[64];
	const char *at = strstr(line, KEY);
	const char *id = s->own_id;

	/* A span without samples has no id; the test that reads the profile compares. */
	if (works() && (at == NULL || id == NULL))
		return;
	hex(s->ids.span_id, sizeof(s->ids.span_id), own);
	if (id == NULL)
		id = wanted ? own : "";
	member(line, KEY, found, sizeof(found));
	if (strcmp(found, id) != 0)
		fail(" span %s has the profile id \"%s\";", s->name, found);
	if (at != NULL && strstr(at + 1, KEY) != NULL)
		fail(" span %s has it twice;", s->name);
}

static struct span *span_of_line(const char *line)
{
	char text[17];
	uint64_t id;
	struct span *s = NULL;

	member(line, "\"span_id\"", text, sizeof(text));
	id = htobe64(strtoull(text, NULL, 16));
	/* An SDK that was loaded again may count its ids from the beginning. */
	for (unsigned i = 0; i < spans && (s == NULL || !s->exported); i++) {
		if (span[i].recorded && memcmp(span[i].ids.span_id, &id, sizeof(id)) == 0)
			s = &span[i];
	}
	return s;
}

/* The spans that ended since the file had that size; not the first ones, which are the parent process's. */
static void check_exported(const char *path, off_t from, unsigned first)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	struct span *s;

	if (file != NULL)
		HOST_CHECK(fseeko(file, from, SEEK_SET) == 0);
	while (file != NULL && getline(&line, &size, file) > 0) {
		s = span_of_line(line);
		if (s != NULL && s < &span[first])
			continue;
		say("exported %s\n", s != NULL ? s->name : "a stranger");
		if (s == NULL || !s->exported) {
			fail(" exported: %s;", s != NULL ? s->name : "a stranger");
			continue;
		}
		s->exported = false;
		if (labels.unasked)
			continue;
		check_attribute(s, line);
		check_cpu_time(s, line);
	}
	free(line);
	if (file != NULL)
		fclose(file);
	for (unsigned i = 0; i < spans; i++) {
		if (span[i].exported)
			fail(" not exported: %s;", span[i].name);
	}
}

static void write_verdict(const char *path, const char *name, const char *verdict,
			  const char *detail)
{
	FILE *file = fopen(path, "ae");

	HOST_CHECK(file != NULL);
	fprintf(file, "%s %s: %s\n", verdict, name, detail);
	HOST_CHECK(fclose(file) == 0);
}

/* The reason why the SDK cannot run this story; NULL if it can. */
static const char *why_not(const struct story *story, const struct driver *driver)
{
	for (unsigned need = 0; need < NEEDS; need++) {
		if ((story->needs & 1U << need) != 0 && driver->lacks[need] != NULL)
			return driver->lacks[need];
	}
	return NULL;
}

static void begin(const struct story *story, const struct story_files *own_files)
{
	files = own_files;
	sampled = story->provider == PROVIDER_SAMPLED;
	if (probe_present())
		read_labels();
}

static void tell_with(const struct story *story, const struct driver *driver)
{
	sdk = driver;
	sdk->set_up(story->provider);
	story->tell();
}

static void write_roots(void)
{
	FILE *file = fopen(files->work, "ae");

	HOST_CHECK(file != NULL);
	for (unsigned i = 0; i < spans; i++) {
		if (span[i].value != NULL && span[i].root == &span[i] && span[i].ns > 0)
			fprintf(file, "value %lld %s\n", (long long)span[i].ns, span[i].value);
		if (span[i].failed && span[i].root == &span[i]) {
			fputs("failed ", file);
			for (unsigned byte = 0; byte < sizeof(span[i].ids.span_id); byte++)
				fprintf(file, "%02x", (unsigned)span[i].ids.span_id[byte]);
			fputc('\n', file);
		}
	}
	HOST_CHECK(fclose(file) == 0);
}

static int judge(const struct story *story)
{
	if (works())
		write_roots();
	check_exported(files->spans, 0, 0);
	write_verdict(files->verdicts, story->name,
		      failure[0] != '\0' ? "fail" : (probe_present() ? "ok" : "silent"), failure);
	return STORY_TOLD;
}

int story_run(const struct story *story, const struct driver *driver, const struct driver *second,
	      const struct story_files *own_files)
{
	const char *reason = why_not(story, driver);

	if (reason != NULL) {
		write_verdict(own_files->verdicts, story->name, "na", reason);
		return 0;
	}
	begin(story, own_files);
	sdk = driver;
	sdk->set_up(story->provider);
	if (second != NULL)
		second_begin(second);
	open_around = second != NULL ? 1 : 0;
	story->tell();
	open_around = 0;
	if (second != NULL)
		second_end(second);
	return judge(story);
}

int story_run_in_turns(const struct story *story, const struct driver *first,
		       const struct story_plugin *other, const struct story_files *own_files)
{
	begin(story, own_files);
	tell_with(story, first);
	tell_with(story, other->open());
	tell_with(story, first);
	other->close();
	tell_with(story, other->open());
	tell_with(story, first);
	return judge(story);
}
