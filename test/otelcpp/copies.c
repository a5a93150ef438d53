/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells a story in two plugins by turns, each of which has an SDK of its own inside. The second is
 * unloaded and loaded again in between. Usage: copies <plugin> <plugin> <story> <milliseconds>
 */
#include <dlfcn.h>

#include "test/hosts/host.h"

/* main() of test/otelcpp/stories.cc, by another name */
#define STORIES "_Z12stories_mainiPPc"

static void *tell(const char *path, char **argv)
{
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*run)(int, char **);

	if (plugin == NULL)
		fprintf(stderr, "%s\n", dlerror());
	HOST_CHECK(plugin != NULL);
	run = (int (*)(int, char **))dlsym(plugin, STORIES);
	HOST_CHECK(run != NULL);
	HOST_CHECK(run(3, argv) == 0);
	return plugin;
}

int main(int argc, char **argv)
{
	char *story[] = {argv[0], argv[3], argv[4], NULL};
	void *second;

	HOST_CHECK(argc == 5);
	(void)tell(argv[1], story);
	second = tell(argv[2], story);
	(void)tell(argv[1], story);
	HOST_CHECK(dlclose(second) == 0);
	(void)tell(argv[2], story);
	(void)tell(argv[1], story);
	return 25;
}
