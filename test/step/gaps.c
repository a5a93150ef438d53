/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk through a program whose segments have gaps between them (module.mk links it so): then _dl_find_object
 * returns one segment at a time, and the unwind data is in another segment than the code. Exit 0 if the walk reaches
 * the outermost frame through main, 1 if not or if there is no gap.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

#include "sampler/region/record.h"
#include "sampler/unwind/unwind_sig.h"
#include "test/common/walk.h"

static struct sp_stack_bounds bounds;
static uint64_t pc[SP_FRAMES_MAX];
static unsigned depth;
static uint16_t flags;

static void on_signal(int sig, siginfo_t *si, void *ucontext)
{
	(void)sig;
	(void)si;
	depth = walk_stack(ucontext, &bounds, pc, SP_FRAMES_MAX, &flags);
}

static void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

int main(void)
{
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	struct dl_find_object found;
	unsigned in_main = 0;

	if (_dl_find_object((void *)(uintptr_t)main, &found) != 0 ||
	    (found.dlfo_eh_frame >= found.dlfo_map_start &&
	     found.dlfo_eh_frame < found.dlfo_map_end)) {
		fprintf(stderr, "gaps: this program has none, so it proves nothing\n");
		return 1;
	}
	if (sp_unwind_init(find_symbol) != 0 || sigaction(SIGUSR1, &sa, NULL) != 0)
		return 1;
	raise(SIGUSR1);
	for (unsigned i = 0; i < depth; i++)
		in_main += pc[i] - (uint64_t)(uintptr_t)main < 512;
	printf("gaps: %u frames, %u in main, flags %#x\n", depth, in_main, flags);
	return flags == SP_SAMPLE_ROOTED && in_main > 0 ? 0 : 1;
}
