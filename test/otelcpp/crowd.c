/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens every object that it is given. Each reads a variable of OpenTelemetry; in those that are plugins with an SDK
 * (churn.cc) it uses the SDK. Prints in how many SDKs functions are replaced. With CROWD_ASKS it is an object without
 * an SDK. Usage: crowd <object>...
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef CROWD_ASKS

static __attribute__((constructor)) void ask(void)
{
	(void)!getenv("OTEL_SDK_DISABLED");
}

#else

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "crowd: not %s\n", #condition);                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Whether the destructor of that plugin's span is a foreign function. */
static int is_replaced(void *plugin)
{
	const void *(*span)(void) = (const void *(*)(void))dlsym(plugin, "churn_span");
	const void *const *const *object;
	Dl_info own;
	Dl_info found;

	CHECK(span != NULL);
	object = span();
	CHECK(dladdr((const void *)*object, &own) != 0 && dladdr(**object, &found) != 0);
	return own.dli_fbase != found.dli_fbase;
}

int main(int argc, char **argv)
{
	int replaced = 0;
	int sdks = 0;

	for (int i = 1; i < argc; i++) {
		void *plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		void (*begin)(void);
		unsigned (*churn)(unsigned rounds);

		CHECK(plugin != NULL);
		begin = (void (*)(void))dlsym(plugin, "churn_begin");
		churn = (unsigned (*)(unsigned))dlsym(plugin, "churn");
		if (begin == NULL || churn == NULL)
			continue;
		begin();
		CHECK(churn(2) == 0);
		replaced += is_replaced(plugin);
		sdks++;
	}
	printf("%d of %d\n", replaced, sdks);
	return 26;
}

#endif
