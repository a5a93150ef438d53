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
#include "preload/sdk/otelcpp/adapter_otelcpp_call.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_scope.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_vtable.h"

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
static atomic_flag busy = ATOMIC_FLAG_INIT;

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
		sp_otelcpp_vtable_replace(attach_slot(vptr), e->attach);
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

	if (e != NULL) {
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
static void expect(struct sp_otelcpp *sdk, const void *vtable)
{
	const void *vptr = (const void *const *)vtable + SP_OTELCPP_VTABLE_HEAD;
	struct expected *e = find(vptr);

	if (is_ours(vptr))
		return;
	if (e == NULL)
		e = find(NULL);
	if (e == NULL)
		return;
	e->sdk = sdk;
	e->attach = *attach_slot(vptr);
	atomic_store_explicit(&e->vptr, vptr, memory_order_release);
	sp_otelcpp_vtable_replace(attach_slot(vptr), SP_OTELCPP_ENTRY_OF(sp_otelcpp_first_attach));
}

void sp_otelcpp_expect_storage(struct sp_otelcpp *sdk)
{
	void *vtable[EXPECTED_MAX];
	unsigned n;

	if (atomic_exchange_explicit(&sdk->expects, true, memory_order_relaxed) ||
	    atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
		return;
	n = sp_elf_find_all(sdk->names->storage_class, vtable, EXPECTED_MAX);
	for (unsigned i = 0; i < n && i < EXPECTED_MAX; i++)
		expect(sdk, vtable[i]);
	/* The program's own, which precedes us in the search order. */
	if (sdk->linked_storage_vtable != NULL)
		expect(sdk, sdk->linked_storage_vtable);
	/* vtables that are not ours refer to it */
	atomic_store_explicit(&sdk->held, true, memory_order_release);
	atomic_flag_clear_explicit(&busy, memory_order_release);
}
