/* SPDX-License-Identifier: Apache-2.0 */
/* When to look for the SDK's classes, and where (adapter_otelcpp.h). INIT and APP context. */
#include "preload/sdk/otelcpp/adapter_otelcpp.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/sdk.h"
#include "sampler/base/compiler.h"
#include "sampler/base/try_lock.h"

/* Objects that we have looked at: a few libraries of the SDK, and plugins. */
#define OBJECTS_MAX 64U

struct looked_at {
	_Atomic bool used; /* what is below is there */
	struct sp_elf_range object;
	struct sp_otelcpp *sdk[SP_OTELCPP_VERSIONS]; /* hooked, or NULL */
};

static struct looked_at objects[OBJECTS_MAX];

static bool starts_with_us(const void *const *tracer_vptr)
{
	/* another thread may be writing the slot */
	return tracer_vptr != NULL &&
	       __atomic_load_n(tracer_vptr + SP_OTELCPP_SLOT_START, __ATOMIC_RELAXED) ==
		       sp_otelcpp_hooks[SP_OTELCPP_REAL_START];
}

/* An object that was unloaded and is loaded again at its place has vtables as in the file. */
static bool is_hooked(const struct looked_at *o)
{
	for (unsigned v = 0; v < SP_OTELCPP_VERSIONS; v++) {
		if (o->sdk[v] != NULL &&
		    !starts_with_us(atomic_load_explicit(&o->sdk[v]->type[SP_OTELCPP_TYPE_TRACER],
							 memory_order_relaxed)))
			return false;
	}
	return true;
}

static bool is_alive(struct looked_at *o)
{
	return atomic_load_explicit(&o->used, memory_order_acquire) && sp_elf_alive(&o->object);
}

static struct looked_at *about(const void *address)
{
	for (unsigned i = 0; i < OBJECTS_MAX; i++) {
		if (atomic_load_explicit(&objects[i].used, memory_order_acquire) &&
		    sp_elf_within(&objects[i].object, address) && is_alive(&objects[i]))
			return &objects[i];
	}
	return NULL;
}

static bool is_settled(const void *address)
{
	const struct looked_at *o = about(address);

	return o != NULL && is_hooked(o);
}

/* NULL when too many are alive. */
static struct looked_at *place_for(const void *address)
{
	struct looked_at *o = about(address);

	for (unsigned i = 0; o == NULL && i < OBJECTS_MAX; i++) {
		if (!is_alive(&objects[i]))
			o = &objects[i];
	}
	return o;
}

static bool look_at(const void *address)
{
	struct looked_at *o = place_for(address);
	bool known;

	if (o == NULL)
		return true;
	/* pairs with about() */
	atomic_store_explicit(&o->used, false, memory_order_seq_cst);
	o->object = sp_elf_object_at(address);
	memset(o->sdk, 0, sizeof(o->sdk));
	known = o->object.size == 0 || sp_otelcpp_types_look(address, &o->object, o->sdk);
	atomic_store_explicit(&o->used, true, memory_order_release);
	return known;
}

enum outcome { KNOWN, UNKNOWN, LATER };

struct look {
	const void *address;
	bool known;
};

static int look_once(struct dl_phdr_info *info SP_UNUSED, size_t size SP_UNUSED, void *arg)
{
	struct look *l = arg;

	l->known = is_settled(l->address) || look_at(l->address);
	return 1;
}

/*
 * Looks at the object around that address, once. One look at a time, because two would take each
 * other's functions for the SDK's; and the list is not even read without the lock, because the place
 * of an object that was unloaded is given to another one. LATER: another thread is doing it, and takes
 * longer than its first spans can wait. Another thread may be unloading the object, which waits for
 * the loader's lock, and has to wait while we search. The loader is asked against the rule of
 * try_lock.h: it may be waiting for this very thread, which then goes on without a label, as its waits
 * are bounded.
 */
static enum outcome settle(const void *address)
{
	static struct sp_try_lock looking;
	struct look look = {.address = address};

	/* a child that is forked meanwhile would never get the lock */
	sp_fork_barrier_enter();
	if (!sp_try_lock(&looking)) {
		sp_fork_barrier_leave();
		return LATER;
	}
	(void)sp_fork_barrier_walk(look_once, &look);
	sp_unlock(&looking);
	sp_fork_barrier_leave();
	return look.known ? KNOWN : UNKNOWN;
}

/*
 * Where the SDK is several libraries, it is not the one with the tracer that asks. An object that
 * another thread is just loading comes later: its own code asks, or starts a span.
 */
static void settle_named(void)
{
	static _Atomic unsigned long long seen;
	unsigned long long adds = sp_elf_adds();
	void *vtable[SP_OTELCPP_INSTANCES_MAX];
	bool all = true;

	if (atomic_load_explicit(&seen, memory_order_relaxed) == adds)
		return;
	for (unsigned v = 0; v < SP_OTELCPP_VERSIONS; v++) {
		unsigned n = sp_elf_find_all(sp_otelcpp_names[v].vtable[SP_OTELCPP_TYPE_TRACER],
					     vtable, SP_OTELCPP_INSTANCES_MAX);

		for (unsigned i = 0; i < n && i < SP_OTELCPP_INSTANCES_MAX; i++) {
			if (!sp_relocations_done(vtable[i]) || settle(vtable[i]) == LATER)
				all = false;
		}
	}
	if (all)
		atomic_store_explicit(&seen, adds, memory_order_relaxed);
}

