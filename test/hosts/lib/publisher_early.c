/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library whose constructor, which runs before that of a preloaded object, opens the publisher: the publisher's
 * thread-local storage is somewhere else in each thread, and there in the first one alone.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "test/hosts/lib/publisher.h"

static __attribute__((constructor)) void open_publisher(void)
{
	void *library = dlopen("libpublisher.so", RTLD_NOW | RTLD_LOCAL);
	publisher_publish *first = library != NULL ? dlsym(library, "publish") : NULL;

	if (first == NULL)
		abort();
	first(0, 0);
}
