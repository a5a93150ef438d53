/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the classes of opentelemetry-cpp in an object and puts our functions into the slots of
 * their vtables. We find a class by the name of its vtable. If that name is hidden, as in static
 * and stripped code, we find the class by its run-time type information (sdk_typeinfo.h). All or
 * nothing: either every function that we need of an instance is hooked, its start last, or none is.
 *
 * An object is examined when its SDK is about to be used. The signs are:
 *
 * - The SDK asks for variables that begin with OTEL_ before its first span, from inside one of its
 *   objects. Every SDK does, unless it is configured by code or a file alone; but the SDK has to
 *   call our getenv().
 * - The SDK draws its first id in its first start of a span. Its random numbers begin with
 *   std::random_device, and forked children get a new seed (sdk/src/common/random.cc, 1.0 to 1.29).
 *   Few other libraries register a function for forked children alone, and fewer of them import
 *   std::random_device. That first span has begun without us.
 * - A start arrives at our function of its name, to which the loader has bound the SDK's vtable.
 *   This finds plugins with visible names if the program configures them in code, or has a getenv()
 *   of its own.
 * - The program is linked with an SDK that binds its functions itself (-Bsymbolic). We see this
 *   before main().
 *
 * INIT and APP context.
 */
#define _GNU_SOURCE
#include "preload/sdk/otelcpp/adapter_otelcpp.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/relocations.h"
#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/sdk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_classes.h"
#include "preload/sdk/sdk_typeinfo.h"
#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/try_lock.h"

/* Replaces functions in the SDK's vtables, which the loader has made read-only. */

static struct sp_try_lock busy;

/* The segment of a word. */
struct place {
	uintptr_t address;
	bool found;      /* the word is in a segment */
	bool executable; /* the segment has code */
	bool readonly;   /* the segment, or this page since it was relocated, is read-only */
};

/* The loader protects whole pages, up to the last one that ends inside the segment. */
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
 * Under a lock: two slots may lie in one page, and one thread must not write to a page that another
 * has just protected again. A page with code (gold, old linkers) stays executable meanwhile.
 */
static bool put(const struct place *place, const void *function)
{
	uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)(place->address & ~(page_size - 1));
	const void *_Atomic *word = (void *)place->address;
	int access = place->executable ? PROT_READ | PROT_EXEC : PROT_READ;
	bool done;

	if (!sp_try_lock(&busy))
		return false;
	done = !place->readonly ||
	       sp_syscall(SYS_mprotect, page, page_size, access | PROT_WRITE) == 0;
	if (done) {
		atomic_store_explicit(word, function, memory_order_release);
		if (place->readonly)
			(void)sp_syscall(SYS_mprotect, page, page_size, access);
	}
	sp_unlock(&busy);
	return done;
}

bool sp_otelcpp_vtable_replace(const void *const *slot, const void *function)
{
	struct place place = {.address = (uintptr_t)slot};
	bool done;

	(void)sp_fork_barrier_walk(visit, &place);
	if (!place.found)
		return false;
	/* A child that is forked meanwhile would have a writable page and the lock held. */
	sp_fork_barrier_enter();
	done = put(&place, function);
	sp_fork_barrier_exit();
	return done;
}

_Static_assert(SP_OTELCPP_STORAGES_MAX == SP_TYPEINFO_VTABLES_MAX, "all that are found");

/*
 * The functions that we hook, in this order: the start comes last, because the others have no
 * effect before it.
 */
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

/* If this fails, the functions that are hooked already only hand their calls on. */
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

/* The function of that name in that object, else in the first object that has it; NULL = none. */
static void *named(const struct sp_elf_range *object, const char *name)
{
	void *p = sp_elf_find_in(object, name);

	/* an instance may be spread over several objects */
	return p != NULL ? p : sp_resolve(name);
}

/*
 * The SDK's function: the loader may have bound the slot of a start to our function of the same
 * name.
 */
static void *behind(const struct sp_otelcpp_found *f, const void *function)
{
	struct sp_elf_range object = sp_elf_object_at(f->type[SP_OTELCPP_TYPE_TRACER]);

	for (unsigned i = 0; i < SP_OTELCPP_STARTS; i++) {
		if (function == f->names->hook[i])
			return named(&object, f->names->start[i]);
	}
	return (void *)(uintptr_t)function;
}

/*
 * Reads the slots. False if one is hooked, so that the classes belong to another instance, or if
 * one is not relocated yet.
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
	f->real[SP_OTELCPP_REAL_SET_STATUS] =
		(void *)(uintptr_t)
			f->type[SP_OTELCPP_TYPE_SPAN]
			       [f->names->slot_end - SP_OTELCPP_SLOT_SET_STATUS_BEFORE_END];
	return true;
}

/* The only vtable; of several the right one is unknown. */
static const void *const *only(const struct sp_typeinfo_found *f)
{
	return f->n == 1 ? f->vptr[0] : NULL;
}

static bool has_name(const struct sp_otelcpp_found *f, unsigned type)
{
	return sp_elf_find_in(&f->object, f->names->vtable[type]) != NULL;
}

/*
 * A class has a name unless that is hidden. The loader may have bound the name to another object: a
 * program that is not position-independent has a copy (a copy relocation), and plugins may share
 * one. The size of the vtable shows whether it has the functions that we know.
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
 * plugin as well as its library, and the loader has chosen one of the definitions, hidden or not.
 */