/*
 * Places that asked before our constructor decided whether we are switched off. These are
 * constructors of libraries, so there is one thread. The count starts with another value than zero,
 * so that a program without an SDK needs no page for it.
 */
#define EARLY_MAX 16U
static const void *early[EARLY_MAX];
static unsigned early_left = EARLY_MAX;

static void remember(const void *caller)
{
	for (unsigned i = early_left; i < EARLY_MAX; i++) {
		if (early[i] == caller)
			return;
	}
	if (early_left > 0)
		early[--early_left] = caller;
}

/* Wherever one of our SDKs has names, one of these is defined. */
static bool any_has_names(void)
{
	for (unsigned v = 0; v < SP_OTELCPP_VERSIONS; v++) {
		if (sp_elf_find(sp_otelcpp_names[v].vtable[SP_OTELCPP_TYPE_SPAN], NULL) != NULL)
			return true;
	}
	return sp_next(SP_NEXT_otel_tracer_start_span) != NULL;
}

void sp_otelcpp_asked(const void *caller)
{
	int saved = errno;

	if (!sp_lifecycle_wanted()) {
		remember(caller);
		return;
	}
	sp_fork_barrier_start();
	if (settle(caller) == UNKNOWN)
		sp_sdk_asked_in_vain(caller, any_has_names);
	settle_named();
	errno = saved;
}

static bool is_named_start(const struct sp_otelcpp_names *names, const void *function)
{
	return function == names->hook[0] || function == names->hook[1];
}

void sp_otelcpp_main(void)
{
	for (unsigned i = early_left; i < EARLY_MAX; i++)
		sp_otelcpp_asked(early[i]);
	for (unsigned v = 0; v < SP_OTELCPP_VERSIONS; v++) {
		const struct sp_otelcpp_names *names = &sp_otelcpp_names[v];
		const void *const *vtable = names->linked_tracer;
		const void *start;

		if (vtable == NULL || !sp_lifecycle_wanted())
			continue;
		start = vtable[SP_OTELCPP_VTABLE_HEAD + SP_OTELCPP_SLOT_START];
		if (!is_named_start(names, start))
			(void)settle(start);
	}
}

/* One whose calls we only hand on: while we are switched off, or because it is not understood. */
static struct sp_otelcpp *hand_on(const struct sp_otelcpp_names *names, const void *const *vptr,
				  void *real)
{
	struct sp_elf_range object = sp_elf_object_at(real);
	struct sp_otelcpp_found f = {
		.names = names,
		.object = object,
		.type = {[SP_OTELCPP_TYPE_TRACER] = vptr},
		.real = {[SP_OTELCPP_REAL_START] = real},
		.state = SP_OTELCPP_UNTRIED,
	};

	if (sp_lifecycle_wanted()) {
		sp_sdk_disproved(names->sdk, SP_SDK_FACT_CLASS);
		f.state = SP_OTELCPP_REJECTED;
	}
	return object.size != 0 ? sp_otelcpp_instance_add(&f) : NULL;
}

static struct sp_otelcpp *with_tracer(const void *const *vptr)
{
	struct sp_otelcpp *sdk = sp_otelcpp_with(SP_OTELCPP_TYPE_TRACER, vptr);

	return sdk != NULL && sp_elf_alive(&sdk->object) ? sdk : NULL;
}

static bool is_new(const struct sp_otelcpp *sdk, const void *const *vptr)
{
	int state;

	if (sdk == NULL)
		return true;
	state = atomic_load_explicit(&sdk->state, memory_order_relaxed);
	return state == SP_OTELCPP_UNTRIED || (state == SP_OTELCPP_KNOWN && !starts_with_us(vptr));
}

/* A look takes less than a millisecond, but its thread may have to wait for a processor. */
#define WAITS_MAX 20U

/* The first start by name of a tracer of that class. */
static __attribute__((noinline, cold)) struct sp_otelcpp *
first_start(const struct sp_otelcpp_names *names, unsigned which, const void *const *vptr)
{
	struct sp_elf_range object = sp_elf_object_at(vptr);
	void *real = sp_otelcpp_types_real(&object, names->start[which]);
	struct sp_otelcpp *sdk;

	if (real == NULL)
		return NULL;
	/* Where threads start their first spans at the same moment, one looks and the others wait. */
	for (unsigned n = 0; sp_lifecycle_wanted() && settle(real) == LATER; n++) {
		if (n == WAITS_MAX)
			return NULL;
	}
	sdk = with_tracer(vptr);
	return is_new(sdk, vptr) ? hand_on(names, vptr, real) : sdk;
}

struct sp_otelcpp *sp_otelcpp_started(const struct sp_otelcpp_names *names, unsigned which,
				      const void *const *vptr, void **next)
{
	int saved = errno;
	struct sp_otelcpp *sdk = with_tracer(vptr);
	struct sp_elf_range object;

	if (sdk == NULL || (sp_lifecycle_wanted() && is_new(sdk, vptr)))
		sdk = first_start(names, which, vptr);
	*next = sdk != NULL ? sp_otelcpp_real(sdk, SP_OTELCPP_REAL_START) : NULL;
	if (*next == NULL) {
		object = sp_elf_object_at(vptr);
		*next = sp_otelcpp_types_real(&object, names->start[which]);
	}
	errno = saved;
	return sdk;
}
