/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SPANPROF_HOOK_DLSYM: a program that takes functions of a C SDK with dlsym() gets our hooks of them,
 * which it would not find, because dlsym() of a handle does not search the preloaded object.
 *
 * Nothing is exported for it, and without the variable nothing is done. With it, the slots of objects that
 * import dlsym() are changed to a function of ours. It goes on to the real one by a jump, so that the
 * real one sees the program's object as its caller (RTLD_NEXT and RTLD_DEFAULT work as before). Objects that
 * the program loads later are looked at in its next dlsym(), which it needs to call what it has loaded.
 *
 * Contexts: INIT, APP.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/elf/resolve.h"
#include "preload/elf/tail_call.h"
#include "preload/hooks/hook_dlsym.h"
#include "preload/sdk/otelc/adapter_otelc_sdk.h"
#include "sampler/base/compiler.h"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char sp_dlsym_entry[] __attribute__((visibility("hidden")));

static struct sp_elf_range own;
/* The loader's count of objects when all were examined; 0 = examine again. */
static _Atomic unsigned long long looked_at;

/* An importer's slot, if it still holds the real function or nothing yet. */
static const void *choose(const struct sp_elf_range *importer, const char *name, const void *now,
			  bool lazy)
{
	return strcmp(name, "dlsym") == 0 && importer->start != own.start &&
			       (lazy || now == sp_next(SP_NEXT_dlsym))
		       ? sp_dlsym_entry
		       : NULL;
}

static void look_through(void)
{
	unsigned long long adds = sp_elf_adds();

	atomic_store_explicit(&looked_at, sp_relocations_visit(choose) ? adds : 0,
			      memory_order_relaxed);
}

/* Whose name it is; SP_NEXT_SDK_N if it is none that we hook. */
static enum sp_next hooked(const char *name)
{
	unsigned i = 0;

	while (i < SP_NEXT_SDK_N && strcmp(name, sp_next_name((enum sp_next)i)) != 0)
		i++;
	return (enum sp_next)i;
}

/* The hook of a function of the copy whose spans are labelled; any other function as it is. */
static void *look_up(void *handle, const char *name)
{
	__typeof__(&dlsym) real = SP_NEXT(dlsym);
	void *found = real(handle, name);
	int saved = errno;
	void *hook = found != NULL ? sp_elf_find_in(&own, name) : NULL;

	if (hook != NULL && !sp_otelc_is_labelled(hooked(name), found))
		hook = NULL;
	errno = saved;
	return hook != NULL ? hook : found;
}

/* With the arguments of dlsym(): where the call goes. */
const void *sp_dlsym_target(const void *handle, const char *name);
const void *sp_dlsym_target(const void *handle, const char *name)
{
	int saved = errno;

	if (atomic_load_explicit(&looked_at, memory_order_relaxed) != sp_elf_adds())
		look_through();
	errno = saved;
	return handle != RTLD_DEFAULT && handle != RTLD_NEXT && name != NULL &&
			       hooked(name) != SP_NEXT_SDK_N
		       ? (const void *)look_up
		       : sp_next(SP_NEXT_dlsym);
}

SP_TAIL_CALL("sp_dlsym_entry", "sp_dlsym_target", ".hidden sp_dlsym_entry");

void sp_hook_dlsym_start(void)
{
	if (sp_next(SP_NEXT_dlsym) == NULL)
		return;
	own = sp_elf_object_at(__ehdr_start);
	look_through();
}
