/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another build of a library replaces it, at the same addresses, with other frames: rows of the first build must not
 * be applied to the second one.
 * Exit 0 if every walk reaches the outermost frame through the library and main.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>

#include "sampler/region/record.h"
#include "sampler/unwind/rule_cache_sig.h"
#include "sampler/unwind/unwind_sig.h"
#include "test/common/walk.h"

#define ROUNDS 4

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

static void interrupt(void)
{
	raise(SIGUSR1);
}

static void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static unsigned frames_near(const void *fn)
{
	unsigned n = 0;

	for (unsigned i = 0; i < depth; i++)
		n += pc[i] - (uint64_t)(uintptr_t)fn < 512;
	return n;
}

/* The address of its function, or NULL. */
static const void *walk_through(const char *path, int (*main_fn)(void))
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void (*call)(void (*fn)(void));
	const void *at;

	if (lib == NULL)
		return NULL;
	at = dlsym(lib, "reload_call");
	*(const void **)&call = at;
	if (call == NULL)
		return NULL;
	depth = 0;
	call(interrupt);
	if (flags != SP_SAMPLE_ROOTED || frames_near(at) != 1 ||
	    frames_near((const void *)(uintptr_t)main_fn) == 0) {
		fprintf(stderr, "reload: %s: %u frames, flags %#x\n", path, depth, flags);
		return NULL;
	}
	dlclose(lib);
	return at;
}

int main(void)
{
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};

	if (sp_unwind_init(find_symbol) != 0 || sp_rule_cache_init() != 0 ||
	    sigaction(SIGUSR1, &sa, NULL) != 0)
		return 1;
	for (int i = 0; i < ROUNDS; i++) {
		const void *first = walk_through("reload_a.so", main);
		const void *second = walk_through("reload_b.so", main);

		if (first == NULL || second == NULL)
			return 1;
		if (first != second) {
			fprintf(stderr, "reload: loaded at another place, so it proves nothing\n");
			return 1;
		}
	}
	printf("reload: %d times\n", ROUNDS);
	return 0;
}
