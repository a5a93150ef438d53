/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start and the ends of a process: the constructor and the destructor of our object, the moment
 * before main(), the functions by which an SDK is found, getenv(), __register_atfork(), dlsym() and
 * fork(), and the functions that end the process without destructors, or execute another program.
 *
 * The object is loaded into every program that LD_PRELOAD reaches, and most of them never record a
 * span. So at load it only finds the C library's functions, checks the kill switches and copies our
 * variables.
 *
 * Contexts: INIT, APP. The host may call getenv(), fork() and the functions that end a process in a
 * child of fork() or vfork(), and in a signal handler (getenv() is not allowed there, but programs
 * do it).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/sdk/otelc/adapter_otelc.h"
#include "preload/sdk/otelcpp/adapter_otelcpp.h"
#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"
#include "sampler/config/config_table.h"
#include "sampler/thread/thread.h"

/*
 * glibc passes argc, argv and envp to constructors (elf/dl-init.c). Other C libraries do not; there
 * the environment cannot be trusted, and we stay inert.
 */
static __attribute__((constructor)) void load(int argc, char **argv, char **envp)
{
	sp_next_early();
	sp_elf_startup();
	if (getauxval(AT_SECURE) != 0)
		return;
	/*
	 * Two copies of our object, for example one from /etc/ld.so.preload and one from
	 * LD_PRELOAD, would each take the hooks of the other for the SDK's functions, and call each
	 * other without end. So the first copy profiles, and the other copies only hand calls on.
	 */
	if (sp_elf_is_before("spanprof_v1_label_push"))
		return;
	if (argc < 0 || argv == NULL || envp == NULL || envp != argv + argc + 1)
		return;
	sp_lifecycle_load(envp, sp_elf_own_path());
}

static __attribute__((destructor)) void unload(void)
{
	sp_lifecycle_end();
}

/*
 * getenv(): before its first span an SDK reads variables that begin with OTEL_, and its call comes
 * from the object that contains it. Any other call jumps to the real function after a comparison or
 * two.
 *
 * The name may be shorter than OTEL_, so the bytes are read one after the other. Without variables
 * (clearenv()) the C library reads no byte of the name, and neither do we.
 */
static bool is_about_otel(const char *name)
{
	return environ != NULL && name[0] == 'O' && name[1] == 'T' && name[2] == 'E' &&
	       name[3] == 'L' && name[4] == '_';
}

/* No SP_TAIL_CALL: the return address of this function must be in the object that asks. */
SP_EXPORT char *getenv(const char *name)
{
	__typeof__(&getenv) next;

	if (__builtin_expect(is_about_otel(name), 0))
		sp_otelcpp_asked(__builtin_return_address(0));
	next = SP_NEXT(getenv);
	return next != NULL ? next(name) : NULL;
}

/*
 * In libc.so.6 since glibc 2.3.2. pthread_atfork() is linked into each object that calls it, and
 * calls this function.
 */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);

/*
 * An SDK that reads no variable is found when its random number generator registers a fork handler.
 */
SP_EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
				void *dso)
{
	__typeof__(&__register_atfork) next = SP_NEXT(__register_atfork);
	int err = next != NULL ? next(prepare, parent, child, dso) : ENOSYS;

	if (prepare == NULL && parent == NULL && child != NULL)
		sp_otelcpp_forks((const void *)(uintptr_t)child);
	return err;
}

/*
 * SPANPROF_HOOK_DLSYM: dlsym() of a handle does not search the preloaded object, so a program that
 * gets functions of a C SDK by dlsym() would not find our hooks. With this variable it gets them.
 *
 * We export no dlsym(). With the variable, the slots of objects that import dlsym() point to a
 * function of ours. It jumps to the real dlsym(), which therefore sees the program's object as its
 * caller (RTLD_NEXT and RTLD_DEFAULT work as before). If the program loads an object later, we
 * examine it at the next dlsym(), without which the program cannot call a function of the object.
 */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char sp_dlsym_entry[] __attribute__((visibility("hidden")));

static struct sp_elf_range own;
/* The loader's count of objects when all were examined; 0 = examine again. */
static _Atomic unsigned long long looked_at;

/* Changes an importer's slot if it still holds the real function, or is not bound yet. */
static const void *choose(const struct sp_elf_range *importer, const char *name, const void *now,
			  bool lazy)
{
	return strcmp(name, "dlsym") == 0 && importer->start != own.start &&
			       (lazy || now == sp_next(SP_NEXT_dlsym))
		       ? sp_dlsym_entry
		       : NULL;
}

/*
 * Changes the slots of all objects. Below a seccomp filter, a slot that we could not change at
 * first can never be changed, so one pass suffices.
 */
static void look_through(void)
{
	unsigned long long adds = sp_elf_adds();
	bool is_done = sp_relocations_visit(choose) || sp_seccomp_is_on();

	atomic_store_explicit(&looked_at, is_done ? adds : 0, memory_order_relaxed);
}

