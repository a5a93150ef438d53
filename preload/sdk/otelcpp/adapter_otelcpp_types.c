/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for instances of opentelemetry-cpp by their classes, and hooking them. APP context. */
#include "preload/sdk/otelcpp/adapter_otelcpp_types.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/elf/resolve.h"
#include "preload/lifecycle/sdk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_classes.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_scope.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_vtable.h"
#include "preload/sdk/sdk_typeinfo.h"
#include "sampler/base/compiler.h"

_Static_assert(SP_OTELCPP_STORAGES_MAX == SP_TYPEINFO_VTABLES_MAX, "all that are found");

/* What we hook, in this order: the start is the last, because it makes the others count. */
static const struct {
	enum sp_otelcpp_type type;
	enum sp_otelcpp_real real;
} hooked[] = {
	{SP_OTELCPP_TYPE_SPAN, SP_OTELCPP_REAL_D1},
	{SP_OTELCPP_TYPE_SPAN, SP_OTELCPP_REAL_D0},
	{SP_OTELCPP_TYPE_SPAN, SP_OTELCPP_REAL_END},
	{SP_OTELCPP_TYPE_SPAN, SP_OTELCPP_REAL_RENAME},
	{SP_OTELCPP_TYPE_CONTROL_INSIDE, SP_OTELCPP_REAL_DISPOSE_INSIDE},
	{SP_OTELCPP_TYPE_CONTROL_POINTER, SP_OTELCPP_REAL_DISPOSE_POINTER},
	{SP_OTELCPP_TYPE_TRACER, SP_OTELCPP_REAL_START},
};

static const void *const *slot_of(const struct sp_otelcpp_found *f, unsigned i)
{
	const unsigned slots[] = {
		SP_OTELCPP_SLOT_D1,
		SP_OTELCPP_SLOT_D0,
		f->names->slot_end,
		f->names->slot_end - SP_OTELCPP_SLOT_RENAME_BEFORE_END,
		SP_OTELCPP_CONTROL_SLOT_DISPOSE,
		SP_OTELCPP_CONTROL_SLOT_DISPOSE,
		SP_OTELCPP_SLOT_START,
	};

	return f->type[hooked[i].type] != NULL ? f->type[hooked[i].type] + slots[i] : NULL;
}

/* Where this fails, what is hooked already only hands its calls on. */
static bool hook(struct sp_otelcpp *sdk, const struct sp_otelcpp_found *f)
{
	if (!sp_otelcpp_scope_expect(sdk) && sp_otelcpp_get_storage(sdk) == NULL)
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_STORAGE);
	for (unsigned i = 0; i < SP_ARRAY_LEN(hooked); i++) {
		const void *const *slot = slot_of(f, i);

		if (slot != NULL &&
		    !sp_otelcpp_vtable_replace(slot, sp_otelcpp_hooks[hooked[i].real])) {
			atomic_store_explicit(&sdk->state, SP_OTELCPP_REJECTED,
					      memory_order_relaxed);
			return false;
		}
	}
	return true;
}

void *sp_otelcpp_types_real(const struct sp_elf_range *object, const char *name)
{
	void *p = sp_elf_find_in(object, name);

	/* an instance may be spread over several objects */
	return p != NULL ? p : sp_resolve(name);
}

/* The loader has bound the slot of a start to our function of its name, where it has one. */
static void *behind(const struct sp_otelcpp_found *f, const void *function)
{
	struct sp_elf_range object = sp_elf_object_at(f->type[SP_OTELCPP_TYPE_TRACER]);

	for (unsigned i = 0; i < SP_OTELCPP_STARTS; i++) {
		if (function == f->names->hook[i])
			return sp_otelcpp_types_real(&object, f->names->start[i]);
	}
	return (void *)(uintptr_t)function;
}

/*
 * What the slots hold. False if one is hooked, so that these classes are another instance's, or is
 * not relocated yet.
 */
static bool read_slots(struct sp_otelcpp_found *f)
{
	for (unsigned i = 0; i < SP_ARRAY_LEN(hooked); i++) {
		const void *const *slot = slot_of(f, i);
		void *real = slot != NULL ? behind(f, *slot) : NULL;

		if (slot != NULL && (real == NULL || real == sp_otelcpp_hooks[hooked[i].real] ||
				     sp_elf_object_at(real).size == 0))
			return false;
		f->real[hooked[i].real] = real;
	}
	f->real[SP_OTELCPP_REAL_SET_ATTRIBUTE] =
		(void *)(uintptr_t)f->type[SP_OTELCPP_TYPE_SPAN][SP_OTELCPP_SLOT_SET_ATTRIBUTE];
	return true;
}

/* The only vtable; of several nobody can tell which is the right one. */
static const void *const *only(const struct sp_typeinfo_found *f)
{
	return f->n == 1 ? f->vptr[0] : NULL;
}

static bool has_name(const struct sp_otelcpp_found *f, unsigned type)
{
	return sp_elf_find_in(&f->object, f->names->vtable[type]) != NULL;
}

/*
 * A class has a name unless that is hidden. Then the loader may have bound it to another object: a
 * program that is not position-independent has a copy of it (a copy relocation), and plugins may
 * share one. Its size tells whether its functions are those that we know.
 */
