/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs when the loader brings us in and when the process ends. INIT context: does nothing but
 * look at the kill switches and copy our part of the environment.
 */
#include <stddef.h>
#include <sys/auxv.h>

#include "preload/elf_walk.h"
#include "preload/lifecycle.h"
#include "preload/resolve.h"
#include "sampler/compiler.h"

/*
 * glibc passes argc, argv and envp to constructors (elf/dl-init.c); other C libraries do not, and
 * there the loader's own variables are all we could trust: stay inert.
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
