/* SPDX-License-Identifier: Apache-2.0 */
/* The spans of the other SDK; see second.h. */
#define _GNU_SOURCE
#include "test/conformance/second.h"

#include <pthread.h>
#include <semaphore.h>

#include "test/conformance/story.h"
#include "test/hosts/host.h"

static pthread_t thread;
static sem_t begun;
static sem_t may_end;

/* Every story on this thread uses that SDK; the first one waits meanwhile. */
static void use(const struct driver *driver)
{
	static const struct driver *first;

	if (driver != NULL)
		first = sdk;
	sdk = driver != NULL ? driver : first;
}

/*
 * A start makes a span active as long as the program has attached nothing. After the first attach, attached spans are
 * active, in the whole process, also for a wrapper that attaches none.
 */
static const struct span *if_active(const struct span *s)
{
	return story_used_scopes && sdk->lacks[NEED_NO_SCOPE] == NULL ? NULL : s;
}

static void *keep_open(void *unused)
{
	struct span *a = story_start("other", NULL);

	(void)unused;
	story_shows(a);
	sem_post(&begun);
	while (sem_wait(&may_end) != 0)
		continue;
	story_shows(if_active(a));
	story_finish(a);
	story_shows(NULL);
	return NULL;
}

static void one(const char *name)
{
	struct span *a;

	story_shows(NULL);
	a = story_start(name, NULL);
	story_shows(if_active(a));
	story_finish(a);
	story_shows(NULL);
}

void second_begin(const struct driver *second)
{
	use(second);
	second->set_up(PROVIDER_SAMPLED);
	one("before");
	HOST_CHECK(sem_init(&begun, 0, 0) == 0 && sem_init(&may_end, 0, 0) == 0);
	HOST_CHECK(pthread_create(&thread, NULL, keep_open, NULL) == 0);
	while (sem_wait(&begun) != 0)
		continue;
	use(NULL);
}

void second_end(const struct driver *second)
{
	use(second);
	sem_post(&may_end);
	HOST_CHECK(pthread_join(thread, NULL) == 0);
	one("after");
	use(NULL);
}
