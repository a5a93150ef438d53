/* SPDX-License-Identifier: Apache-2.0 */
/* Steps, expectations and the verdict of one story; see story.h. */
#define _GNU_SOURCE
#include "test/conformance/story.h"

#include <pthread.h>
#include <stdarg.h>

#include "test/conformance/probe.h"
#include "test/conformance/second.h"
#include "test/hosts/host.h"

#define LABELS_VARIABLE "CONFORMANCE_LABELS"

const struct driver *sdk;
bool story_used_scopes;
/* What is started is recorded. */
static bool sampled;

/* Spans of the second SDK that are open all the time. */
static unsigned open_around;
static struct span span[STORY_SPANS_MAX];
static unsigned spans;
static char failure[4096];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What the run is configured for: whose id and whose name labels a sample, or no hook at all. */
static struct {
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

	HOST_CHECK(text != NULL);
	if (strcmp(text, "unseen") == 0) {
		labels.unseen = true;
		return;
	}
	HOST_CHECK(strcmp(text, "ids=all names=root") == 0 ||
		   strcmp(text, "ids=root names=all") == 0);
	labels.root_ids = strstr(text, "ids=root") != NULL;
	labels.root_names = strstr(text, "names=root") != NULL;
}

static struct span *started(const char *name, struct span *root, void *handle)
{
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
	if (sampled && sdk->lacks[NEED_NO_SCOPE] != NULL)
		story_used_scopes = true;
	printf("start %s%s%s\n", name, handle != NULL ? "" : " none", s->recorded ? " ids" : "");
	return s;
}

struct span *story_start(const char *name, struct span *parent)
{
	return started(name, parent, sdk->start(name, parent != NULL ? parent->handle : NULL));
}

struct span *story_start_ambient(const char *name, struct span *root)
{
	return started(name, root, sdk->start_ambient(name));
}

struct span *story_start_remote(const char *name)
{
	static const struct driver_ids far = {{0x0a, 0xf7, 0x65, 0x19, [15] = 0x9c},
					      {0xb7, 0xad, 0x6b, [7] = 0x31}};
	struct span *s = started(name, NULL, sdk->start_remote(name, &far));

	printf("trace of the remote parent %d\n",
	       memcmp(s->ids.trace_id, far.trace_id, sizeof(far.trace_id)) == 0);
	return s;
}

void story_rename(struct span *s, const char *name)
{
	sdk->rename(s->handle, name);
	s->name = name;
	printf("rename %s\n", name);
}

void story_end(struct span *s)
{
	sdk->end(s->handle);
	printf("end %s\n", s->name);
}

void story_destroy(struct span *s)
{
	sdk->destroy(s->handle);
	s->handle = NULL;
	printf("destroy %s\n", s->name);
}

void story_finish(struct span *s)
{
	story_end(s);
	story_destroy(s);
}

void *story_attach(const struct span *s)
{
	story_used_scopes = true;
	printf("attach %s\n", s != NULL ? s->name : "nothing");
	return sdk->attach(s != NULL ? s->handle : NULL);
}

bool story_detach(void *scope)
{
	bool ok = sdk->detach(scope);

	printf("detach %d\n", ok);
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
	printf("shut down\n");
}

static bool is_zero(const void *bytes, size_t len)
{
	static const char zero[64];

	return memcmp(bytes, zero, len) == 0;
}

static void expect_none(const struct probe_label *l, int line)
{
	if (!is_zero(l->span_id, sizeof(l->span_id)) ||
	    !is_zero(l->trace_id, sizeof(l->trace_id)) || l->name[0] != '\0')
		fail(" line %d: no label expected, \"%s\" found;", line, l->name);
}

void story_expect_label(const struct span *s, int line)
{
	struct probe_label l;
	const struct span *of_id;
	const struct span *of_name;

	if (!probe_present())
		return;
	probe_sample(&l);
	if (labels.unseen || s == NULL) {
		expect_none(&l, line);
		return;
	}
	of_id = labels.root_ids ? s->root : s;
	of_name = labels.root_names ? s->root : s;
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

	if (!probe_present())
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

	if (probe_present() && found != (labels.unseen ? 0 : count + open_around))
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

/* Gives the turn to the other one, if it is not there already, and waits to get it back. */
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

static void hex_id(const struct span *s, char out[17])
{
	for (int i = 0; i < 8; i++)
		snprintf(out + 2 * i, 3, "%02x", (unsigned)s->ids.span_id[i]);
}

/* The CPU time of a local root is a number, which another SDK's attribute of that name is not. */
static void check_cpu_time(const struct span *s, const char *line)
{
	const char *at = strstr(line, "\"spanprof.cpu_time_ns\"");
	bool wanted = probe_present() && !labels.unseen && s->root == s &&
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

/* The id that may stand on a sample is to be found in the span, once, and no other. */
static void check_attribute(const struct span *s, const char *line)
{
	bool wanted = probe_present() && !labels.unseen && (!labels.root_ids || s->root == s);
	char own[17];
	char found[64];

	hex_id(s, own);
	member(line, "\"pyroscope.profile.id\"", found, sizeof(found));
	if (strcmp(found, wanted ? own : "") != 0)
		fail(" span %s has the profile id \"%s\";", s->name, found);
	if (strstr(line, "pyroscope.profile.id") != NULL &&
	    strstr(strstr(line, "pyroscope.profile.id") + 1, "pyroscope.profile.id") != NULL)
		fail(" span %s has it twice;", s->name);
}

static struct span *span_of_line(const char *line)
{
	char id[17];
	char found[64];

	member(line, "\"span_id\"", found, sizeof(found));
	for (unsigned i = 0; i < spans; i++) {
		hex_id(&span[i], id);
		if (span[i].recorded && strcmp(id, found) == 0)
			return &span[i];
	}
	return NULL;
}

static void check_exported(const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	struct span *s;

	while (file != NULL && getline(&line, &size, file) > 0) {
		s = span_of_line(line);
		printf("exported %s\n", s != NULL ? s->name : "a stranger");
		if (s == NULL || !s->exported) {
			fail(" exported: %s;", s != NULL ? s->name : "a stranger");
			continue;
		}
		s->exported = false;
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

/* The reason why the SDK cannot be asked for this story; NULL if it can. */
static const char *why_not(const struct story *story, const struct driver *driver)
{
	for (unsigned need = 0; need < NEEDS; need++) {
		if ((story->needs & 1U << need) != 0 && driver->lacks[need] != NULL)
			return driver->lacks[need];
	}
	return NULL;
}

int story_run(const struct story *story, const struct driver *driver, const struct driver *second,
	      const struct story_files *files)
{
	const char *reason = why_not(story, driver);

	if (reason != NULL) {
		write_verdict(files->verdicts, story->name, "na", reason);
		return 0;
	}
	if (probe_present())
		read_labels();
	sdk = driver;
	sampled = story->provider == PROVIDER_SAMPLED;
	sdk->set_up(story->provider);
	if (second != NULL)
		second_begin(second);
	open_around = second != NULL ? 1 : 0;
	story->tell();
	open_around = 0;
	if (second != NULL)
		second_end(second);
	check_exported(files->spans);
	write_verdict(files->verdicts, story->name,
		      failure[0] != '\0' ? "fail" : (probe_present() ? "ok" : "silent"), failure);
	return STORY_TOLD;
}
