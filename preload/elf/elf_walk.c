/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over the loaded objects: what they define, and where they are (elf_walk.h). Context: APP.
 */
#define _GNU_SOURCE
#include "preload/elf/elf_walk.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/elf/elf_symbols.h"
#include "preload/elf/fork_barrier.h"
#include "sampler/base/arch_sig.h"
#include "sampler/base/compiler.h"

#define PRINTED_MAX 4096U

/* Where this very object is loaded (defined by the linker). */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* The path as the loader has it. Valid as long as we are loaded, that is, to the end. */
static const char *own_path = "";

struct query {
	const char *name;
	const char *const *together;
	bool past_ours;
	unsigned max;
	unsigned n;
	void **found;
};

/* Our object is linked at address 0, so its load address is that of its ELF header. */
static bool is_ours(const struct dl_phdr_info *info)
{
	return info->dlpi_addr == (uintptr_t)__ehdr_start;
}

static int visit(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct query *q = arg;
	struct sp_elf_symbols o;
	const ElfW(Dyn) * d;

	if (is_ours(info)) {
		q->past_ours = true;
		return 0;
	}
	d = q->past_ours ? sp_elf_dynamic(info) : NULL;
	if (d == NULL || !sp_elf_symbols_read(info->dlpi_addr, d, &o))
		return 0;
	for (const char *const *t = q->together; t != NULL && *t != NULL; t++) {
		if (sp_elf_symbols_find(&o, *t) == NULL)
			return 0;
	}
	void *found = sp_elf_symbols_find(&o, q->name);

	if (found == NULL)
		return 0;
	if (q->n < q->max)
		q->found[q->n] = found;
	q->n++;
	return q->together != NULL || q->max == 1;
}

void *sp_elf_find(const char *name, const char *const *together)
{
	void *found = NULL;
	struct query q = {.name = name, .together = together, .max = 1, .found = &found};

	(void)sp_fork_barrier_walk(visit, &q);
	return found;
}

struct each {
	const char *const *names;
	void **found;
	unsigned n;
	bool past_ours;
};

static int visit_each(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct each *e = arg;
	struct sp_elf_symbols o;
	const ElfW(Dyn) * d;

	if (is_ours(info)) {
		e->past_ours = true;
		return 0;
	}
	d = e->past_ours ? sp_elf_dynamic(info) : NULL;
	if (d == NULL || !sp_elf_symbols_read(info->dlpi_addr, d, &o))
		return 0;
	for (unsigned i = 0; i < e->n; i++) {
		if (e->found[i] == NULL)
			e->found[i] = sp_elf_symbols_find(&o, e->names[i]);
	}
	return 0;
}

void sp_elf_find_each(const char *const *names, void **found, unsigned n)
{
	struct each e = {.names = names, .found = found, .n = n};

	(void)sp_fork_barrier_walk(visit_each, &e);
}

unsigned sp_elf_find_all(const char *name, void **found, unsigned max)
{
	struct query q = {.name = name, .max = max, .found = found};

	(void)sp_fork_barrier_walk(visit, &q);
	return q.n;
}

static unsigned startup_objects;

struct spot {
	uintptr_t address;
	unsigned index;
	struct sp_elf_range range;
	const char *name;
	void *found;
	size_t size;
};

static struct sp_elf_range range_of(const struct dl_phdr_info *info)
{
	uintptr_t start = UINTPTR_MAX;
	uintptr_t end = 0;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + p->p_memsz > end ? at + p->p_memsz : end;
	}
	return (struct sp_elf_range){.start = start, .size = end > start ? end - start : 0};
}

