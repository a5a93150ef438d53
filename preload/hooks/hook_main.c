/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process is met, and its ends: the constructor and the destructor of our object, the moment before
 * main(), the two functions by which a program finds what is to be profiled, getenv() and dlsym(), and the
 * functions that end the process without destructors, or execute another program.
 *
 * The object is loaded into every program that LD_PRELOAD reaches, and most of them never record a span. So
 * at load it only finds the C library's functions, checks the kill switches and copies our variables.
 *
 * Contexts: INIT, APP; the host may call getenv() and the ends in a child of fork or vfork and, what it must not
 * do with getenv(), in a signal handler.
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
	 * Of two copies, as where /etc/ld.so.preload has one and LD_PRELOAD another, each would take the hooks of the
	 * other for the SDK's functions, and call them without end. So the first one profiles, and the others only
	 * hand calls on.
	 */
	if (sp_elf_is_before("spanprof_v1_label_push"))
		return;
	if (argc < 0 || argv == NULL || envp == NULL || envp != argv + argc + 1)
		return;
	sp_lifecycle_load(envp);
}

static __attribute__((destructor)) void unload(void)
{
	sp_lifecycle_end();
}

/*
 * getenv(): an SDK asks for variables that begin with OTEL_ before its first span, from inside the object
 * that holds it. Any other call goes on to the real function after a comparison or two, by a jump.
 *
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

/*
 * SPANPROF_HOOK_DLSYM: a program that takes functions of a C SDK with dlsym() gets our hooks of them,
 * which it would not find, because dlsym() of a handle does not search the preloaded object.
 *
 * Nothing is exported for it, and without the variable nothing is done. With it, the slots of objects that
 * import dlsym() are changed to a function of ours. It goes on to the real one by a jump, so that the
 * real one sees the program's object as its caller (RTLD_NEXT and RTLD_DEFAULT work as before). Objects that
 * the program loads later are looked at in its next dlsym(), which it needs to call what it has loaded.
 */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char sp_dlsym_entry[] __attribute__((visibility("hidden")));

static struct sp_elf_range own;
/* The loader's count of objects when all were examined; 0 = examine again. */
static _Atomic unsigned long long looked_at;

/* An importer's slot, if it still holds the real function or nothing yet. */
static const void *choose(const struct sp_elf_range *importer, const char *name, const void *now,
			  bool lazy)
{
	return strcmp(name, "dlsym") == 0 && importer->start != own.start &&
			       (lazy || now == sp_next(SP_NEXT_dlsym))
		       ? sp_dlsym_entry
		       : NULL;
}

/* Below a filter what could not be changed at first never can be. */
static void look_through(void)
{
	unsigned long long adds = sp_elf_adds();
	bool is_done = sp_relocations_visit(choose) || sp_seccomp_is_on();

	atomic_store_explicit(&looked_at, is_done ? adds : 0, memory_order_relaxed);
}

/* Whose name it is; SP_NEXT_SDK_N if it is none that we hook. */
static enum sp_next hooked(const char *name)
{
	unsigned i = 0;

	while (i < SP_NEXT_SDK_N && strcmp(name, sp_next_name((enum sp_next)i)) != 0)
		i++;
	return (enum sp_next)i;
}

/* The hook of a function of the copy whose spans are labelled; any other function as it is. */
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

/* With the arguments of dlsym(): where the call goes. */
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
 * The moment before main(), when all constructors of shared objects have run: where profiles are wanted from
 * the start, as with SPANPROF_PROFILE=always, sampling starts here, and the hook of dlsym() with its variable.
 *
 * glibc: csu/libc-start.c. The function has seven arguments in every version; they are passed on unread.
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
		__builtin_trap(); /* no C library: there is nothing to return to */
	return next(host_main, argc, argv, init, fini, rtld_fini, stack_end);
}

/*
 * The ends of a program. First what was sampled is sent, because the mapping and the timers end with the
 * program; then comes the real function. Without anything to send they cost one load. A child of vfork, which
 * shares our memory, is left alone.
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
			(void)syscall(SYS_exit_group, status); \
	}
// clang-format on

SP_EXIT(_exit)
SP_EXIT(_Exit)
SP_EXIT(quick_exit)

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
