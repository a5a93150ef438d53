/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constructor and destructor of the object. The object is loaded into every program that LD_PRELOAD
 * reaches, and most of them never record a span. So at load it only finds the C library's functions, checks
 * the kill switches and copies our variables. Context: INIT.
 */
#include <stddef.h>
#include <sys/auxv.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/compiler.h"

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
	if (argc < 0 || argv == NULL || envp == NULL || envp != argv + argc + 1)
		return;
	sp_lifecycle_load(envp);
}

static __attribute__((destructor)) void unload(void)
{
	sp_lifecycle_end();
}
