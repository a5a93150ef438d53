/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads call virtual functions of an SDK in a plugin. Meanwhile other threads put our functions into the slots of
 * its vtables and remove them again, more plugins with an SDK are loaded and unloaded, and forked children do the
 * same. Every call reaches the SDK, once, and in the end each page of the plugin has its original permissions.
 * Usage: vtable_slots [plugins that come and go, and children]
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/elf/elf_walk.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/sdk/otelcpp/adapter_otelcpp.h"
#include "sampler/base/log.h"

#define CALLERS 3U
#define PATCHERS 2U
#define ENOUGH_DEFAULT 100UL
#define PAGES_MAX 4096U
#define CHILD_SECONDS 30U

/*
 * A host's thread in dlopen() or dlclose() may hold the loader's lock at a fork, too. sp_fork_barrier_enter()
 * separates only our own sections from forks, so the test separates those itself.
 */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned failures;
static unsigned long enough;
static _Atomic unsigned long comings;
static _Atomic unsigned long children;
static _Atomic unsigned long calls;
static _Atomic unsigned long patches;
static char folder[PATH_MAX];

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition) && atomic_fetch_add(&failures, 1) < 10)                           \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                    \
	} while (0)

/*
 * A thread that sees an object in the loader's list also sees everything before it was loaded: the list has a lock.
 * The thread sanitizer does not know that lock, because the loader was built without the sanitizer. So this variable
 * shows it the order.
 */
static _Atomic unsigned long loads;

struct walk {
	int (*visit)(struct dl_phdr_info *, size_t, void *);
	void *arg;
};

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct walk *w = arg;

	/* pairs with open_plugin() */
	(void)atomic_load_explicit(&loads, memory_order_acquire);
	return w->visit(info, size, w->arg);
}

int dl_iterate_phdr(int (*each)(struct dl_phdr_info *, size_t, void *), void *arg)
{
	static __typeof__(&dl_iterate_phdr) _Atomic next;
	struct walk w = {.visit = each, .arg = arg};

	if (atomic_load_explicit(&next, memory_order_relaxed) == NULL)
		atomic_store_explicit(
			&next, (__typeof__(&dl_iterate_phdr))dlsym(RTLD_NEXT, "dl_iterate_phdr"),
			memory_order_relaxed);
	return atomic_load_explicit(&next, memory_order_relaxed)(visit, &w);
}

static bool is_over(void)
{
	return atomic_load(&comings) >= enough && atomic_load(&children) >= enough;
}

/* test/otelcpp/churn.cc */
struct plugin {
	void *handle;
	void (*begin)(void);
	unsigned (*churn)(unsigned rounds);
	long (*open)(void);
	const void *(*span)(void);
};

static struct plugin steady;

/*
 * The thread sanitizer takes the loader's copy of a path for shared without a lock, except its whole words
 * (tsan_interceptors_posix.cpp, dl_iterate_phdr_cb). So more slashes fill the last word, wherever the project lies.
 */
static const char *path_of(const char *build, char path[PATH_MAX])
{
	static const char slashes[] = "////////";
	size_t bytes =
		(size_t)snprintf(path, PATH_MAX, "%.3000s/%s/libchurn.so", folder, build) + 1;

	(void)snprintf(path, PATH_MAX, "%.3000s%s%s/libchurn.so", folder, slashes + (bytes + 7) % 8,
		       build);
	return path;
}

static bool open_plugin(const char *build, struct plugin *p)
{
	char path[PATH_MAX];

	atomic_fetch_add_explicit(&loads, 1, memory_order_release);
	p->handle = dlopen(path_of(build, path), RTLD_NOW | RTLD_LOCAL);
	if (p->handle == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return false;
	}
	*(void **)&p->begin = dlsym(p->handle, "churn_begin");
	*(void **)&p->churn = dlsym(p->handle, "churn");
	*(void **)&p->open = dlsym(p->handle, "churn_open");
	*(void **)&p->span = dlsym(p->handle, "churn_span");
	return p->begin != NULL && p->churn != NULL && p->open != NULL && p->span != NULL;
}

