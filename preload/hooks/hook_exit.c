/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of a program: ways of ending the process that run no destructors, and the exec family. First what
 * was sampled is sent, because the mapping and the timers end with the program; then comes the real function.
 * Without anything to send they cost one load. APP context; the host may call these from signal handlers, or in a
 * child of vfork, which shares our memory and is left alone.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/compiler.h"
#include "sampler/thread/thread.h"

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

/*
 * Half of the exec family takes its arguments by "...", which C can only hand on by copying them. So
 * each symbol ends in a jump to the real function, with the arguments as the caller made them.
 */
static int no_exec(void)
{
	errno = ENOSYS;
	return -1;
}

/*
 * Does our part and returns the real function. A process without a sample does not wait. The last
 * flush takes the thread's timer away. If the exec fails nobody comes back here, and the thread would
 * never be sampled again. So it gets another timer at once; a successful exec deletes it.
 */
static const void *begin(enum sp_next which)
{
	const void *next;

	sp_lifecycle_leave();
	if (sp_lifecycle_here() == SP_LIFECYCLE_ACTIVE && sp_thread_own != NULL)
		sp_thread_rearm();
	next = sp_next(which);
	return next != NULL ? next : (const void *)no_exec;
}

// clang-format off
#define SP_EXEC(sym) \
	const void *sp_exec_begin_##sym(void); \
	const void *sp_exec_begin_##sym(void) \
	{ \
		return begin(SP_NEXT_##sym); \
	} \
	SP_TAIL_CALL(#sym, "sp_exec_begin_" #sym, "");
// clang-format on

SP_EXEC(execve)
SP_EXEC(execv)
SP_EXEC(execvp)
SP_EXEC(execvpe)
SP_EXEC(execl)
SP_EXEC(execle)
SP_EXEC(execlp)
SP_EXEC(fexecve)
SP_EXEC(execveat)
