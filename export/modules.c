/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the loader's list of objects. Everything taken from a mapped object is read inside the
 * dl_iterate_phdr callback: the loader's lock keeps it mapped. The callbacks allocate nothing,
 * because a host's allocator may call the loader with its own lock held. Context: BG. Callers:
 * main.c refreshes, symbolize.c asks.
 */
#define _GNU_SOURCE
#include "export/modules.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "export/elf_notes.h"
#include "export/module_name.h"

#define SP_SIGHTINGS 32U /* new objects per pass over the list */
#define SP_RETURNS 64U   /* newest of the unloaded objects that a new one may be */

struct item {
	struct sp_module mod;
	bool seen;
	char text[2 * SP_MODULE_PATH_BYTES]; /* path, then the path to show */
};

struct sighting {
	struct sp_module mod;
	char path[SP_MODULE_PATH_BYTES];
};

struct sp_modules {
	sp_phdr_iterate iterate;
	struct item **alive; /* sorted by mod.lo */
	uint32_t alive_n, alive_cap;
	struct item **dead; /* in order of death */
	uint32_t dead_n, dead_cap;
	struct sighting *fresh;
	uint32_t fresh_n;
	bool more; /* the list has more new objects than fresh[] holds */
	bool stale;
	unsigned long long adds, subs;
	uint32_t epoch;
	uint32_t serials;
};

static uint64_t page_down(uint64_t a)
{
	return a & ~(uint64_t)4095;
}

static uint64_t page_up(uint64_t a)
{
	return page_down(a + 4095);
}

static void read_load(struct sp_module *mod, const ElfW(Phdr) * ph)
{
	uint64_t start = mod->bias + ph->p_vaddr;

	if (start < mod->lo)
		mod->lo = start;
	if (start + ph->p_memsz > mod->hi)
		mod->hi = start + ph->p_memsz;
	if ((ph->p_flags & PF_X) != 0 && mod->segments < SP_MODULE_SEGMENTS)
		mod->segment[mod->segments++] = (struct sp_segment){
			.start = page_down(start),
			.end = page_up(start + ph->p_memsz),
			.offset = page_down(ph->p_offset),
		};
}

/* The loader maps nothing but segments, whatever the other headers claim. */
static bool is_mapped(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_R) != 0 &&
		    part->p_vaddr >= ph->p_vaddr && part->p_vaddr - ph->p_vaddr <= ph->p_filesz &&
		    part->p_filesz <= ph->p_filesz - (part->p_vaddr - ph->p_vaddr))
			return true;
	}
	return false;
}

/* What the loader shows of one object; runs under its lock. */
static void read_info(struct sp_module *mod, const struct dl_phdr_info *info)
{
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);

	memset(mod, 0, sizeof(*mod));
	mod->bias = info->dlpi_addr;
	mod->phdr = (uintptr_t)info->dlpi_phdr;
	mod->lo = UINT64_MAX;
	mod->vdso = vdso != 0 && mod->phdr >= vdso && mod->phdr < vdso + 4096;
	mod->main = !mod->vdso && (info->dlpi_name == NULL || info->dlpi_name[0] == '\0');
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const void *at = (const void *)(uintptr_t)(mod->bias + ph->p_vaddr);

		if (ph->p_type == PT_LOAD)
			read_load(mod, ph);
		else if (ph->p_type == PT_NOTE && mod->build_id_len == 0 && is_mapped(info, ph))
			mod->build_id_len = (uint8_t)sp_elf_build_id(
				at, ph->p_filesz, mod->build_id, sizeof(mod->build_id));
	}
}

static bool same_object(const struct sp_module *a, const struct sp_module *b)
{
	return a->bias == b->bias && a->phdr == b->phdr && a->hi == b->hi &&
	       a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, sizeof(a->build_id)) == 0;
}

/* The handler may see another end of an object than the loader shows. */
static bool is_sighted(const struct item *it, const struct sighting *s)
{
	const struct sp_module *a = &it->mod;
	const struct sp_module *b = &s->mod;

	return a->bias == b->bias && a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, sizeof(a->build_id)) == 0 &&
	       (a->build_id_len != 0 || s->path[0] != '/' || strcmp(a->path, s->path) == 0);
}

