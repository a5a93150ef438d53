/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for instances of opentelemetry-cpp by their classes, and hooking them. APP context. */
#define _GNU_SOURCE
#include "preload/sdk/otelcpp/adapter_otelcpp.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/elf/resolve.h"
#include "preload/lifecycle/sdk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_classes.h"
#include "preload/sdk/sdk_typeinfo.h"
#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/try_lock.h"

/*
 * Replaces functions in the SDK's vtables, which the loader has made read-only. INIT and APP
 * context.
 */

static struct sp_try_lock busy;

/* Where a word lies. */
struct place {
	uintptr_t address;
	bool found;      /* in a segment */
	bool executable; /* which has code in it */
	bool readonly;   /* and which is only read, or the page is so since it was relocated */
};

/* The loader protects whole pages: those that end with the segment, or before it does. */
static bool is_protected(uintptr_t address, uintptr_t base, const ElfW(Phdr) * p)
{
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t end = base + p->p_vaddr + p->p_memsz;

	return (address & ~(page_size - 1)) + page_size <= end;
}

static bool within(uintptr_t address, uintptr_t base, const ElfW(Phdr) * p)
{
	return address - base - p->p_vaddr < p->p_memsz;
}

static int visit(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct place *place = arg;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (!within(place->address, info->dlpi_addr, p))
			continue;
		if (p->p_type == PT_LOAD) {
			place->found = true;
			place->executable = (p->p_flags & PF_X) != 0;
			place->readonly = place->readonly || (p->p_flags & PF_W) == 0;
		}
		if (p->p_type == PT_GNU_RELRO && is_protected(place->address, info->dlpi_addr, p))
			place->readonly = true;
	}
	return place->found;
}

/*
 * Under a lock: two slots may lie in one page, and one thread must not write what another has just
 * protected again.
 */
static bool put(const struct place *place, const void *function)
{
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)(place->address & ~(page_size - 1));
	const void *_Atomic *word = (void *)place->address;
	bool done;

	if (!sp_try_lock(&busy))
		return false;
	done = !place->readonly ||
	       sp_syscall(SYS_mprotect, page, page_size, PROT_READ | PROT_WRITE) == 0;
	if (done) {
		atomic_store_explicit(word, function, memory_order_release);
		if (place->readonly)
			(void)sp_syscall(SYS_mprotect, page, page_size, PROT_READ);
	}
	sp_unlock(&busy);
	return done;
}

bool sp_otelcpp_vtable_replace(const void *const *slot, const void *function)
{
	struct place place = {.address = (uintptr_t)slot};
	bool done;

	(void)sp_fork_barrier_walk(visit, &place);
	if (!place.found || (place.executable && place.readonly))
		return false;
	/* A child that is forked meanwhile would have the page writable, and the lock held. */
	sp_fork_barrier_enter();
	done = put(&place, function);
	sp_fork_barrier_leave();
	return done;
}

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
