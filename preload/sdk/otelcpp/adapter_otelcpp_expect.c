/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the slot of Attach in the vtable of the context storage until an object of the class is
 * known (adapter_otelcpp_expect.h). APP context.
 */
#include "preload/sdk/otelcpp/adapter_otelcpp_expect.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_call.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_scope.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_types.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_vtable.h"
#include "sampler/base/try_lock.h"

/*
 * Each object that includes the SDK's headers has a copy of the class; which one is used depends on
 * linking.
 */
#define EXPECTED_MAX 16U

struct expected {
	const void *_Atomic vptr; /* NULL = free; written last */
	struct sp_otelcpp *sdk;
	const void *attach; /* the class's own */
};

static struct expected expected[EXPECTED_MAX];
static struct sp_try_lock busy;

typedef void *attach_fn(void *result, void *self, const void *context);

SP_OTELCPP_LOCAL_ENTRY(sp_otelcpp_first_attach, attach_fn, "sp_otelcpp_first_attach_entry");

static const void *const *attach_slot(const void *vptr)
{
	return (const void *const *)vptr + SP_OTELCPP_SLOT_ATTACH;
}

static bool is_ours(const void *vptr)
{
	return *attach_slot(vptr) == SP_OTELCPP_ENTRY_OF(sp_otelcpp_first_attach);
}

static struct expected *find(const void *vptr)
{
	for (unsigned i = 0; i < EXPECTED_MAX; i++) {
		/* pairs with expect() */
		if (atomic_load_explicit(&expected[i].vptr, memory_order_acquire) == vptr)
			return &expected[i];
	}
	return NULL;
}

bool sp_otelcpp_expect_done(const void *vptr)
{
	const struct expected *e;

	if (!is_ours(vptr))
		return true;
	e = find(vptr);
	if (e != NULL)
		(void)sp_otelcpp_vtable_replace(attach_slot(vptr), e->attach);
	return !is_ours(vptr);
}

/*
 * Other threads may come in while the first one restores the vtable: each goes on with what the
 * vtable says then.
 */
void *sp_otelcpp_first_attach(void *result, void *self, const void *context)
{
	const void *vptr = sp_otelcpp_member(self, 0);
	const struct expected *e = find(vptr);
	int saved = errno;
	const void *attach;

	if (e != NULL && sp_otelcpp_types_storage(e->sdk, self)) {
		(void)sp_otelcpp_expect_done(vptr);
		(void)sp_otelcpp_scope_watch(e->sdk);
	}
	errno = saved;
	attach = *attach_slot(sp_otelcpp_member(self, 0));
	if (attach == SP_OTELCPP_ENTRY_OF(sp_otelcpp_first_attach) && e != NULL)
		attach = e->attach;
	SP_OTELCPP_CALL((attach_fn *)(uintptr_t)attach, result, self, context);
	return result;
}

/* Under the lock. A class that was unloaded may have left its address to another one. */
static bool expect(struct sp_otelcpp *sdk, const void *vptr)
{
	struct expected *e = find(vptr);

	if (is_ours(vptr))
		return true;
	if (e == NULL)
		e = find(NULL);
	if (e == NULL)
		return false;
	e->sdk = sdk;
	e->attach = *attach_slot(vptr);
	atomic_store_explicit(&e->vptr, vptr, memory_order_release);
	return sp_otelcpp_vtable_replace(attach_slot(vptr),
					 SP_OTELCPP_ENTRY_OF(sp_otelcpp_first_attach));
}

static bool expect_vtable(struct sp_otelcpp *sdk, const void *vtable)
{
	return expect(sdk, (const void *const *)vtable + SP_OTELCPP_VTABLE_HEAD);
}

/* Under the lock. What refers to the instance is in vtables that are not ours. */
static void hold(struct sp_otelcpp *sdk)
{
	atomic_store_explicit(&sdk->held, true, memory_order_release);
}

void sp_otelcpp_expect_storage(struct sp_otelcpp *sdk)
{
	void *vtable[EXPECTED_MAX];
	const void *bound;
	unsigned n;

	if (atomic_exchange_explicit(&sdk->expects, true, memory_order_relaxed) ||
	    !sp_try_lock_once(&busy))
		return;
	n = sp_elf_find_all(sdk->names->storage_class, vtable, EXPECTED_MAX);
	for (unsigned i = 0; i < n && i < EXPECTED_MAX; i++)
		(void)expect_vtable(sdk, vtable[i]);
	/* The program's own, which precedes us in the search order, if the SDK uses that. */
	bound = sp_relocations_reference(&sdk->object, sdk->names->storage_class);
	if (bound != NULL)
		(void)expect_vtable(sdk, bound);
	hold(sdk);
	sp_unlock(&busy);
}

bool sp_otelcpp_expect_types(struct sp_otelcpp *sdk)
{
	bool all = sdk->storage_type[0] != NULL;

	if (!sp_try_lock(&busy))
		return false;
	hold(sdk);
	for (unsigned i = 0; i < SP_OTELCPP_STORAGES_MAX && sdk->storage_type[i] != NULL; i++)
		all = expect(sdk, sdk->storage_type[i]) && all;
	/* with a name other objects have such classes too, which are found at the first span */
	atomic_store_explicit(&sdk->expects, all && sp_otelcpp_get_storage(sdk) == NULL,
			      memory_order_relaxed);
	sp_unlock(&busy);
	return all;
}