/* Number of alive modules that begin at or below addr. */
static uint32_t alive_upto(const struct sp_modules *m, uint64_t addr)
{
	uint32_t low = 0;

	for (uint32_t high = m->alive_n; low < high;) {
		uint32_t mid = low + (high - low) / 2;

		if (m->alive[mid]->mod.lo <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int see(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct sp_modules *m = arg;
	struct sp_module mod;
	uint32_t n;

	(void)size;
	read_info(&mod, info);
	if (mod.lo >= mod.hi)
		return 0;
	n = alive_upto(m, mod.lo);
	if (n != 0 && same_object(&m->alive[n - 1]->mod, &mod)) {
		m->alive[n - 1]->seen = true;
		return 0;
	}
	if (m->fresh_n >= SP_SIGHTINGS) {
		m->more = true;
		return 1;
	}
	m->fresh[m->fresh_n].mod = mod;
	m->fresh[m->fresh_n].path[0] = '\0';
	if (info->dlpi_name != NULL)
		strncat(m->fresh[m->fresh_n].path, info->dlpi_name, SP_MODULE_PATH_BYTES - 1);
	m->fresh_n++;
	return 0;
}

static bool reserve(struct item ***list, uint32_t *cap, uint32_t want)
{
	struct item **more;

	if (want <= *cap)
		return true;
	more = realloc(*list, (size_t)(want + 64) * sizeof(struct item *));
	if (more == NULL)
		return false;
	*list = more;
	*cap = want + 64;
	return true;
}

/* What came back to where it was is the same object to all who remember it. */
static uint32_t serial_of(struct sp_modules *m, const struct item *it)
{
	uint32_t end = m->dead_n > SP_RETURNS ? m->dead_n - SP_RETURNS : 0;

	for (uint32_t i = m->dead_n; i-- != end;)
		if (it->mod.build_id_len != 0 && same_object(&m->dead[i]->mod, &it->mod) &&
		    strcmp(m->dead[i]->text, it->text) == 0)
			return m->dead[i]->mod.serial;
	return ++m->serials;
}

static int add_fresh(struct sp_modules *m, const struct sighting *s)
{
	struct item *it;
	uint32_t at;

	if (m->alive_n >= SP_MODULES_MAX || !reserve(&m->alive, &m->alive_cap, m->alive_n + 1))
		return -ENOMEM;
	it = calloc(1, sizeof(*it));
	if (it == NULL)
		return -ENOMEM;
	it->mod = s->mod;
	it->mod.born = m->epoch;
	it->mod.died = SP_EPOCH_ALIVE;
	it->seen = true;
	sp_module_name(&it->mod, s->path, it->text);
	it->mod.serial = serial_of(m, it);
	at = alive_upto(m, it->mod.lo);
	memmove(m->alive + at + 1, m->alive + at, (m->alive_n - at) * sizeof(struct item *));
	m->alive[at] = it;
	m->alive_n++;
	return 0;
}

/* Moves what the last complete pass did not see to the tombstones, under a new epoch. */
static int bury_unseen(struct sp_modules *m)
{
	uint32_t kept = 0, dead = 0;

	for (uint32_t i = 0; i < m->alive_n; i++)
		dead += !m->alive[i]->seen;
	if (dead == 0)
		return 0;
	if (!reserve(&m->dead, &m->dead_cap, m->dead_n + dead))
		return -ENOMEM;
	m->epoch++;
	for (uint32_t i = 0; i < m->alive_n; i++) {
		struct item *it = m->alive[i];

		if (it->seen) {
			m->alive[kept++] = it;
			continue;
		}
		it->mod.died = m->epoch;
		m->dead[m->dead_n++] = it;
	}
	m->alive_n = kept;
	return 0;
}

static int read_generation(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct sp_modules *m = arg;

	(void)size;
	m->stale = m->stale || info->dlpi_adds != m->adds || info->dlpi_subs != m->subs;
	m->adds = info->dlpi_adds;
	m->subs = info->dlpi_subs;
	return 1;
}

/* One pass; new objects go to fresh[]. */
static void look(struct sp_modules *m)
{
	for (uint32_t i = 0; i < m->alive_n; i++)
		m->alive[i]->seen = false;
	m->fresh_n = 0;
	m->more = false;
	m->iterate(see, m);
}

int sp_modules_refresh(struct sp_modules *m)
{
	int err = 0;

	m->iterate(read_generation, m);
	if (!m->stale)
		return 0;
	do {
		look(m);
		/* Buried first, an object at a reused address is born after its predecessor died. */
		if (!m->more)
			err = bury_unseen(m);
		for (uint32_t i = 0; i < m->fresh_n && err == 0; i++)
			err = add_fresh(m, &m->fresh[i]);
	} while (m->more && err == 0);
	m->stale = err != 0;
	return err;
}

/* As the handler found it; see read_info() for what the loader shows. */
static void read_sighting(struct sp_module *mod, const struct sp_sighting *s)
{
	memset(mod, 0, sizeof(*mod));
	mod->bias = s->bias;
	mod->phdr = s->phdr;
	mod->lo = UINT64_MAX;
	for (uint64_t i = 0; i < s->loads && i < SP_SIGHTING_LOADS; i++)
		read_load(mod, &(ElfW(Phdr)){.p_type = PT_LOAD,
					     .p_flags = (ElfW(Word))s->load[i].flags,
					     .p_offset = s->load[i].offset,
					     .p_vaddr = s->load[i].vaddr,
					     .p_memsz = s->load[i].memsz});
	mod->build_id_len = s->build_id_len <= SP_BUILD_ID_MAX ? (uint8_t)s->build_id_len : 0;
	memcpy(mod->build_id, s->build_id, mod->build_id_len);
}

void sp_modules_sight(struct sp_modules *m, const struct sp_sighting *s)
{
	struct sighting *fresh = &m->fresh[0];
	uint32_t n;

	read_sighting(&fresh->mod, s);
	memcpy(fresh->path, s->path, sizeof(s->path));
	fresh->path[sizeof(s->path) - 1] = '\0';
	n = alive_upto(m, fresh->mod.lo);
	if (fresh->mod.lo >= fresh->mod.hi || m->dead_n >= SP_MODULES_MAX ||
	    (n != 0 && is_sighted(m->alive[n - 1], fresh)))
		return;
	/* The list may know better what is there now than what was there then. */
	m->stale = true;
	for (uint32_t i = 0; i < m->alive_n; i++)
		m->alive[i]->seen = m->alive[i]->mod.hi <= fresh->mod.lo ||
				    fresh->mod.hi <= m->alive[i]->mod.lo;
	if (bury_unseen(m) == 0)
		(void)add_fresh(m, fresh);
}

struct sp_modules *sp_modules_new(sp_phdr_iterate iterate)
{
	struct sp_modules *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->iterate = iterate;
	m->stale = true;
	m->fresh = calloc(SP_SIGHTINGS, sizeof(*m->fresh));
	if (m->fresh == NULL) {
		free(m);
		return NULL;
	}
	return m;
}

void sp_modules_free(struct sp_modules *m)
{
	if (m == NULL)
		return;
	for (uint32_t i = 0; i < m->alive_n; i++)
		free(m->alive[i]);
	for (uint32_t i = 0; i < m->dead_n; i++)
		free(m->dead[i]);
	free(m->alive);
	free(m->dead);
	free(m->fresh);
	free(m);
}

sp_phdr_iterate sp_modules_iterate(const struct sp_modules *m)
{
	return m->iterate;
}

uint32_t sp_modules_epoch(const struct sp_modules *m)
{
	return m->epoch;
}

void sp_modules_forget(struct sp_modules *m, uint32_t epoch)
{
	uint32_t n = 0;

	while (n < m->dead_n && m->dead[n]->mod.died < epoch)
		free(m->dead[n++]);
	if (n == 0)
		return;
	memmove(m->dead, m->dead + n, (m->dead_n - n) * sizeof(struct item *));
	m->dead_n -= n;
}

const struct sp_module *sp_modules_find(const struct sp_modules *m, uint64_t pc, uint32_t epoch)
{
	uint32_t n = alive_upto(m, pc);
	const struct sp_module *now = n != 0 ? &m->alive[n - 1]->mod : NULL;

	if (now != NULL && pc >= now->hi)
		now = NULL;
	if (now != NULL && now->born <= epoch)
		return now;
	for (uint32_t i = m->dead_n; i-- != 0;) {
		const struct sp_module *d = &m->dead[i]->mod;

		if (pc < d->lo || pc >= d->hi)
			continue;
		if (d->born <= epoch && (epoch < d->died || now == NULL))
			return d;
	}
	return now;
}

const struct sp_module *sp_modules_main(const struct sp_modules *m)
{
	for (uint32_t i = 0; i < m->alive_n; i++)
		if (m->alive[i]->mod.main)
			return &m->alive[i]->mod;
	return NULL;
}
