/* SPDX-License-Identifier: Apache-2.0 */
/* See hook_memory_name.h. */
#include "preload/hooks/hook_memory_name.h"

#include <stddef.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/publisher.h"
#include "sampler/base/memory_name.h"

/*
 * The kernel has read a name that it took. One that it did not take may be no text at all, but a kernel
 * without such names refuses each, and then the memory itself says what it is.
 */
static void look(long rc, unsigned long what, unsigned long at, unsigned long name)
{
	if (what == SP_MEMORY_NAME_ANON && name != 0)
		sp_publisher_named(at, rc == 0 ? (const char *)name : NULL);
}

int sp_memory_name_prctl(int option, unsigned long what, unsigned long at, unsigned long bytes,
			 unsigned long name)
{
	__typeof__(&prctl) next = SP_NEXT(prctl);
	int rc = next(option, what, at, bytes, name);

	look(rc, what, at, name);
	return rc;
}

/* NOLINTNEXTLINE(readability-function-size): the number and the six arguments of a system call */
long sp_memory_name_syscall(long number, long option, long what, long at, long bytes, long name,
			    long unused)
{
	__typeof__(&syscall) next = SP_NEXT(syscall);
	long rc = next(number, option, what, at, bytes, name, unused);

	look(rc, (unsigned long)what, (unsigned long)at, (unsigned long)name);
	return rc;
}
