/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library whose constructor runs before that of a preloaded object and opens the publisher: the publisher's
 * thread-local storage has another offset in each thread, and at first exists only in the first one.
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
