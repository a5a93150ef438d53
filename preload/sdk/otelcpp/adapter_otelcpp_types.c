/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for instances of opentelemetry-cpp by their classes, and hooking them. APP context. */
#include "preload/sdk/otelcpp/adapter_otelcpp_types.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_classes.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_expect.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_proof.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_scope.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_vtable.h"
#include "preload/sdk/sdk_typeinfo.h"
#include "sampler/base/compiler.h"
#include "sampler/base/try_lock.h"

/* Objects that have asked: a few libraries of the SDK, and plugins. */
#define OBJECTS_MAX 64U

/* Places that ask before our constructor. */
#define EARLY_MAX 16U

_Static_assert(SP_OTELCPP_STORAGES_MAX == SP_TYPEINFO_VTABLES_MAX, "all that are found");

/* An object that has asked. */
struct asker {
	_Atomic bool used;
	_Atomic bool done; /* what is below is there */
	struct sp_elf_range object;
	struct sp_otelcpp *sdk[SP_OTELCPP_VERSIONS]; /* hooked by its types, or NULL */
};

static struct asker askers[OBJECTS_MAX];
static atomic_flag busy = ATOMIC_FLAG_INIT;

static const void *const *slot_of(const struct sp_otelcpp *sdk, enum sp_otelcpp_type type,
				  unsigned slot)
{
	return sdk->type[type] != NULL ? sdk->type[type] + slot : NULL;
}

/* What we hook, in this order: the start is the last, because it makes the others count. */
static const struct {
	enum sp_otelcpp_type type;
	enum sp_otelcpp_real real;
} hooked[] = {
	{SP_OTELCPP_TYPE_SPAN, SP_OTELCPP_REAL_D1},
	{SP_OTELCPP_TYPE_SPAN, SP_OTELCPP_REAL_D0},
	{SP_OTELCPP_TYPE_SPAN, SP_OTELCPP_REAL_END},
	{SP_OTELCPP_TYPE_SPAN, SP_OTELCPP_REAL_RENAME_NOSTD},
	{SP_OTELCPP_TYPE_CONTROL_INSIDE, SP_OTELCPP_REAL_DISPOSE_INSIDE},
	{SP_OTELCPP_TYPE_CONTROL_POINTER, SP_OTELCPP_REAL_DISPOSE_POINTER},
	{SP_OTELCPP_TYPE_TRACER, SP_OTELCPP_REAL_START_NOSTD},
};

static const void *const *hooked_slot(const struct sp_otelcpp *sdk, unsigned i)
{
	const unsigned slots[] = {
		SP_OTELCPP_SLOT_D1,
		SP_OTELCPP_SLOT_D0,
		sdk->names->slot_end,
		sdk->names->slot_end - SP_OTELCPP_SLOT_RENAME_BEFORE_END,
		SP_OTELCPP_CONTROL_SLOT_DISPOSE,
		SP_OTELCPP_CONTROL_SLOT_DISPOSE,
		SP_OTELCPP_SLOT_START,
	};

	return slot_of(sdk, hooked[i].type, slots[i]);
}

/* Both kinds of strings are passed alike, so either function of ours fits. */
void sp_otelcpp_types_read(struct sp_otelcpp *sdk)
{
	for (unsigned i = 0; i < SP_ARRAY_LEN(hooked); i++) {
		const void *const *slot = hooked_slot(sdk, i);

		if (slot != NULL)
			atomic_store_explicit(&sdk->real[hooked[i].real], (void *)(uintptr_t)*slot,
					      memory_order_relaxed);
	}
	atomic_store_explicit(
		&sdk->real[SP_OTELCPP_REAL_START_STL],
		atomic_load_explicit(&sdk->real[SP_OTELCPP_REAL_START_NOSTD], memory_order_relaxed),
		memory_order_relaxed);
	atomic_store_explicit(&sdk->real[SP_OTELCPP_REAL_RENAME_STL],
			      atomic_load_explicit(&sdk->real[SP_OTELCPP_REAL_RENAME_NOSTD],
						   memory_order_relaxed),
			      memory_order_relaxed);
	sdk->span_vptr = sdk->type[SP_OTELCPP_TYPE_SPAN];
	atomic_store_explicit(&sdk->state, SP_OTELCPP_KNOWN, memory_order_release);
}

