/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every story in its own process. The SDK is linked in or opened. Usage:
 *
 *   main OPTIONS FOLDER      FOLDER gets "verdicts" and "calls.STORY"; stdout gets the facts that a host can see
 *     --plugin FILE          the driver is in a shared object ...
 *     --open local|global|deepbind   ... opened this way before the first story
 *     --late                 ... or by each story, on a thread that existed before
 *     --second FILE          another SDK's driver, with spans around those of the story
 *     --turns                with --second and --story: the two SDKs take turns, and the other is reloaded
 *     --story NAME           only this one, in this process, which ends with 7; FOLDER gets "spans" as well
 *     --work MILLISECONDS    with --story: works at each expectation; FOLDER gets "work"
 *     --samples COUNT        with --story: takes samples at each expectation; FOLDER gets "work"
 *   main --list              prints the names of the stories that run if none is named
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/conformance/story.h"
#include "test/hosts/host.h"

#pragma weak conformance_driver

static struct {
	const char *plugin;
	const char *second;
	int flags;
	bool late;
	bool turns;
	const char *story;
	int piece_ms;
	unsigned piece_samples;
	const char *folder;
} option = {.flags = RTLD_LOCAL};

static void *opened;

static const struct driver *open_driver(const char *path)
{
	void *plugin = opened = dlopen(path, RTLD_NOW | option.flags);
	const struct driver *(*get)(void);

	if (plugin == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(96);
	}
	get = (const struct driver *(*)(void))dlsym(plugin, "conformance_driver");
	HOST_CHECK(get != NULL);
	return get();
}

static const struct driver *driver_in_use(void)
{
	return option.plugin != NULL ? open_driver(option.plugin) : conformance_driver();
}

static const struct driver *open_second(void)
{
	return open_driver(option.second);
}

static void close_second(void)
{
	HOST_CHECK(dlclose(opened) == 0);
}

static int tell(const struct story *story, const struct driver *driver)
{
	char spans[4096];
	char verdicts[4096];
	char work[4096];
	char calls[4096];
	struct story_files files = {.spans = spans,
				    .verdicts = verdicts,
				    .work = work,
				    .piece_ms = option.piece_ms,
				    .piece_samples = option.piece_samples};

	if (option.story != NULL)
		snprintf(spans, sizeof(spans), "%s/spans", option.folder);
	else
		snprintf(spans, sizeof(spans), "%s/spans.%d.%s", option.folder, (int)getpid(),
			 story->name);
	snprintf(work, sizeof(work), "%s/work", option.folder);
	/* the file in which the SDK logs its calls */
	snprintf(calls, sizeof(calls), "%s/calls.%s", option.folder, story->name);
	setenv("FIXTURE_CALLS", calls, 1);
	snprintf(verdicts, sizeof(verdicts), "%s/verdicts", option.folder);
	for (int i = 0; i < 2; i++)
		setenv((const char *[]){DRIVER_SPANS_VARIABLES}[i], spans, 1);
	if (option.turns)
		return story_run_in_turns(
			story, driver, &(struct story_plugin){open_second, close_second}, &files);
	return story_run(story, driver, option.second != NULL ? open_second() : NULL, &files);
}

/* A thread from before the SDK was loaded; it waits for the SDK. */
static struct {
	pthread_mutex_t lock;
	const struct story *story;
	int status;
} early = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *tell_late(void *driver)
{
	pthread_mutex_lock(&early.lock);
	early.status = tell(early.story, *(const struct driver **)driver);
	pthread_mutex_unlock(&early.lock);
	return NULL;
}

static int run_late(const struct story *story)
{
	const struct driver *driver;
	pthread_t thread;

	pthread_mutex_lock(&early.lock);
	early.story = story;
	HOST_CHECK(pthread_create(&thread, NULL, tell_late, &driver) == 0);
	driver = driver_in_use();
	pthread_mutex_unlock(&early.lock);
	HOST_CHECK(pthread_join(thread, NULL) == 0);
	return early.status;
}

static int run_one(void)
{
	for (unsigned i = 0; i < story_count; i++) {
		if (strcmp(stories[i].name, option.story) == 0)
			return tell(&stories[i], driver_in_use());
	}
	fprintf(stderr, "no story %s\n", option.story);
	return 2;
}

static void run_all(void)
{
	const struct driver *driver = option.late ? NULL : driver_in_use();
	int status;

	for (unsigned i = 0; i < story_count; i++) {
		pid_t child;

		if ((stories[i].needs & STORY_ALONE) != 0)
			continue;
		printf("== %s\n", stories[i].name);
		fflush(stdout);
		child = fork();
		HOST_CHECK(child >= 0);
		if (child == 0) {
			status = option.late ? run_late(&stories[i]) : tell(&stories[i], driver);
			fflush(NULL);
			/* Other tests are about the end of a process. */
			_exit(status);
		}
		HOST_CHECK(waitpid(child, &status, 0) == child);
		printf("status %x\n", (unsigned)status);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"plugin", required_argument, NULL, 'p'},  {"open", required_argument, NULL, 'o'},
		{"second", required_argument, NULL, 's'},  {"late", no_argument, NULL, 'l'},
		{"story", required_argument, NULL, 't'},   {"work", required_argument, NULL, 'w'},
		{"samples", required_argument, NULL, 'm'}, {"turns", no_argument, NULL, 'u'},
		{"list", no_argument, NULL, 'n'},          {NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		HOST_CHECK(c != '?');
		if (c == 'p')
			option.plugin = optarg;
		if (c == 's')
			option.second = optarg;
		if (c == 'l')
			option.late = true;
		if (c == 'u')
			option.turns = true;
		if (c == 't')
			option.story = optarg;
		if (c == 'w')
			option.piece_ms = atoi(optarg);
		if (c == 'm')
			option.piece_samples = (unsigned)atoi(optarg);
		if (c == 'n') {
			for (unsigned i = 0; i < story_count; i++) {
				if ((stories[i].needs & STORY_ALONE) == 0)
					puts(stories[i].name);
			}
			return 0;
		}
		if (c == 'o' && strcmp(optarg, "global") == 0)
			option.flags = RTLD_GLOBAL;
		if (c == 'o' && strcmp(optarg, "deepbind") == 0)
			option.flags = RTLD_LOCAL | RTLD_DEEPBIND;
	}
	HOST_CHECK(optind + 1 == argc);
	option.folder = argv[optind];
	if (option.story != NULL)
		return run_one();
	run_all();
	return 0;
}