/* The SDK does this when its provider is made, by our getenv(). */
static void asks(const struct plugin *p)
{
	sp_otelcpp_asked((const void *)p->churn);
}

static void *call(void *arg)
{
	(void)arg;
	while (!is_over()) {
		EXPECT(steady.churn(10) == 0);
		atomic_fetch_add_explicit(&calls, 10, memory_order_relaxed);
		(void)sched_yield();
	}
	return NULL;
}

/* All slots are in one or two pages. If a thread left a page protected, another thread's write would fail. */
static void *patch(void *arg)
{
	static const enum sp_otelcpp_real which[] = {
		SP_OTELCPP_REAL_END,
		SP_OTELCPP_REAL_RENAME,
		SP_OTELCPP_REAL_SET_ATTRIBUTE,
		SP_OTELCPP_REAL_D1,
	};
	const void *const *vptr = *(const void *const *const *)steady.span();
	struct sp_otelcpp *sdk = sp_otelcpp_with(SP_OTELCPP_TYPE_SPAN, vptr);
	unsigned i = (unsigned)(uintptr_t)arg;

	EXPECT(sdk != NULL);
	for (; sdk != NULL && !is_over(); i++) {
		enum sp_otelcpp_real real = which[i % SP_ARRAY_LEN(which)];
		const unsigned slots[] = {
			sdk->names->slot_end,
			sdk->names->slot_end - SP_OTELCPP_SLOT_RENAME_BEFORE_END,
			SP_OTELCPP_SLOT_SET_ATTRIBUTE,
			SP_OTELCPP_SLOT_D1,
		};
		const void *function = i / SP_ARRAY_LEN(which) % 2 == 0
					       ? sp_otelcpp_hooks[real]
					       : sp_otelcpp_real(sdk, real);

		/* refused while the other thread holds the lock for long, as in an emulator */
		if (sp_otelcpp_vtable_replace(vptr + slots[i % SP_ARRAY_LEN(which)], function))
			atomic_fetch_add_explicit(&patches, 1, memory_order_relaxed);
		(void)sched_yield();
	}
	return NULL;
}

/* A thread of the process calls our functions all the time, and may meet any plugin. */
static void *ask(void *arg)
{
	(void)arg;
	while (!is_over()) {
		asks(&steady);
		(void)sched_yield();
	}
	return NULL;
}

/* Threads have storage of the plugin, which keeps it loaded until they end. */
static void *come(void *arg)
{
	struct plugin *p = arg;

	asks(p);
	p->begin();
	asks(p);
	EXPECT(p->churn(5) == 0);
	EXPECT(p->open() == 0);
	return NULL;
}

static bool is_loaded(const char *build)
{
	char path[PATH_MAX];
	void *handle = dlopen(path_of(build, path), RTLD_NOW | RTLD_NOLOAD);

	if (handle != NULL)
		(void)dlclose(handle);
	return handle != NULL;
}

static void *come_and_go(void *arg)
{
	(void)arg;
	while (!is_over()) {
		struct plugin p;
		pthread_t visitor;
		bool opened;

		(void)pthread_mutex_lock(&loading);
		opened = open_plugin("churn_named", &p);
		(void)pthread_mutex_unlock(&loading);
		if (!opened || pthread_create(&visitor, NULL, come, &p) != 0)
			abort();
		(void)pthread_join(visitor, NULL);
		(void)pthread_mutex_lock(&loading);
		(void)dlclose(p.handle);
		EXPECT(!is_loaded("churn_named"));
		(void)pthread_mutex_unlock(&loading);
		atomic_fetch_add(&comings, 1);
	}
	return NULL;
}

/*
 * A child that is forked while another thread allocates may find the locks of the thread sanitizer's allocator held
 * for ever: such a child makes no span.
 */
#ifdef __SANITIZE_THREAD__
#define MAY_ALLOCATE false
#else
#define MAY_ALLOCATE true
#endif

static void child(void)
{
	unsigned before = atomic_load(&failures);

	(void)alarm(CHILD_SECONDS);
	EXPECT(!MAY_ALLOCATE || steady.churn(3) == 0);
	asks(&steady);
	_exit(atomic_load(&failures) != before);
}

