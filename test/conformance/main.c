/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every story, each in a process of its own, with the SDK it is linked with or one that it
 * opens. Usage:
 *
 *   main OPTIONS FOLDER      FOLDER gets "verdicts"; stdout tells what a host can see
 *     --plugin FILE          the driver is in a shared object ...
 *     --open local|global|deepbind   ... opened this way before the first story
 *     --late                 ... or by each story, on a thread that was there before
 *     --second FILE          another SDK's driver, whose spans are around those of the story
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
	const char *folder;
} option = {.flags = RTLD_LOCAL};

static const struct driver *open_driver(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW | option.flags);
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

static int tell(const struct story *story, const struct driver *driver)
{
	char spans[4096];
	char verdicts[4096];
	const struct driver *second = option.second != NULL ? open_driver(option.second) : NULL;

	snprintf(spans, sizeof(spans), "%s/spans.%d", option.folder, (int)getpid());
	snprintf(verdicts, sizeof(verdicts), "%s/verdicts", option.folder);
	for (int i = 0; i < 2; i++)
		setenv((const char *[]){DRIVER_SPANS_VARIABLES}[i], spans, 1);
	return story_run(story, driver, second,
			 &(struct story_files){.spans = spans, .verdicts = verdicts});
}

/* A thread from before the SDK; it waits until that is there. */
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

static void run_all(void)
{
	const struct driver *driver = option.late ? NULL : driver_in_use();
	int status;

	for (unsigned i = 0; i < story_count; i++) {
		pid_t child;

		printf("== %s\n", stories[i].name);
		fflush(stdout);
		child = fork();
		HOST_CHECK(child >= 0);
		if (child == 0) {
			status = option.late ? run_late(&stories[i]) : tell(&stories[i], driver);
			fflush(NULL);
			/* What the end of a process does has tests of its own. */
			_exit(status);
		}
		HOST_CHECK(waitpid(child, &status, 0) == child);
		printf("status %x\n", (unsigned)status);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"plugin", required_argument, NULL, 'p'},
		{"open", required_argument, NULL, 'o'},
		{"second", required_argument, NULL, 's'},
		{"late", no_argument, NULL, 'l'},
		{NULL, 0, NULL, 0},
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
		if (c == 'o' && strcmp(optarg, "global") == 0)
			option.flags = RTLD_GLOBAL;
		if (c == 'o' && strcmp(optarg, "deepbind") == 0)
			option.flags = RTLD_LOCAL | RTLD_DEEPBIND;
	}
	HOST_CHECK(optind + 1 == argc);
	option.folder = argv[optind];
	run_all();
	return 0;
}
