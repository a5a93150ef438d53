/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a library with RTLD_DEEPBIND, whose threads do all the work. Prints the process's CPU time, and the number of
 * system calls that a signal interrupted. Usage: deepbind THREADS MILLISECONDS [FILE]; the threads begin when FILE exists,
 * which may take 30 s.
 */
#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <unistd.h>

#include "test/hosts/host.h"

static void *do_nothing(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t first;
	char path[4096];
	int (*run)(int threads, int ms, int *interrupted);
	int interrupted = -1;
	void *library;

	HOST_CHECK(argc >= 3);
	/* With the first thread of a process the C library installs its handler for signal 33. */
	HOST_CHECK(pthread_create(&first, NULL, do_nothing, NULL) == 0);
	HOST_CHECK(pthread_join(first, NULL) == 0);
	snprintf(path, sizeof(path), "%s/../libown_threads.so", dirname(strdup(argv[0])));
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	HOST_CHECK(library != NULL);
	*(void **)&run = dlsym(library, "own_threads_run");
	HOST_CHECK(run != NULL);
	if (argc > 3)
		host_wait_for_file(argv[3]);
	HOST_CHECK(run(atoi(argv[1]), atoi(argv[2]), &interrupted) == 0);
	printf("cpu %lld\ninterrupted %d\n", (long long)host_clock_ns(CLOCK_PROCESS_CPUTIME_ID),
	       interrupted);
	return 0;
}
