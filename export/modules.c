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

#include "export/module_name.h"
#include "export/module_read.h"

#define SP_SIGHTINGS 32U /* new objects per pass over the list */
#define SP_RETURNS 64U   /* newest of the unloaded objects that a new one may be */

struct item {
	struct sp_module mod;
	bool seen;
	uint32_t sighted;                    /* in that batch, the last time; 0 = never */
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
	bool kept_out; /* the list has objects where sighted ones are believed to be */
	uint32_t batch;
	unsigned long long adds, subs;
	uint32_t epoch;
	uint32_t serials;
};

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

/*
 * Samples in the ring mean what was sighted last at their addresses, whatever the loader's list says by
 * now: the handler tells of an object once a batch, and of another one at its addresses only when a
 * sample is in it. Samples from before the handler was told to begin anew belong to the batch after.
 */
static bool is_believed(const struct sp_modules *m, const struct item *it)
{
	return it->sighted != 0 && it->sighted + 1 >= m->batch;
}

static bool is_kept_out(const struct sp_modules *m, const struct sp_module *mod, uint32_t n)
{
	/* Those alive never overlap, so at most one of them begins before it and reaches into it. */
	if (n != 0 && m->alive[n - 1]->mod.hi > mod->lo && is_believed(m, m->alive[n - 1]))
		return true;
	for (; n < m->alive_n && m->alive[n]->mod.lo < mod->hi; n++)
		if (is_believed(m, m->alive[n]))
			return true;
	return false;
}

static int see(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct sp_modules *m = arg;
	struct sp_module mod;
	uint32_t n;

	(void)size;
	sp_module_read(&mod, info);
	if (mod.lo >= mod.hi)
		return 0;
	n = alive_upto(m, mod.lo);
	if (n != 0 && sp_module_same(&m->alive[n - 1]->mod, &mod)) {
		m->alive[n - 1]->seen = true;
		return 0;
	}
	if (is_kept_out(m, &mod, n)) {
		m->kept_out = true;
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
		if (it->mod.build_id_len != 0 && sp_module_same(&m->dead[i]->mod, &it->mod) &&
		    strcmp(m->dead[i]->text, it->text) == 0)
			return m->dead[i]->mod.serial;
	return ++m->serials;
}

static int add_fresh(struct sp_modules *m, const struct sighting *s, uint32_t sighted)
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
	it->sighted = sighted;
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

static int bury_gone(struct sp_modules *m)
{
	for (uint32_t i = 0; i < m->alive_n; i++) {
		if (m->alive[i]->seen || !is_believed(m, m->alive[i]))
			continue;
		m->alive[i]->seen = true;
		m->kept_out = true;
	}
	return bury_unseen(m);
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
	m->kept_out = false;
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
			err = bury_gone(m);
		for (uint32_t i = 0; i < m->fresh_n && err == 0; i++)
			err = add_fresh(m, &m->fresh[i], 0);
	} while (m->more && err == 0);
	/* What is believed against the list is looked at again when it is believed no more. */
	m->stale = err != 0 || m->kept_out;
	return err;
}

void sp_modules_sight(struct sp_modules *m, const struct sp_sighting *s)
{
	struct sighting *fresh = &m->fresh[0];
	uint32_t n;

	sp_module_read_sighting(&fresh->mod, s);
	memcpy(fresh->path, s->path, sizeof(s->path));
	fresh->path[sizeof(s->path) - 1] = '\0';
	n = alive_upto(m, fresh->mod.lo);
	if (n != 0 && is_sighted(m->alive[n - 1], fresh)) {
		m->alive[n - 1]->sighted = m->batch;
		return;
	}
	if (fresh->mod.lo >= fresh->mod.hi || m->dead_n >= SP_MODULES_MAX)
		return;
	/* The list may know better what is there now than what was there then. */
	m->stale = true;
	for (uint32_t i = 0; i < m->alive_n; i++)
		m->alive[i]->seen = m->alive[i]->mod.hi <= fresh->mod.lo ||
				    fresh->mod.hi <= m->alive[i]->mod.lo;
	if (bury_unseen(m) == 0)
		(void)add_fresh(m, fresh, m->batch);
}

struct sp_modules *sp_modules_new(sp_phdr_iterate iterate)
{
	struct sp_modules *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->iterate = iterate;
	m->batch = 1;
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

	m->batch++;
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