static const void *const *class_of(const struct sp_otelcpp_found *f, unsigned type,
				   const struct sp_typeinfo_found *found)
{
	size_t size = 0;
	const void *const *own = sp_elf_variable_in(&f->object, f->names->vtable[type], &size);
	const void *const *bound;

	if (own == NULL)
		return only(found);
	if (size != (SP_OTELCPP_VTABLE_HEAD + f->names->slots[type]) * sizeof(void *))
		return NULL;
	bound = sp_relocations_reference(&f->object, f->names->vtable[type]);
	return (bound != NULL ? bound : own) + SP_OTELCPP_VTABLE_HEAD;
}

/*
 * A variable of an inline function: each object that was built with the headers may define it, a
 * plugin as well as the library it brings, and the loader chose one of them, whatever is hidden.
 */
static const void *storage_of(const struct sp_otelcpp_found *f)
{
	const void *storage = sp_relocations_reference(&f->object, f->names->storage);

	if (storage == NULL && !f->by_type)
		storage = sp_otelcpp_types_real(&f->object, f->names->storage);
	return storage;
}

static void find_in(struct sp_otelcpp_found *f, const struct sp_typeinfo_found *found)
{
	f->by_type = !has_name(f, SP_OTELCPP_TYPE_SPAN);
	for (unsigned i = 0; i < SP_OTELCPP_TYPE_N; i++)
		f->type[i] = class_of(f, i, &found[i]);
	f->control_object = SP_OTELCPP_CONTROL_OBJECT;
	if (f->type[SP_OTELCPP_TYPE_CONTROL_INSIDE] == NULL &&
	    f->type[SP_OTELCPP_TYPE_CONTROL_POINTER] == NULL) {
		f->control_object = SP_OTELCPP_LIBCXX_CONTROL_OBJECT;
		f->type[SP_OTELCPP_TYPE_CONTROL_INSIDE] = only(&found[SP_OTELCPP_LIBCXX_INSIDE]);
		f->type[SP_OTELCPP_TYPE_CONTROL_POINTER] = only(&found[SP_OTELCPP_LIBCXX_POINTER]);
	}
	for (unsigned i = 0; i < found[SP_OTELCPP_STORAGE_CLASSES].n && i < SP_OTELCPP_STORAGES_MAX;
	     i++)
		f->storage_type[i] = found[SP_OTELCPP_STORAGE_CLASSES].vptr[i];
}

/*
 * The instance is where its spans' class is, which may be another object than the one that was
 * looked at, and lives as long. NULL if the classes are hooked, or cannot be.
 */
static struct sp_otelcpp *add(struct sp_otelcpp_found *f)
{
	struct sp_otelcpp *sdk;

	f->object = sp_elf_object_at(f->type[SP_OTELCPP_TYPE_SPAN]);
	if (!read_slots(f))
		return NULL;
	f->storage = storage_of(f);
	sdk = sp_otelcpp_instance_add(f);
	return sdk != NULL && hook(sdk, f) ? sdk : NULL;
}

static bool is_there(const struct sp_otelcpp_found *f, unsigned type,
		     const struct sp_typeinfo_found *found)
{
	return found[type].named || has_name(f, type);
}

/*
 * What became of one ABI version in an object. True if it has it. An SDK that was built with relative vtables
 * (clang's -fexperimental-relative-c++-abi-vtables: offsets of 32 bits in place of pointers) is not supported:
 * its classes have names, but no vtable that fits. Its spans are not profiled, which is said once.
 */
static bool look_for(const struct sp_otelcpp_names *names, const struct sp_elf_range *object,
		     const struct sp_typeinfo_found *found, struct sp_otelcpp **sdk)
{
	struct sp_otelcpp_found f = {.names = names, .object = *object, .state = SP_OTELCPP_KNOWN};

	find_in(&f, found);
	if (f.type[SP_OTELCPP_TYPE_TRACER] != NULL && f.type[SP_OTELCPP_TYPE_SPAN] != NULL)
		*sdk = add(&f);
	else if (is_there(&f, SP_OTELCPP_TYPE_TRACER, found) &&
		 is_there(&f, SP_OTELCPP_TYPE_SPAN, found))
		sp_sdk_disproved(names->sdk, SP_SDK_FACT_CLASS);
	return is_there(&f, SP_OTELCPP_TYPE_SPAN, found);
}

bool sp_otelcpp_types_look(const void *address, const struct sp_elf_range *object,
			   struct sp_otelcpp **sdk)
{
	struct sp_typeinfo_found found[SP_ARRAY_LEN(sp_otelcpp_classes)];
	struct sp_elf_image image;
	bool known = false;

	memset(found, 0, sizeof(found));
	if (sp_elf_image_at(address, &image))
		(void)sp_typeinfo_find(&image, SP_OTELCPP_MARKER, sp_otelcpp_classes, found,
				       SP_ARRAY_LEN(found));
	for (unsigned v = 0; v < SP_OTELCPP_VERSIONS; v++)
		known = look_for(&sp_otelcpp_names[v], object,
				 &found[(size_t)v * SP_OTELCPP_CLASSES], &sdk[v]) ||
			known;
	return known;
}
