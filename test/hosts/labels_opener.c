/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a plugin that labels its work. Usage: labels_opener <plugin> <story> */
#include <dlfcn.h>

#include "test/hosts/host.h"

int main(int argc, char **argv)
{
	void *plugin;
	int (*run)(const char *story);

	HOST_CHECK(argc > 2);
	plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	HOST_CHECK(plugin != NULL);
	run = (int (*)(const char *))dlsym(plugin, "labels_run");
	HOST_CHECK(run != NULL);
	return run(argv[2]);
}
