/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getenv: an SDK asks for variables that begin with OTEL_ before its first span, from inside the
 * object that holds it. Any other call goes on to the real function after a comparison or two, by
 * a jump. Contexts: INIT, APP; the host may call it in a child of fork or vfork and, though it must
 * not, in a signal handler.
 */
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "preload/elf/resolve.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_trigger.h"
#include "sampler/base/compiler.h"

char *getenv(const char *name);

/*
 * The name may be shorter, so this reads one byte after the other; and none where the C library reads none,
 * because there are no variables (clearenv()).
 */
static bool is_about_otel(const char *name)
{
	return environ != NULL && name[0] == 'O' && name[1] == 'T' && name[2] == 'E' &&
	       name[3] == 'L' && name[4] == '_';
}

/* The return address must be in the object that asks, so this function itself is exported. */
SP_EXPORT char *getenv(const char *name)
{
	__typeof__(&getenv) next;

	if (__builtin_expect(is_about_otel(name), 0))
		sp_otelcpp_asked(__builtin_return_address(0));
	next = SP_NEXT(getenv);
	return next != NULL ? next(name) : NULL;
}
