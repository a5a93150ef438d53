/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a generated plugin, works in it for MS of CPU time, unloads it, and goes on with the next plugin, so that a
 * plugin gets the addresses of another one. Plugin I is FOLDER/I.so and exports kernel_I().
 * Usage: kernels HOW ROUNDS MS FOLDER PLUGINS, with
 *   paths     each plugin has its own path
 *   rename    each plugin is renamed to FOLDER/kernel.so
 *   write     each plugin is written into the same file
 */
#include <dlfcn.h>

#include "test/hosts/host.h"

static void shell(const char *command)
{
	HOST_CHECK(system(command) == 0);
}

int main(int argc, char **argv)
{
	const char *how = argc == 6 ? argv[1] : "";
	const char *folder = argc == 6 ? argv[4] : "";
	int plugins = argc == 6 ? atoi(argv[5]) : 0;

	for (int i = 0; plugins != 0 && i < atoi(argv[2]); i++) {
		char path[512], name[32], command[2048];
		void (*kernel)(int ms);
		void *plugin;

		(void)snprintf(name, sizeof(name), "kernel_%d", i % plugins);
		(void)snprintf(path, sizeof(path), "%s/%d.so", folder, i % plugins);
		(void)snprintf(command, sizeof(command),
			       how[0] == 'r' ? "cp %s %s/new && mv %s/new %s/kernel.so"
					     : "cat %s >%s/kernel.so",
			       path, folder, folder, folder);
		if (how[0] != 'p') {
			shell(command);
			(void)snprintf(path, sizeof(path), "%s/kernel.so", folder);
		}
		plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		HOST_CHECK(plugin != NULL);
		__extension__ kernel = (void (*)(int))dlsym(plugin, name);
		HOST_CHECK(kernel != NULL);
		kernel(atoi(argv[3]));
		HOST_CHECK(dlclose(plugin) == 0);
	}
	printf("done\n");
	return 21;
}