static uint64_t mix(uint64_t print, const void *bytes, size_t n)
{
	/* FNV-1a */
	for (size_t i = 0; i < n; i++)
		print = (print ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return print;
}

static uint64_t print_of(const struct dl_phdr_info *info, const ElfW(Dyn) * d)
{
	uint64_t print = UINT64_C(0xcbf29ce484222325);
	struct sp_elf_symbols o;

	if (info->dlpi_name != NULL)
		print = mix(print, info->dlpi_name, strlen(info->dlpi_name));
	if (d == NULL || !sp_elf_symbols_read(info->dlpi_addr, d, &o))
		return print;
	/* linkers put the strings behind the symbols */
	if ((uintptr_t)o.str > (uintptr_t)o.sym) {
		size_t n = (uintptr_t)o.str - (uintptr_t)o.sym;

		print = mix(print, o.sym, n < PRINTED_MAX ? n : PRINTED_MAX);
	}
	return print;
}

static int visit_spot(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct spot *spot = arg;
	struct sp_elf_range range = range_of(info);
	const ElfW(Dyn) *d = sp_elf_dynamic(info);
	const ElfW(Sym) * s;
	struct sp_elf_symbols o;
	unsigned index = spot->index++;

	if (!sp_elf_within(&range, (const void *)spot->address))
		return 0;
	range.permanent = index < startup_objects;
	range.unloads = info->dlpi_subs;
	range.print = print_of(info, d);
	spot->range = range;
	if (spot->name == NULL || d == NULL || !sp_elf_symbols_read(info->dlpi_addr, d, &o))
		return 1;
	s = sp_elf_symbols_find_symbol(&o, spot->name);
	if (s != NULL) {
		spot->found = (void *)(info->dlpi_addr + s->st_value);
		spot->size = s->st_size;
	}
	return 1;
}

struct sp_elf_range sp_elf_object_at(const void *address)
{
	struct spot spot = {.address = (uintptr_t)address};

	(void)sp_fork_barrier_walk(visit_spot, &spot);
	return spot.range;
}

static int visit_subs(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	*(unsigned long long *)arg = info->dlpi_subs;
	return 1;
}

bool sp_elf_stayed(struct sp_elf_range *object)
{
	unsigned long long unloads = 0;
	struct sp_elf_range now;

	(void)sp_fork_barrier_walk(visit_subs, &unloads);
	if (atomic_load_explicit(&object->unloads, memory_order_relaxed) == unloads)
		return object->size != 0;
	now = sp_elf_object_at((const void *)object->start);
	if (object->size == 0 || now.size != object->size || now.print != object->print)
		return false;
	atomic_store_explicit(&object->unloads, now.unloads, memory_order_relaxed);
	return true;
}

static int visit_start(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	++*(unsigned *)arg;
	if (is_ours(info) && info->dlpi_name != NULL)
		own_path = info->dlpi_name;
	return 0;
}

struct place {
	const void *address;
	char *path;
	size_t size;
};

static int visit_path(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct place *p = arg;
	struct sp_elf_range range = range_of(info);
	const char *path = info->dlpi_name != NULL ? info->dlpi_name : "";
	size_t bytes = strlen(path) + 1;

	if (!sp_elf_within(&range, p->address))
		return 0;
	if (bytes > p->size) {
		path += bytes - p->size;
		bytes = p->size;
	}
	memcpy(p->path, path, bytes);
	return 1;
}

void sp_elf_path_at(const void *address, char *path, size_t size)
{
	struct place p = {.address = address, .path = path, .size = size};

	path[0] = '\0';
	(void)sp_fork_barrier_walk(visit_path, &p);
}

static int visit_adds(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	*(unsigned long long *)arg = info->dlpi_adds;
	return 1;
}

unsigned long long sp_elf_adds(void)
{
	unsigned long long adds = 0;

	(void)sp_fork_barrier_walk(visit_adds, &adds);
	return adds;
}

void sp_elf_startup(void)
{
	unsigned n = 0;

	(void)sp_fork_barrier_walk(visit_start, &n);
	startup_objects = n;
}

struct tls_query {
	const char *name;
	unsigned index;
	bool past_ours;
	struct sp_elf_tls *out;
};

/* The storage of an object that was there at the start has the same place in every thread. */
static void note_storage(const struct dl_phdr_info *info, struct sp_elf_tls *out)
{
	intptr_t at = (intptr_t)((uintptr_t)info->dlpi_tls_data - sp_arch_thread_pointer());

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		intptr_t end = at + (intptr_t)p->p_memsz;

		if (p->p_type != PT_TLS)
			continue;
		if (out->begin == out->end)
			out->begin = out->end = at;
		out->begin = at < out->begin ? at : out->begin;
		out->end = end > out->end ? end : out->end;
	}
}

static void note_definition(const struct dl_phdr_info *info, const ElfW(Sym) * s, bool is_static,
			    struct sp_elf_tls *out)
{
	uintptr_t at = (uintptr_t)info->dlpi_tls_data + s->st_value;

	out->n++;
	if (is_static && out->listed < SP_ELF_TLS_MAX && s->st_size == sizeof(void *))
		out->at[out->listed++] = (intptr_t)(at - sp_arch_thread_pointer());
}

static int visit_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct tls_query *q = arg;
	struct sp_elf_symbols o;
	/* glibc has told where the storage is since 2.4; other C libraries may not */
	bool is_static = size >= offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof(void *) &&
			 info->dlpi_tls_data != NULL && q->index < startup_objects;
	const ElfW(Dyn) *d = sp_elf_dynamic(info);
	const ElfW(Sym) * s;

	q->index++;
	if (is_static)
		note_storage(info, q->out);
	if (is_ours(info)) {
		q->past_ours = true;
		return 0;
	}
	if (d == NULL || !sp_elf_symbols_read(info->dlpi_addr, d, &o))
		return 0;
	s = sp_elf_symbols_find_tls(&o, q->name);
	if (s == NULL)
		return 0;
	note_definition(info, s, is_static, q->out);
	q->out->before_ours |= !q->past_ours;
	return 0;
}

void sp_elf_find_tls(const char *name, struct sp_elf_tls *out)
{
	struct tls_query q = {.name = name, .out = out};

	memset(out, 0, sizeof(*out));
	(void)sp_fork_barrier_walk(visit_tls, &q);
}

void *sp_elf_variable_in(const struct sp_elf_range *object, const char *name, size_t *size)
{
	struct spot spot = {.address = object->start, .name = name};

	if (object->size != 0)
		(void)sp_fork_barrier_walk(visit_spot, &spot);
	*size = spot.size;
	return spot.found;
}

void *sp_elf_find_in(const struct sp_elf_range *object, const char *name)
{
	size_t size;

	return sp_elf_variable_in(object, name, &size);
}

bool sp_elf_belongs(const char *name, const void *address, const char *const *together)
{
	struct sp_elf_range object = sp_elf_object_at(address);

	if (address == NULL || sp_elf_find_in(&object, name) != address)
		return false;
	for (; *together != NULL; together++) {
		if (sp_elf_find_in(&object, *together) == NULL)
			return false;
	}
	return true;
}

const char *sp_elf_own_path(void)
{
	return own_path;
}
