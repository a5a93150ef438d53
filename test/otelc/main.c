/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the stories, linked in or, with PLUGIN, opened: otelc-opener <plugin> local|global [story
 * [milliseconds]].
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "test/hosts/host.h"

#ifdef PLUGIN

int main(int argc, char **argv)
{
	void *plugin;
	int (*run)(int, char **);

	HOST_CHECK(argc > 3);
	plugin = dlopen(argv[1],
			RTLD_NOW | (strcmp(argv[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
	if (plugin == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	run = (int (*)(int, char **))dlsym(plugin, "stories_run");
	HOST_CHECK(run != NULL);
	return run(argc - 2, argv + 2);
}

#else

int stories_run(int argc, char **argv);

int main(int argc, char **argv)
{
	return stories_run(argc, argv);
}

#endif
