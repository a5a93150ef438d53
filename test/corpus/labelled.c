/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded beside the profiler: gives each thread of a program without spans a label from its begin to its end,
 * because the exporter looks only at threads in spans. Comes before our object in LD_PRELOAD, because the loader
 * calls constructors from the last object on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "preload/spanprof.h"

struct start {
	void *(*routine)(void *);
	void *arg;
};

static void label(void)
{
	(void)spanprof_label_push("00000000000000b1", "waits");
}

static void *labelled(void *arg)
{
	struct start start = *(struct start *)arg;

	free(arg);
	label();
	return start.routine(start.arg);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*routine)(void *),
		   void *arg)
{
	__typeof__(&pthread_create) next =
		(__typeof__(&pthread_create))dlsym(RTLD_NEXT, "pthread_create");
	struct start *start = malloc(sizeof(*start));
	int err;

	if (start == NULL)
		return next(thread, attr, routine, arg);
	*start = (struct start){routine, arg};
	err = next(thread, attr, labelled, start);
	if (err != 0)
		free(start);
	return err;
}

__attribute__((constructor)) static void begin(void)
{
	/* A forked child begins without labels. */
	(void)pthread_atfork(NULL, NULL, label);
	label();
}