/* In reverse order, so that a start that we see always has an end that we see. */
static void take_back(struct sp_otelcpp *sdk, unsigned n)
{
	while (n-- > 0) {
		const void *const *slot = hooked_slot(sdk, n);

		if (slot != NULL)
			(void)sp_otelcpp_vtable_replace(
				slot, atomic_load_explicit(&sdk->real[hooked[n].real],
							   memory_order_relaxed));
	}
}

/* If this fails, the instance stays: calls may be on their way to it by then. */
static bool hook(struct sp_otelcpp *sdk)
{
	if (!sp_otelcpp_expect_types(sdk) && sp_otelcpp_get_storage(sdk) == NULL)
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_STORAGE);
	for (unsigned i = 0; i < SP_ARRAY_LEN(hooked); i++) {
		const void *const *slot = hooked_slot(sdk, i);

		if (slot != NULL && !sp_otelcpp_vtable_replace(slot, sdk->hook[hooked[i].real])) {
			take_back(sdk, i);
			return false;
		}
	}
	return true;
}

/* The only vtable; of several nobody can tell which is the right one. */
static const void *const *only(const struct sp_typeinfo_found *f)
{
	return f->n == 1 ? f->vptr[0] : NULL;
}

static struct sp_otelcpp *add(const struct sp_otelcpp *first, const struct sp_elf_range *object,
			      const struct sp_typeinfo_found *found)
{
	const void *const *type[SP_OTELCPP_TYPE_N];
	struct sp_otelcpp *sdk;

	for (unsigned i = 0; i < SP_OTELCPP_TYPE_N; i++)
		type[i] = only(&found[i]);
	if (type[SP_OTELCPP_TYPE_TRACER] == NULL || type[SP_OTELCPP_TYPE_SPAN] == NULL)
		return NULL;
	sdk = sp_otelcpp_instance_add(first, object, type);
	if (sdk == NULL)
		return NULL;
	for (unsigned i = 0; i < found[SP_OTELCPP_STORAGE_CLASSES].n && i < SP_OTELCPP_STORAGES_MAX;
	     i++)
		sdk->storage_type[i] = found[SP_OTELCPP_STORAGE_CLASSES].vptr[i];
	/* where it is one for the whole process, its name is there whatever is hidden */
	sp_otelcpp_set_storage(sdk, sp_relocations_reference(object, first->names->storage));
	return hook(sdk) ? sdk : NULL;
}

/* It has the classes, but not as we know them. If it has names, the hooks by name warn. */
static bool is_foreign(const struct sp_otelcpp *first, const struct sp_elf_range *object,
		       const struct sp_typeinfo_found *found)
{
	return found[SP_OTELCPP_TYPE_TRACER].named && found[SP_OTELCPP_TYPE_SPAN].named &&
	       sp_elf_find_in(object, first->names->real[SP_OTELCPP_REAL_END]) == NULL;
}

/* Wherever one of our SDKs has names, one of these is defined. */
static bool any_has_names(void)
{
	for (unsigned v = 0; v < SP_OTELCPP_VERSIONS; v++) {
		if (sp_elf_find(sp_otelcpp_first[v]->names->real[SP_OTELCPP_REAL_END], NULL) !=
		    NULL)
			return true;
	}
	return sp_next(SP_NEXT_otelc_start_span) != NULL ||
	       sp_next(SP_NEXT_otel_tracer_start_span) != NULL ||
	       sp_next(SP_NEXT_otelc_tracer_create) != NULL;
}

static void look(struct asker *a, const void *caller)
{
	struct sp_typeinfo_found found[SP_OTELCPP_VERSIONS * SP_OTELCPP_CLASSES];
	struct sp_typeinfo_image image;
	bool known = false;

	if (!sp_typeinfo_image_at(caller, &image) ||
	    !sp_typeinfo_find(&image, SP_OTELCPP_MARKER, sp_otelcpp_classes, found,
			      SP_ARRAY_LEN(sp_otelcpp_classes)))
		return;
	for (unsigned v = 0; v < SP_OTELCPP_VERSIONS; v++) {
		const struct sp_typeinfo_found *f = &found[(size_t)v * SP_OTELCPP_CLASSES];

		a->sdk[v] = add(sp_otelcpp_first[v], &a->object, f);
		known = known || a->sdk[v] != NULL || f[SP_OTELCPP_TYPE_SPAN].named;
		if (a->sdk[v] == NULL && is_foreign(sp_otelcpp_first[v], &a->object, f))
			sp_sdk_disproved(sp_otelcpp_first[v]->names->sdk, SP_SDK_FACT_CLASS);
	}
	if (!known)
		sp_sdk_asked_in_vain(caller, any_has_names);
}

