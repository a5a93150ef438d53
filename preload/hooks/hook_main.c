/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moment before main(), when all constructors of shared objects have run: where profiles are
 * wanted from the start, as with SPANPROF_PROFILE=always, sampling starts here, and the hook of
 * dlsym() with SPANPROF_HOOK_DLSYM. INIT context.
 *
 * glibc: csu/libc-start.c. The function has seven arguments in every version; they are passed on
 * unread.
 */
#include <stddef.h>

#include "preload/elf/resolve.h"
#include "preload/hooks/hook_dlsym.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_trigger.h"
#include "sampler/base/compiler.h"
#include "sampler/config/config.h"

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

	if (sp_lifecycle_wanted() && sp_config_wants_hook_dlsym())
		sp_hook_dlsym_start();
	sp_lifecycle_main();
	sp_otelcpp_main();
	if (next == NULL)
		__builtin_trap(); /* no C library: there is nothing to return to */
	return next(host_main, argc, argv, init, fini, rtld_fini, stack_end);
}
