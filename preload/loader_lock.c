/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and freeing the loader's lock. Contexts: BG (find, before the exporter is loaded), INIT
 * (forked child). Nothing exports the lock's place, but it lies in the loader's variables, which are
 * one object with a name, and whoever is inside a callback of dl_iterate_phdr() owns it: it is the
 * one recursive mutex there with the caller's thread id. If not exactly one is like that, none is.
 *
 * Readers leave the list as it is. Whoever changes it, dlopen() or dlclose(), takes the same lock, and
 * leaves a forked child objects that are listed and no longer mapped; but it first says so to
 * debuggers, in r_debug (<link.h>, elf/dl-load.c, elf/dl-close.c).
 */
#define _GNU_SOURCE
#include "preload/loader_lock.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/elf_walk.h"
#include "sampler/compiler.h"

/* struct rtld_global has 4.3 KiB in glibc 2.36; the lock is at 2,608 (x86-64). */
#define LOOK_BYTES 8192U

/*
 * pthread_mutex_t as every 64-bit glibc has it: part of its ABI, because static initializers are
 * compiled into programs (bits/struct_mutex.h).
 */
struct mutex {
	_Atomic int lock;
	_Atomic unsigned count;
	_Atomic int owner;
	_Atomic unsigned users;
	_Atomic int kind;
};
_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "the beginning of one");

/* struct r_debug_extended of glibc 2.35 and later: one for each namespace. */
struct spaces {
	struct r_debug base;
	struct spaces *next; /* with r_version 2 */
};

/* BG writes them, with the fork gate entered. */
static struct mutex *list_lock;
static const struct spaces *spaces;

static int look(_Atomic int *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static bool is_held_once(struct mutex *m, int tid)
{
	return look(&m->owner) == tid && look(&m->lock) != 0 &&
	       look(&m->kind) == PTHREAD_MUTEX_RECURSIVE &&
	       atomic_load_explicit(&m->count, memory_order_relaxed) == 1 &&
	       atomic_load_explicit(&m->users, memory_order_relaxed) == 1;
}

struct search {
	uintptr_t from;
	uintptr_t end;
	int tid;
	struct mutex *found;
	unsigned n;
};

static int inside(struct dl_phdr_info *info SP_UNUSED, size_t size SP_UNUSED, void *arg)
{
	struct search *s = arg;

	for (uintptr_t at = s->from; at + sizeof(pthread_mutex_t) <= s->end;
	     at += _Alignof(pthread_mutex_t)) {
		if (!is_held_once((struct mutex *)at, s->tid))
			continue;
		s->found = (struct mutex *)at;
		s->n++;
	}
	return 1;
}

void sp_loader_lock_find(void)
{
	uintptr_t variables = (uintptr_t)sp_elf_find("_rtld_global", NULL);
	const struct spaces *told = sp_elf_find("_r_debug", NULL);
	struct sp_elf_range loader;
	struct search s;

	if (variables == 0 || told == NULL || list_lock != NULL)
		return;
	loader = sp_elf_object_at((const void *)variables);
	s = (struct search){
		.from = variables,
		.end = loader.start + loader.size,
		.tid = (int)syscall(SYS_gettid),
	};
	if (s.end > s.from + LOOK_BYTES)
		s.end = s.from + LOOK_BYTES;
	(void)dl_iterate_phdr(inside, &s);
	if (s.n != 1 || look(&s.found->owner) == s.tid)
		return;
	spaces = told;
	list_lock = s.found;
}

static bool is_list_whole(void)
{
	const struct spaces *s = spaces;

	/* 16 namespaces are all there can be (DL_NNS) */
	for (int i = 0; i < 16 && s != NULL; i++) {
		if (s->base.r_state != RT_CONSISTENT)
			return false;
		s = s->base.r_version >= 2 ? s->next : NULL;
	}
	return true;
}

bool sp_loader_lock_forked(void)
{
	struct mutex *m = list_lock;

	if (m == NULL || (look(&m->lock) == 0 && look(&m->owner) == 0))
		return true;
	if (!is_list_whole())
		return false;
	atomic_store_explicit(&m->count, 0, memory_order_relaxed);
	atomic_store_explicit(&m->owner, 0, memory_order_relaxed);
	atomic_store_explicit(&m->users, 0, memory_order_relaxed);
	atomic_store_explicit(&m->lock, 0, memory_order_relaxed);
	return true;
}