/* An object that was unloaded and is loaded again at its place has vtables as in the file. */
static bool is_hooked(const struct asker *a)
{
	for (unsigned v = 0; v < SP_OTELCPP_VERSIONS; v++) {
		const struct sp_otelcpp *sdk = a->sdk[v];

		if (sdk != NULL && sdk->type[SP_OTELCPP_TYPE_TRACER][SP_OTELCPP_SLOT_START] !=
					   sdk->hook[SP_OTELCPP_REAL_START_NOSTD])
			return false;
	}
	return true;
}

static bool is_about(struct asker *a, const void *caller)
{
	return atomic_load_explicit(&a->used, memory_order_acquire) &&
	       sp_elf_within(&a->object, caller) && sp_elf_alive(&a->object);
}

/* A thread has looked at the object, or is doing it. */
static bool is_settled(const void *caller)
{
	for (unsigned i = 0; i < OBJECTS_MAX; i++) {
		if (is_about(&askers[i], caller))
			return !atomic_load_explicit(&askers[i].done, memory_order_acquire) ||
			       is_hooked(&askers[i]);
	}
	return false;
}

/* Under the lock. NULL when another thread was faster, or too many are alive. */
static struct asker *place_for(const void *caller)
{
	struct asker *place = NULL;

	for (unsigned i = 0; i < OBJECTS_MAX; i++) {
		struct asker *a = &askers[i];

		if (is_about(a, caller))
			return atomic_load_explicit(&a->done, memory_order_acquire) && !is_hooked(a)
				       ? a
				       : NULL;
		if (place == NULL && (!atomic_load_explicit(&a->used, memory_order_relaxed) ||
				      (atomic_load_explicit(&a->done, memory_order_acquire) &&
				       !sp_elf_alive(&a->object))))
			place = a;
	}
	return place;
}

static struct asker *claim(const void *caller)
{
	struct sp_elf_range object = sp_elf_object_at(caller);
	struct asker *a = NULL;

	if (object.size == 0 || !sp_try_lock(&busy))
		return NULL;
	a = place_for(caller);
	if (a != NULL) {
		atomic_store_explicit(&a->used, false, memory_order_seq_cst);
		atomic_store_explicit(&a->done, false, memory_order_relaxed);
		a->object = object;
		for (unsigned v = 0; v < SP_OTELCPP_VERSIONS; v++)
			a->sdk[v] = NULL;
		atomic_store_explicit(&a->used, true, memory_order_release);
	}
	sp_unlock(&busy);
	return a;
}

/*
 * Places that asked before our constructor decided whether we are switched off. These are
 * constructors of libraries, so there is one thread. The count starts with another value than zero,
 * so that a program without an SDK needs no page for it.
 */
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

void sp_otelcpp_types_main(void)
{
	for (unsigned i = early_left; i < EARLY_MAX; i++)
		sp_otelcpp_types_asked(early[i]);
}

void sp_otelcpp_types_asked(const void *caller)
{
	int saved = errno;
	struct asker *a;

	if (!sp_lifecycle_wanted()) {
		remember(caller);
		return;
	}
	if (is_settled(caller))
		return;
	a = claim(caller);
	if (a != NULL) {
		look(a, caller);
		/* pairs with is_settled() */
		atomic_store_explicit(&a->done, true, memory_order_release);
	}
	errno = saved;
}

static bool find_storage(struct sp_otelcpp *sdk, const struct sp_otelcpp_flavour *f,
			 const void *self)
{
	struct sp_typeinfo_image image;
	const void *const *word;

	if (!sp_typeinfo_image_at(sdk->type[SP_OTELCPP_TYPE_SPAN], &image))
		return false;
	word = sp_typeinfo_only_reference(&image, self);
	if (word == NULL || !sp_otelcpp_is_pointer(f, (const char *)word - f->pointee))
		return false;
	sp_otelcpp_set_storage(sdk, (const char *)word - f->pointee);
	return true;
}

bool sp_otelcpp_types_storage(struct sp_otelcpp *sdk, const void *self)
{
	const struct sp_otelcpp_flavour *f =
		atomic_load_explicit(&sdk->flavour, memory_order_relaxed);

	if (f == NULL) {
		atomic_store_explicit(&sdk->attached, true, memory_order_relaxed);
		return false;
	}
	if (sp_otelcpp_get_storage(sdk) == NULL && !find_storage(sdk, f, self))
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_STORAGE);
	return true;
}
