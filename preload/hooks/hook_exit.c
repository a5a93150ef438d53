/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways of ending the process that run no destructors: a flush, then the real function. APP context;
 * the host may call these from signal handlers. Without anything to flush they cost one load.
 */
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/compiler.h"

static _Noreturn void leave(int status)
{
	for (;;)
		(void)syscall(SYS_exit_group, status);
}

SP_EXPORT _Noreturn void _exit(int status)
{
	sp_lifecycle_end();
	__typeof__(&_exit) next = SP_NEXT(_exit);

	if (next != NULL)
		next(status);
	leave(status);
}

SP_EXPORT _Noreturn void _Exit(int status)
{
	sp_lifecycle_end();
	__typeof__(&_Exit) next = SP_NEXT(_Exit);

	if (next != NULL)
		next(status);
	leave(status);
}

SP_EXPORT _Noreturn void quick_exit(int status)
{
	__typeof__(&quick_exit) next = SP_NEXT(quick_exit);

	sp_lifecycle_end();
	if (next != NULL)
		next(status);
	leave(status);
}
