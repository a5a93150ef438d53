/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of dlopen, dlsym and dlvsym (hook_dl.h), which keep up with what the program loads.
 * Contexts: INIT, APP.
 *
 * After a dlopen() with a path, all objects are examined before the host gets the handle. With a
 * bare name or $ORIGIN, the file depends on the caller, so the call has to reach the real function
 * by a jump; the objects are then examined at the next dlsym() or dlopen(), which comes before the
 * host can call what it loaded. Spans that a plugin's own constructors start are missed.
 */
#define _GNU_SOURCE
#include "preload/elf/hook_dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/hook_dl_entry.h"
#include "preload/elf/relocations.h"
#include "preload/elf/resolve.h"
#include "sampler/base/compiler.h"

#define DEEPBOUND_MAX 64U

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static bool dlsym_is_on;
static bool deepbind_is_on;
static struct sp_elf_range own;
/* The loader's count of objects when all were examined; 0 = examine again. */
static _Atomic unsigned long long looked_at;

/* Written under the loader's lock, read without it: the count is written last. */
static struct sp_elf_range deepbound[DEEPBOUND_MAX];
static _Atomic unsigned deepbound_used;

static bool is_sdk_name(const char *name)
{
	return strncmp(name, "otel", 4) == 0 || strncmp(name, "_ZN13opentelemetry", 18) == 0;
}

static const void *hook_of(const char *name)
{
	return is_sdk_name(name) ? sp_elf_find_in(&own, name) : NULL;
}

struct entry {
	const char *name;
	enum sp_next real;
	const void *ours;
};

static const struct entry entries[] = {
	{"dlopen", SP_NEXT_dlopen, (const void *)sp_hook_dl_dlopen_entry},
	{"dlsym", SP_NEXT_dlsym, (const void *)sp_hook_dl_dlsym_entry},
	{"dlvsym", SP_NEXT_dlvsym, (const void *)sp_hook_dl_dlvsym_entry},
};

/*
 * An SDK in an object that was opened with RTLD_DEEPBIND asks for its variables past us
 * (hook_getenv.c). Not if the program has a getenv of its own, which the loader may not have looked
 * up yet.
 */
static const void *getenv_of(const void *now, bool lazy)
{
	return deepbind_is_on && !lazy && now == sp_next(SP_NEXT_getenv)
		       ? sp_elf_find_in(&own, "getenv")
		       : NULL;
}

/* Our entry function for that name, only if the importer's slot still holds the real function. */
static const void *entry_of(const char *name, const void *now, bool lazy)
{
	for (size_t i = 0; i < SP_ARRAY_LEN(entries); i++) {
		if (strcmp(name, entries[i].name) == 0) {
			const void *real = sp_next(entries[i].real);

			return real != NULL && (lazy || now == real) ? entries[i].ours : NULL;
		}
	}
	return NULL;
}

/* Whether some object defines that name at that address. */
static bool is_definition(const char *name, const void *address)
{
	struct sp_elf_range object = sp_elf_object_at(address);

	return object.size != 0 && sp_elf_find_in(&object, name) == address;
}

static const void *choose(const char *name, const void *now, bool lazy)
{
	const void *hook;

	if (sp_elf_within(&own, now))
		return NULL;
	if (name[0] == 'd')
		return entry_of(name, now, lazy);
	if (strcmp(name, "getenv") == 0)
		return getenv_of(now, lazy);
	hook = deepbind_is_on ? hook_of(name) : NULL;
	return hook != NULL && (lazy || is_definition(name, now)) ? hook : NULL;
}

static void changed(const struct sp_elf_range *importer, const char *name)
{
	unsigned used = atomic_load_explicit(&deepbound_used, memory_order_relaxed);

	if (!is_sdk_name(name) || used == DEEPBOUND_MAX)
		return;
	if (used > 0 && deepbound[used - 1].start == importer->start)
		return;
	deepbound[used] = *importer;
	atomic_store_explicit(&deepbound_used, used + 1, memory_order_release);
}

bool sp_hook_dl_is_deepbound(const void *caller)
{
	unsigned used = atomic_load_explicit(&deepbound_used, memory_order_acquire);

	for (unsigned i = 0; i < used; i++) {
		if (sp_elf_within(&deepbound[i], caller) && sp_elf_alive(&deepbound[i]))
			return true;
	}
	return false;
}

static void look_through(void)
{
	unsigned long long adds = sp_elf_adds();
	bool complete = sp_relocations_visit(choose, changed);

	atomic_store_explicit(&looked_at, complete ? adds : 0, memory_order_relaxed);
}

static void catch_up(void)
{
	int saved = errno;

	if (atomic_load_explicit(&looked_at, memory_order_relaxed) != sp_elf_adds())
		look_through();
	errno = saved;
}

static void *open_and_look(const char *file, int mode)
{
	__typeof__(&dlopen) real = SP_NEXT(dlopen);
	void *handle = real(file, mode);
	int saved = errno;

	if (handle != NULL)
		look_through();
	errno = saved;
	return handle;
}

/* Only then glibc looks at the caller: elf/dl-open.c, dl_open_worker_begin. */
static bool depends_on_caller(const char *file)
{
	return strchr(file, '/') == NULL || strchr(file, '$') != NULL;
}

const void *sp_hook_dl_dlopen_target(const char *file)
{
	catch_up();
	if (file == NULL || depends_on_caller(file))
		return sp_next(SP_NEXT_dlopen);
	return (const void *)open_and_look;
}

static bool is_hooked(const void *handle, const char *name)
{
	catch_up();
	return dlsym_is_on && handle != RTLD_DEFAULT && handle != RTLD_NEXT && name != NULL &&
	       hook_of(name) != NULL;
}

static void *look_up(void *handle, const char *name)
{
	__typeof__(&dlsym) real = SP_NEXT(dlsym);

	return real(handle, name) != NULL ? (void *)(uintptr_t)hook_of(name) : NULL;
}

static void *look_up_version(void *handle, const char *name, const char *version)
{
	__typeof__(&dlvsym) real = SP_NEXT(dlvsym);

	return real(handle, name, version) != NULL ? (void *)(uintptr_t)hook_of(name) : NULL;
}

const void *sp_hook_dl_dlsym_target(const void *handle, const char *name)
{
	return is_hooked(handle, name) ? (const void *)look_up : sp_next(SP_NEXT_dlsym);
}

const void *sp_hook_dl_dlvsym_target(const void *handle, const char *name)
{
	return is_hooked(handle, name) ? (const void *)look_up_version : sp_next(SP_NEXT_dlvsym);
}

void sp_hook_dl_start(bool hook_dlsym, bool deepbind)
{
	if (!hook_dlsym && !deepbind)
		return;
	dlsym_is_on = hook_dlsym;
	deepbind_is_on = deepbind;
	own = sp_elf_object_at(__ehdr_start);
	look_through();
}