static const void *storage_of(const struct sp_otelcpp_found *f)
{
	const void *storage = sp_relocations_reference(&f->object, f->names->storage);

	if (storage == NULL && !f->by_type)
		storage = named(&f->object, f->names->storage);
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
 * The instance belongs to the object that has its spans' class, which may be another object than
 * the examined one, and lives as long as that object. NULL if the classes are hooked already, or
 * cannot be hooked.
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
 * Hooks the classes of one ABI version in an object. True if the object has them. An SDK with
 * relative vtables (clang's -fexperimental-relative-c++-abi-vtables: offsets of 32 bits instead of
 * pointers) is not supported: its classes have names, but no vtable that fits. Its spans are not
 * profiled, and a message says so once.
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

/*
 * One thread at a time. Examines the object at that address and stores the instance of each ABI
 * version that it has hooked. True if the object has any of the classes.
 */
static bool look_in(const void *address, const struct sp_elf_range *object, struct sp_otelcpp **sdk)
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

/* Objects that were examined: a few libraries of the SDK, and plugins. */
#define OBJECTS_MAX 64U

struct looked_at {
	_Atomic bool used; /* the members below are valid */
	struct sp_elf_range object;
	struct sp_otelcpp *sdk[SP_OTELCPP_VERSIONS]; /* hooked, or NULL */
};

/*
 * The last entry is for an object without an entry of its own, and is never found: such an object
 * is examined each time.
 */
static struct looked_at objects[OBJECTS_MAX + 1];

static bool starts_with_us(const void *const *tracer_vptr)
{
	/* another thread may be writing the slot */
	return tracer_vptr != NULL &&
	       __atomic_load_n(tracer_vptr + SP_OTELCPP_SLOT_START, __ATOMIC_RELAXED) ==
		       sp_otelcpp_hooks[SP_OTELCPP_REAL_START];
}

/*
 * If an object was unloaded and loaded again at the same address, its vtables have the slots of the
 * file.
 */
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

static struct looked_at *place_for(const void *address)
{
	struct looked_at *o = about(address);

	for (unsigned i = 0; o == NULL && i < OBJECTS_MAX; i++) {
		if (!is_alive(&objects[i]))
			o = &objects[i];
	}
	return o != NULL ? o : &objects[OBJECTS_MAX];
}

static bool look_at(const void *address)
{
	struct looked_at *o = place_for(address);
	bool known;

	/* pairs with about() */
	atomic_store_explicit(&o->used, false, memory_order_seq_cst);
	o->object = sp_elf_object_at(address);
	memset(o->sdk, 0, sizeof(o->sdk));
	known = o->object.size == 0 || look_in(address, &o->object, o->sdk);
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
 * Examines the object at that address once. One thread at a time, because two would take each
 * other's functions for the SDK's. The list is read under the same lock, because the entry of an
 * unloaded object is reused. LATER: another thread is examining an object, and takes longer than a
 * first span can wait. If another thread wants to unload the object, it needs the loader's lock,
 * and so has to wait for our search. Taking the loader's lock here is against the rule of
 * try_lock.h: the holder of that lock may be waiting for this thread. That thread then continues
 * without a label, because its waits are bounded.
 */
static enum outcome settle(const void *address)
{
	static struct sp_try_lock looking;
	struct look look = {.address = address};

	/* a child that is forked meanwhile would never get the lock */
	sp_fork_barrier_enter();
	if (!sp_try_lock(&looking)) {
		sp_fork_barrier_exit();
		return LATER;
	}
	(void)sp_fork_barrier_walk(look_once, &look);
	sp_unlock(&looking);
	sp_fork_barrier_exit();
	return look.known ? KNOWN : UNKNOWN;
}

/*
 * If the SDK consists of several libraries, the library that asks for variables does not define the
 * tracer. An object that another thread is just loading is examined later, when its own code asks
 * for variables or starts a span.
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
 * Addresses of callers that asked before our constructor decided whether we are switched off. These
 * callers are constructors of libraries, so there is one thread. The count starts with another
 * value than zero, so that a program without an SDK needs no page for it.
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

/* An SDK with visible names defines one of these. */
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

void sp_otelcpp_forks(const void *child)
{
	/* The functions of std::random_device, as libstdc++ and libc++ mangle them, begin so. */
	static const char *const random[] = {"_ZNSt13random_device", "_ZNSt3__113random_device"};
	int saved = errno;

	if (sp_lifecycle_wanted() && (sp_relocations_imports(child, random[0]) ||
				      sp_relocations_imports(child, random[1]))) {
		sp_fork_barrier_start();
		(void)settle(child);
	}
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

/* An instance whose calls we only hand on, because we are switched off or cannot read it. */
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
	struct sp_otelcpp *sdk = NULL;

	if (sp_lifecycle_wanted())
		f.state = SP_OTELCPP_REJECTED;
	if (object.size != 0)
		sdk = sp_otelcpp_instance_add(&f);
	/* If there is no room for the instance, its layout may still be known. */
	if (sp_lifecycle_wanted() && (sdk != NULL || object.size == 0))
		sp_sdk_disproved(names->sdk, SP_SDK_FACT_CLASS);
	return sdk;
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

/* An examination takes less than a millisecond, but its thread may have to wait for a processor. */
#define WAITS_MAX 20U

/*
 * A tracer of that class starts its first span through one of our named functions: finds or makes
 * the tracer's instance. NULL = none.
 */
static __attribute__((noinline, cold)) struct sp_otelcpp *
first_start(const struct sp_otelcpp_names *names, unsigned which, const void *const *vptr)
{
	struct sp_elf_range object = sp_elf_object_at(vptr);
	void *real = named(&object, names->start[which]);
	struct sp_otelcpp *sdk;

	if (real == NULL)
		return NULL;
	/*
	 * If threads start their first spans at the same moment, one examines the object and the
	 * others wait.
	 */
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
		*next = named(&object, names->start[which]);
	}
	errno = saved;
	return sdk;
}
