/* SPDX-License-Identifier: Apache-2.0 */
/* What a program's own loader says it would bring in. Runs in spanprof-run only. */
#ifndef SP_LOADER_H
#define SP_LOADER_H

/*
 * Starts a loader of glibc to list the objects of a program, with the environment's LD_LIBRARY_PATH, and
 * preload as LD_PRELOAD, and waits for it for at most ten seconds. It can do no more than read files. What it wrote, errors among it, at
 * most 1 MiB: anybody's text; free(). NULL with the reason in *why when it was not asked, or did not
 * answer.
 */
char *sp_loader_list(const char *loader, const char *program, const char *preload,
		     const char **why);

#endif
