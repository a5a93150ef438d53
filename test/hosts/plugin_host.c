/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a plugin that contains the SDK, all with RTLD_LOCAL, as web servers do. Usage: plugin_host <plugin> <span
 * name> <milliseconds>
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "test/hosts/host.h"

int main(int argc, char **argv)
{
	void *plugin;
	void (*run)(const char *span_name, int cpu_ms);

	HOST_CHECK(argc > 3);
	HOST_CHECK(dlsym(RTLD_DEFAULT, "otelc_init_tracer_provider") == NULL);
	dlerror();
	plugin = dlopen(argv[1], RTLD_LOCAL | RTLD_NOW);
	if (plugin == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	run = (void (*)(const char *, int))dlsym(plugin, "plugin_run");
	HOST_CHECK(run != NULL);
	run(argv[2], atoi(argv[3]));
	/* A message that another library left behind would look like this program's. */
	printf("dlerror: %s\n", dlerror() == NULL ? "none" : "somebody's");
	return 16;
}
