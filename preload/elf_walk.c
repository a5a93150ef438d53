/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the dynamic symbol tables of loaded objects. Contexts: APP, BG. */
#define _GNU_SOURCE
#include "preload/elf_walk.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sampler/compiler.h"

/* No real table has chains this long: bounds the walk over a damaged or hostile object. */
#define CHAIN_MAX 65536U
#define PRINTED_MAX 4096U
#define VERSYM_HIDDEN 0x8000U

/* Where this very object is loaded (defined by the linker). */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

struct object {
	uintptr_t base;
	const ElfW(Sym) * sym;
	const char *str;
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
	const uint16_t *versym;
};

struct query {
	const char *name;
	const char *const *together;
	bool past_ours;
	unsigned max;
	unsigned n;
	void **found;
};

/* The loader relocates d_ptr in place for most objects, but not for the vDSO. */
static const void *dyn_ptr(uintptr_t base, ElfW(Addr) p)
{
	return (const void *)(p < base ? base + p : p);
}

static bool read_dynamic(uintptr_t base, const ElfW(Dyn) * d, struct object *o)
{
	memset(o, 0, sizeof(*o));
	o->base = base;
	for (; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			o->sym = dyn_ptr(base, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			o->str = dyn_ptr(base, d->d_un.d_ptr);
			break;
		case DT_GNU_HASH:
			o->gnu_hash = dyn_ptr(base, d->d_un.d_ptr);
			break;
		case DT_HASH:
			o->sysv_hash = dyn_ptr(base, d->d_un.d_ptr);
			break;
		case DT_VERSYM:
			o->versym = dyn_ptr(base, d->d_un.d_ptr);
			break;
		default:
			break;
		}
	}
	return o->sym != NULL && o->str != NULL && (o->gnu_hash != NULL || o->sysv_hash != NULL);
}

/* 2 = the default version, 1 = an older (hidden) version, 0 = not a definition of name. */
static int match(const struct object *o, uint32_t i, const char *name)
{
	const ElfW(Sym) *s = &o->sym[i];

	if (s->st_shndx == SHN_UNDEF || s->st_value == 0 || ELF64_ST_BIND(s->st_info) == STB_LOCAL)
		return 0;
	if (ELF64_ST_TYPE(s->st_info) != STT_FUNC && ELF64_ST_TYPE(s->st_info) != STT_OBJECT &&
	    ELF64_ST_TYPE(s->st_info) != STT_NOTYPE)
		return 0;
	if (strcmp(o->str + s->st_name, name) != 0)
		return 0;
	return o->versym != NULL && (o->versym[i] & VERSYM_HIDDEN) ? 1 : 2;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t h = 5381;

	for (; *name != '\0'; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

static uint32_t sysv_hash_of(const char *name)
{
	uint32_t h = 0;

	for (; *name != '\0'; name++) {
		h = (h << 4) + (uint8_t)*name;
		h = (h ^ ((h & 0xf0000000U) >> 24)) & 0x0fffffffU;
	}
	return h;
}

static void *better(const struct object *o, uint32_t i, const char *name, int *best, void *have)
{
	int m = match(o, i, name);

	if (m <= *best)
		return have;
	*best = m;
	return (void *)(o->base + o->sym[i].st_value);
}

static void *lookup_gnu(const struct object *o, const char *name)
{
	uint32_t nbuckets = o->gnu_hash[0];
	uint32_t first = o->gnu_hash[1];
	uint32_t bloom_words = o->gnu_hash[2];
	uint32_t shift = o->gnu_hash[3];
	const ElfW(Addr) *bloom = (const void *)&o->gnu_hash[4];
	const uint32_t *bucket = (const void *)&bloom[bloom_words];
	const uint32_t *chain = &bucket[nbuckets];
	uint32_t h = gnu_hash_of(name);
	void *found = NULL;
	int best = 0;

	if (nbuckets == 0 || bloom_words == 0)
		return NULL;
	ElfW(Addr) word = bloom[(h / 64) % bloom_words];

	if (!((word >> (h % 64)) & (word >> ((h >> shift) % 64)) & 1))
		return NULL;
	uint32_t i = bucket[h % nbuckets];

	for (uint32_t n = 0; i >= first && n < CHAIN_MAX; n++, i++) {
		if ((chain[i - first] | 1U) == (h | 1U))
			found = better(o, i, name, &best, found);
		if (chain[i - first] & 1U)
			break;
	}
	return found;
}

static void *lookup_sysv(const struct object *o, const char *name)
{
	uint32_t nbuckets = o->sysv_hash[0];
	uint32_t nchain = o->sysv_hash[1];
	const uint32_t *bucket = &o->sysv_hash[2];
	void *found = NULL;
	int best = 0;

	if (nbuckets == 0)
		return NULL;
	uint32_t i = bucket[sysv_hash_of(name) % nbuckets];

	for (uint32_t n = 0; i != 0 && i < nchain && n < CHAIN_MAX; n++) {
		found = better(o, i, name, &best, found);
		i = bucket[nbuckets + i];
	}
	return found;
}

static void *lookup(const struct object *o, const char *name)
{
	return o->gnu_hash != NULL ? lookup_gnu(o, name) : lookup_sysv(o, name);
}

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	}
	return NULL;
}