static void *fork_children(void *arg)
{
	(void)arg;
	while (!is_over()) {
		int status = 0;
		pid_t pid;

		(void)pthread_mutex_lock(&loading);
		pid = fork();
		if (pid == 0)
			child();
		(void)pthread_mutex_unlock(&loading);
		EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
		if (status != 0)
			fprintf(stderr, "a child ended with status %x\n", (unsigned)status);
		EXPECT(status == 0);
		atomic_fetch_add(&children, 1);
	}
	return NULL;
}

/* The permissions of each page of an object. */
static unsigned rights_of(const struct sp_elf_range *object, char rights[PAGES_MAX])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned long start;
	unsigned long end;
	char may[8];
	unsigned n = 0;

	memset(rights, 0, PAGES_MAX);
	while (maps != NULL && fscanf(maps, "%lx-%lx %7s%*[^\n]", &start, &end, may) == 3) {
		/* the sanitizer has mappings of terabytes */
		start = start > object->start ? start : object->start;
		for (; start < end && sp_elf_within(object, (const void *)start); start += page) {
			uintptr_t at = (start - object->start) / page;

			if (at >= PAGES_MAX)
				break;
			rights[at] = (char)(1 + (may[0] == 'r') + 2 * (may[1] == 'w') +
					    4 * (may[2] == 'x'));
			n++;
		}
	}
	if (maps != NULL)
		(void)fclose(maps);
	return n;
}

static void run(void)
{
	pthread_t thread[CALLERS + PATCHERS + 3];
	unsigned n = 0;
	bool made = true;

	for (unsigned i = 0; i < CALLERS; i++)
		made = pthread_create(&thread[n++], NULL, call, NULL) == 0 && made;
	for (unsigned i = 0; i < PATCHERS; i++)
		made = pthread_create(&thread[n++], NULL, patch, (void *)(uintptr_t)i) == 0 && made;
	made = pthread_create(&thread[n++], NULL, ask, NULL) == 0 && made;
	made = pthread_create(&thread[n++], NULL, fork_children, NULL) == 0 && made;
	made = pthread_create(&thread[n++], NULL, come_and_go, NULL) == 0 && made;
	if (!made)
		abort();
	for (unsigned i = 0; i < n; i++)
		(void)pthread_join(thread[i], NULL);
}

/* The plugins are beside the folder of this flavour. */
static bool find_folder(void)
{
	ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	for (unsigned up = 0; n > 0 && up < 4; up++) {
		char *slash = strrchr(folder, '/');

		if (slash == NULL)
			return false;
		*slash = '\0';
	}
	if (n <= 0 || strlen(folder) > PATH_MAX - sizeof("/test/otelcpp"))
		return false;
	(void)strcat(folder, "/test/otelcpp");
	return true;
}

int main(int argc, char **argv)
{
	static char before[PAGES_MAX];
	static char after[PAGES_MAX];
	struct sp_elf_range object;
	unsigned pages;

	enough = argc > 1 ? strtoul(argv[1], NULL, 10) : ENOUGH_DEFAULT;
	sp_elf_startup();
	sp_log_set_level(SP_LOG_NONE);
	atomic_store(&sp_lifecycle_state, SP_LIFECYCLE_ASLEEP);
	if (!find_folder() || !open_plugin("churn_hidden", &steady))
		return 1;
	object = sp_elf_object_at((const void *)steady.churn);
	pages = rights_of(&object, before);
	steady.begin();
	EXPECT(steady.span() != NULL);
	asks(&steady);
	run();
	EXPECT(rights_of(&object, after) == pages && pages > 0);
	EXPECT(memcmp(before, after, sizeof(before)) == 0);
	EXPECT(steady.open() == 1);
	EXPECT(atomic_load(&sp_lifecycle_state) == SP_LIFECYCLE_ASLEEP);
	EXPECT(atomic_load(&calls) > 0 && atomic_load(&patches) > 0);
	printf("%lu rounds of calls, %lu patches, %lu plugins came and went, %lu children\n",
	       atomic_load(&calls), atomic_load(&patches), atomic_load(&comings),
	       atomic_load(&children));
	printf("%u pages, %u failures\n", pages, atomic_load(&failures));
	return atomic_load(&failures) != 0;
}