/* The row of that name among the hooked functions of SDKs; SP_NEXT_SDK_N if there is none. */
static enum sp_next hooked(const char *name)
{
	unsigned i = 0;

	while (i < SP_NEXT_SDK_N && strcmp(name, sp_next_name((enum sp_next)i)) != 0)
		i++;
	return (enum sp_next)i;
}

/*
 * Returns our hook if the name is a function of the SDK copy whose spans are labelled, else the
 * real function.
 */
static void *look_up(void *handle, const char *name)
{
	__typeof__(&dlsym) real = SP_NEXT(dlsym);
	void *found = real(handle, name);
	int saved = errno;
	void *hook = found != NULL ? sp_elf_find_in(&own, name) : NULL;

	if (hook != NULL && !sp_otelc_is_labelled(hooked(name), found))
		hook = NULL;
	errno = saved;
	return hook != NULL ? hook : found;
}

/* Called with the arguments of dlsym(); returns the function to jump to. */
const void *sp_dlsym_target(const void *handle, const char *name);
const void *sp_dlsym_target(const void *handle, const char *name)
{
	int saved = errno;

	if (atomic_load_explicit(&looked_at, memory_order_relaxed) != sp_elf_adds())
		look_through();
	errno = saved;
	return handle != RTLD_DEFAULT && handle != RTLD_NEXT && name != NULL &&
			       hooked(name) != SP_NEXT_SDK_N
		       ? (const void *)look_up
		       : sp_next(SP_NEXT_dlsym);
}

SP_TAIL_CALL("sp_dlsym_entry", "sp_dlsym_target", ".hidden sp_dlsym_entry");

static void start_dlsym(void)
{
	if (sp_next(SP_NEXT_dlsym) == NULL)
		return;
	own = sp_elf_object_at(__ehdr_start);
	look_through();
}

/*
 * The moment before main(), when all constructors of shared objects have run. With
 * SPANPROF_PROFILE=always or another reason to profile from the start, sampling starts here, and so
 * does the hook of dlsym() if its variable is set.
 *
 * glibc: csu/libc-start.c. The function has seven arguments in every version; they are passed on
 * unread.
 */
int __libc_start_main(int (*host_main)(int, char **, char **), int argc, char **argv,
		      void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
		      void *stack_end);

/* The C library decides how many parameters this has. */
// NOLINTNEXTLINE(readability-function-size)
SP_EXPORT int __libc_start_main(int (*host_main)(int, char **, char **), int argc, char **argv,
				void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
				void *stack_end)
{
	__typeof__(&__libc_start_main) next = SP_NEXT(__libc_start_main);

	if (sp_lifecycle_wanted() && sp_config_says(SP_VAR_HOOK_DLSYM, "true"))
		start_dlsym();
	sp_lifecycle_main();
	sp_otelcpp_main();
	if (next == NULL)
		__builtin_trap(); /* without a C library there is no caller to return to */
	return next(host_main, argc, argv, init, fini, rtld_fini, stack_end);
}

static long no_call(void)
{
	errno = ENOSYS;
	return -1;
}

static const void *real(enum sp_next which)
{
	const void *next = sp_next(which);

	return next != NULL ? next : (const void *)no_call;
}

/*
 * fork(). A child that has ended may have asked this process to start an exporter. The hook ends in
 * a jump to the real function, so no frame of ours is on the stack of the new child.
 */
const void *sp_fork_begin(void);
const void *sp_fork_begin(void)
{
	sp_lifecycle_before_fork();
	return real(SP_NEXT_fork);
}

SP_TAIL_CALL("fork", "sp_fork_begin", "");

/*
 * The functions that end a process. First the samples are sent, because the region and the timers
 * end with the process; then comes the real function. Without samples the hook costs one load. A
 * child of vfork(), which shares our memory, sends nothing.
 */
// clang-format off
#define SP_EXIT(sym) \
	SP_EXPORT _Noreturn void sym(int status) \
	{ \
		__typeof__(&(sym)) next; \
		sp_lifecycle_end(); \
		next = SP_NEXT(sym); \
		if (next != NULL) \
			next(status); \
		for (;;) \
			(void)sp_syscall_always(SYS_exit_group, status); \
	}
// clang-format on

SP_EXIT(_exit)
SP_EXIT(_Exit)
SP_EXIT(quick_exit)

/*
 * Half of the exec functions take their arguments by "...", which C can only hand on by copying. So
 * each hook ends in a jump to the real function, with the arguments of its caller.
 *
 * Sends the samples and returns the real function. A process without a sample does not wait. The
 * last flush deletes the thread's timer. A failed exec returns to the program and not to us, so
 * without a timer the thread would never be sampled again. So the thread gets another timer here; a
 * successful exec deletes it.
 */
static const void *begin(enum sp_next which)
{
	sp_lifecycle_before_exec();
	if (sp_lifecycle_here() == SP_LIFECYCLE_ACTIVE && sp_thread_own != NULL)
		sp_thread_rearm();
	return real(which);
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
