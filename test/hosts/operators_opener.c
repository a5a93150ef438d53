/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program without C++ opens plugins that bring their own operators, and closes them again. Prints whose operators
 * each plugin got, and whether dlsym() can find one. Usage: operators_opener PLUGIN...
 */
#include <dlfcn.h>

#include "test/hosts/host.h"

static const char *served(void *plugin)
{
	/* How often its own operators new and delete were called, of all its requests. */
	const char *(*serve)(void) = (const char *(*)(void))dlsym(plugin, "serve");

	HOST_CHECK(serve != NULL);
	return serve();
}

int main(int argc, char **argv)
{
	void *plugin[8];

	HOST_CHECK(argc <= 8);
	printf("operators: %s\n", dlsym(RTLD_DEFAULT, "_Znwm") != NULL ? "yes" : "none");
	for (int round = 0; round < 2; round++) {
		for (int i = 1; i < argc; i++) {
			plugin[i] = dlopen(argv[i], (round ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL);
			HOST_CHECK(plugin[i] != NULL);
			printf("%s\n", served(plugin[i]));
		}
		for (int i = 1; i < argc; i++) {
			printf("%s\n", served(plugin[i]));
			HOST_CHECK(dlclose(plugin[i]) == 0);
		}
	}
	printf("operators: %s\n", dlsym(RTLD_DEFAULT, "_Znwm") != NULL ? "yes" : "none");
	return 0;
}
