/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works with two plugins that each contain a copy of the same SDK. Unloads a plugin and loads it again at another
 * address, and loads a plugin at the address of the other plugin. Usage: copies <plugin a> <plugin b> [confined]
 *
 * With "confined" the host installs a seccomp filter that allows everything while one plugin is loaded, and then
 * loads a library. Only the first span and the first look-up after that may walk over the loaded objects more often
 * than before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "test/hosts/host.h"

#define SPAN_MS 20

struct plugin {
	void *handle;
	void *(*start[2])(const char *name);
	void (*end[2])(void *span);
};

static int mode;
/* Volatile: the C library declares that dlsym() calls no function of this file. */
static volatile unsigned walks;

/* The program's own function, so that it sees walks that its objects make. */
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg)
{
	static __typeof__(&dl_iterate_phdr) next;

	walks++;
	if (next == NULL)
		next = (__typeof__(next))dlsym(RTLD_NEXT, "dl_iterate_phdr");
	return next(visit, arg);
}

static struct plugin load(const char *path)
{
	struct plugin p = {.handle = dlopen(path, mode)};

	if (p.handle == NULL)
		fprintf(stderr, "%s\n", dlerror());
	HOST_CHECK(p.handle != NULL);
	p.start[0] = (void *(*)(const char *))dlsym(p.handle, "copy_start");
	p.start[1] = (void *(*)(const char *))dlsym(p.handle, "copy_start_jump");
	p.end[0] = (void (*)(void *))dlsym(p.handle, "copy_end");
	p.end[1] = (void (*)(void *))dlsym(p.handle, "copy_end_jump");
	HOST_CHECK(p.start[0] && p.start[1] && p.end[0] && p.end[1]);
	return p;
}

static uintptr_t base_of(const struct plugin *p)
{
	struct link_map *map = NULL;

	HOST_CHECK(dlinfo(p->handle, RTLD_DI_LINKMAP, &map) == 0);
	return map->l_addr;
}

static void work(const struct plugin *p, const char *name, int how)
{
	void *span = p->start[how](name);

	host_burn_ms(SPAN_MS);
	p->end[how](span);
}

static unsigned walks_of_a_span(const struct plugin *p)
{
	unsigned before = walks;

	work(p, "alone", 0);
	return walks - before;
}

static unsigned walks_of_a_look_up(void)
{
	unsigned before = walks;

	HOST_CHECK(dlsym(RTLD_DEFAULT, "strlen") != NULL);
	return walks - before;
}

static void confine(const struct plugin *alone)
{
	struct sock_filter all = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	struct sock_fprog program = {1, &all};
	unsigned of_span = walks_of_a_span(alone);
	unsigned of_look_up = walks_of_a_look_up();

	HOST_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	HOST_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	HOST_CHECK(dlopen("libthread_db.so.1", RTLD_LAZY) != NULL);
	(void)walks_of_a_look_up();
	HOST_CHECK(walks_of_a_look_up() <= of_look_up);
	work(alone, "alone", 0);
	HOST_CHECK(walks_of_a_span(alone) <= of_span);
}

/* Spans of both plugins, nested. */
static void both(const struct plugin *a, const struct plugin *b)
{
	for (int i = 0; i < 4; i++) {
		void *of_a = a->start[i & 1]("of a");
		void *of_b = b->start[i >> 1]("of b");

		host_burn_ms(SPAN_MS);
		b->end[i & 1](of_b);
		host_burn_ms(SPAN_MS);
		a->end[i >> 1](of_a);
	}
}

static void unload(struct plugin *p)
{
	HOST_CHECK(dlclose(p->handle) == 0);
}

int main(int argc, char **argv)
{
	struct plugin a;
	struct plugin b;
	uintptr_t before;
	void *hole;

	HOST_CHECK(argc > 2);
	mode = RTLD_NOW | RTLD_LOCAL;
	/* one plugin alone: every caller gets this copy */
	a = load(argv[1]);
	work(&a, "alone", 0);
	work(&a, "alone", 1);
	if (argc > 3)
		confine(&a);
	b = load(argv[2]);
	both(&a, &b);

	before = base_of(&b);
	unload(&b);
	/* the former address is not free now */
	hole = mmap((void *)before, 4096, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	HOST_CHECK(hole == (void *)before);
	b = load(argv[2]);
	HOST_CHECK(base_of(&b) != before);
	both(&a, &b);

	/* both are unloaded, and the loader decides whether one gets the other's address */
	unload(&a);
	unload(&b);
	b = load(argv[2]);
	work(&b, "alone again", 0);
	work(&b, "alone again", 1);
	a = load(argv[1]);
	both(&a, &b);
	printf("dlerror: %s\n", dlerror() == NULL ? "none" : "somebody's");
	return 22;
}
