/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works with two plugins that each bring a copy of the same SDK, unloads one and loads it again at
 * another place, and exchanges the two in one place. Usage: copies <plugin a> <plugin b>
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include "test/hosts/host.h"

#define SPAN_MS 20

struct plugin {
	void *handle;
	void *(*start[2])(const char *name);
	void (*end[2])(void *span);
};

static int mode;

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

/* Spans of both, in each other. */
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
	/* one alone: whatever calls, it is this copy's */
	a = load(argv[1]);
	work(&a, "alone", 0);
	work(&a, "alone", 1);
	b = load(argv[2]);
	both(&a, &b);

	before = base_of(&b);
	unload(&b);
	/* where it was there is now no room */
	hole = mmap((void *)before, 4096, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	HOST_CHECK(hole == (void *)before);
	b = load(argv[2]);
	HOST_CHECK(base_of(&b) != before);
	both(&a, &b);

	/* both gone, and one of them where the other was, or not: the loader's choice */
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