/* Our object is linked at 0, so its load address is its ELF header's. */
static bool is_ours(const struct dl_phdr_info *info)
{
	return info->dlpi_addr == (uintptr_t)__ehdr_start;
}

static int visit(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct query *q = arg;
	struct object o;
	const ElfW(Dyn) * d;

	if (is_ours(info)) {
		q->past_ours = true;
		return 0;
	}
	d = q->past_ours ? dynamic_of(info) : NULL;
	if (d == NULL || !read_dynamic(info->dlpi_addr, d, &o))
		return 0;
	for (const char *const *t = q->together; t != NULL && *t != NULL; t++) {
		if (lookup(&o, *t) == NULL)
			return 0;
	}
	void *found = lookup(&o, q->name);

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

	(void)dl_iterate_phdr(visit, &q);
	return found;
}

unsigned sp_elf_find_all(const char *name, void **found, unsigned max)
{
	struct query q = {.name = name, .max = max, .found = found};

	(void)dl_iterate_phdr(visit, &q);
	return q.n;
}

static unsigned startup_objects;

struct spot {
	uintptr_t address;
	unsigned index;
	struct sp_elf_range range;
	const char *name;
	void *found;
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
	struct object o;

	if (info->dlpi_name != NULL)
		print = mix(print, info->dlpi_name, strlen(info->dlpi_name));
	if (d == NULL || !read_dynamic(info->dlpi_addr, d, &o))
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
	const ElfW(Dyn) *d = dynamic_of(info);
	struct object o;
	unsigned index = spot->index++;

	if (!sp_elf_within(&range, (const void *)spot->address))
		return 0;
	range.permanent = index < startup_objects;
	range.unloads = info->dlpi_subs;
	range.print = print_of(info, d);
	spot->range = range;
	if (spot->name != NULL && d != NULL && read_dynamic(info->dlpi_addr, d, &o))
		spot->found = lookup(&o, spot->name);
	return 1;
}

struct sp_elf_range sp_elf_object_at(const void *address)
{
	struct spot spot = {.address = (uintptr_t)address};

	(void)dl_iterate_phdr(visit_spot, &spot);
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

	(void)dl_iterate_phdr(visit_subs, &unloads);
	if (atomic_load_explicit(&object->unloads, memory_order_relaxed) == unloads)
		return object->size != 0;
	now = sp_elf_object_at((const void *)object->start);
	if (object->size == 0 || now.size != object->size || now.print != object->print)
		return false;
	atomic_store_explicit(&object->unloads, now.unloads, memory_order_relaxed);
	return true;
}

static int visit_count(struct dl_phdr_info *info SP_UNUSED, size_t size SP_UNUSED, void *arg)
{
	++*(unsigned *)arg;
	return 0;
}

static int visit_adds(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	*(unsigned long long *)arg = info->dlpi_adds;
	return 1;
}

unsigned long long sp_elf_adds(void)
{
	unsigned long long adds = 0;

	(void)dl_iterate_phdr(visit_adds, &adds);
	return adds;
}

void sp_elf_startup(void)
{
	unsigned n = 0;

	(void)dl_iterate_phdr(visit_count, &n);
	startup_objects = n;
}

void *sp_elf_find_in(const struct sp_elf_range *object, const char *name)
{
	struct spot spot = {.address = object->start, .name = name};

	if (object->size != 0)
		(void)dl_iterate_phdr(visit_spot, &spot);
	return spot.found;
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

static int visit_own(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	const char **path = arg;

	if (!is_ours(info))
		return 0;
	*path = info->dlpi_name != NULL ? info->dlpi_name : "";
	return 1;
}

const char *sp_elf_own_path(void)
{
	const char *path = "";

	(void)dl_iterate_phdr(visit_own, &path);
	return path;
}
