/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is mapped where, and when (modules.h). There are two sources: the host's mappings, which
 * show the present only, and module events, which show in which order objects came and went.
 * Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/objects/modules.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/containers.h"
#include "export/util/log.h"

#define SP_MODULE_PATH_BYTES 1024U

struct item {
	struct sp_module mod;
	bool seen;
	uint32_t told; /* the interval of its last module event; 0 = never */
	char *later;   /* both paths, if they were found after it was made; else NULL */
	/* The path, and behind it the path to show. */
	char text[];
};

struct sp_modules {
	struct sp_host_objects *host;
	struct item **alive; /* sorted by mod.lo */
	uint32_t alive_n;
	size_t alive_cap;
	struct item **dead; /* in order of death, at most SP_MODULES_MAX */
	uint32_t dead_n;
	size_t dead_cap;
	uint32_t lost; /* of epochs before it some of the dead are missing; 0 = of none */
	uint32_t interval;
	uint32_t epoch;
	size_t bytes; /* of the items of a copy */
};

static uint64_t page_down(uint64_t a)
{
	return a & ~(uint64_t)4095;
}

static uint64_t page_up(uint64_t a)
{
	return page_down(a + 4095);
}

static void read_load(struct sp_module *mod, const struct sp_object_load *l)
{
	uint64_t start = mod->bias + l->vaddr;

	if ((l->flags & PF_X) == 0)
		return;
	if (start < mod->lo)
		mod->lo = start;
	if (start + l->memsz > mod->hi)
		mod->hi = start + l->memsz;
	if (mod->segments < SP_MODULE_SEGMENTS)
		mod->segment[mod->segments++] = (struct sp_segment){
			.start = page_down(start),
			.end = page_up(start + l->memsz),
			.offset = page_down(l->offset),
		};
}

/* All but names, serial and epochs, of an object whose file is known. */
static void read_object(struct sp_module *mod, const struct sp_host_object *object)
{
	const struct sp_object_file *f = object->file;

	memset(mod, 0, sizeof(*mod));
	mod->bias = object->bias;
	mod->phdr = object->bias + f->phdr;
	mod->lo = UINT64_MAX;
	mod->main = object->main;
	mod->vdso = f->vdso;
	for (unsigned i = 0; i < f->loads; i++)
		read_load(mod, &f->load[i]);
	mod->build_id_len = f->build_id_len;
	memcpy(mod->build_id, f->build_id, f->build_id_len);
}

/* The same build at the same place. */
static bool is_same(const struct sp_module *a, const struct sp_module *b)
{
	return a->bias == b->bias && a->phdr == b->phdr && a->hi == b->hi &&
	       a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, sizeof(a->build_id)) == 0;
}

/* The same as the handler found it. */
static void read_event(struct sp_module *mod, const struct sp_module_event *s)
{
	memset(mod, 0, sizeof(*mod));
	mod->bias = s->bias;
	mod->phdr = s->phdr;
	mod->lo = UINT64_MAX;
	for (uint64_t i = 0; i < s->loads && i < SP_MODULE_EVENT_LOADS; i++)
		read_load(mod, &(struct sp_object_load){.flags = (uint32_t)s->load[i].flags,
							.offset = s->load[i].offset,
							.vaddr = s->load[i].vaddr,
							.memsz = s->load[i].memsz});
	mod->build_id_len = s->build_id_len <= SP_BUILD_ID_MAX ? (uint8_t)s->build_id_len : 0;
	memcpy(mod->build_id, s->build_id, mod->build_id_len);
}

static void set_paths(struct sp_module *mod, const char *path, const char *shown)
{
	mod->path = path;
	mod->shown = shown;
	mod->name = sp_text_file_name(shown);
}

static size_t paths_bytes(const struct sp_module *mod)
{
	return strlen(mod->path) + strlen(mod->shown) + 2;
}

static void copy_paths(struct sp_module *mod, char *text)
{
	size_t path = strlen(mod->path) + 1;

	memcpy(text, mod->path, path);
	memcpy(text + path, mod->shown, strlen(mod->shown) + 1);
	set_paths(mod, text, text + path);
}

/*
 * As large as its paths are long: a host has hundreds of objects, and an exporter hundreds of hosts; and copies of the list
 * wait by the thousand where the worker is slow.
 */
static struct item *copy_item(const struct item *from)
{
	struct item *it = malloc(sizeof(*from) + paths_bytes(&from->mod));

	if (it == NULL)
		return NULL;
	*it = *from;
	it->later = NULL;
	copy_paths(&it->mod, it->text);
	return it;
}

static void free_item(struct item *it)
{
	free(it->later);
	free(it);
}

/* A path that is too long becomes empty. */
static void put(char *to, const char *path)
{
	size_t len = strlen(path);

	to[0] = '\0';
	memcpy(to, path, len < SP_MODULE_PATH_BYTES ? len + 1 : 0);
}

static void put_cut(char *to, const char *path, size_t len)
{
	len = len < SP_MODULE_PATH_BYTES ? len : SP_MODULE_PATH_BYTES - 1;
	memcpy(to, path, len);
	to[len] = '\0';
}

/*
 * The path to open, the path to show and the name of a module that is otherwise complete: by the path that the
 * kernel has for its mappings, even if the loader has another one. They lie in text. proc is "/proc/PID".
 */
static void name_object(struct sp_module *mod, const char *proc,
			const struct sp_host_object *object, char text[2 * SP_MODULE_PATH_BYTES])
{
	static const char deleted[] = " (deleted)";
	const struct sp_object_file *f = object->file;
	size_t len = strlen(f->mapped);
	size_t tail = sizeof(deleted) - 1;

	if (len > tail && strcmp(f->mapped + len - tail, deleted) == 0)
		len -= tail;
	/* The program itself can be opened by this link even when its file was replaced. */
	if (object->main)
		(void)snprintf(text, SP_MODULE_PATH_BYTES, "%s/exe", proc);
	else
		put(text, f->path != NULL ? f->path : "");
	put_cut(text + SP_MODULE_PATH_BYTES, f->mapped, len);
	set_paths(mod, text, text + SP_MODULE_PATH_BYTES);
}

/*
 * The loader's path is what the host says, and whoever may write to its memory. We may have more rights
 * than whoever wrote it, so it is shown and leads to no file.
 */
static void name_event(struct sp_module *mod, const char *path, char text[2 * SP_MODULE_PATH_BYTES])
{
	put_cut(text + SP_MODULE_PATH_BYTES, path, strlen(path));
	set_paths(mod, text, text + SP_MODULE_PATH_BYTES);
}

/* Objects beyond these get numbers that nobody else gets. */
#define KNOWN_MAX 4096U

/*
 * Two hashes of 64 bits over what distinguishes objects. They are too long to be equal by chance,
 * and somebody who makes them equal on purpose mixes up only the names in a profile of his own.
 */
static void identify(const struct sp_module *m, const struct stat *file, uint64_t key[2])
{
	key[0] = sp_hash_add_bytes(0, m->build_id, m->build_id_len);
	if (m->build_id_len == 0) {
		const uint64_t which[] = {
			file->st_dev,
			file->st_ino,
			(uint64_t)file->st_size,
			(uint64_t)file->st_mtim.tv_sec,
			(uint64_t)file->st_mtim.tv_nsec,
		};

		key[0] = sp_hash_add_bytes(key[0], which, sizeof(which));
	}
	key[0] = sp_hash_add(key[0], m->bias);
	key[1] = sp_hash_add_bytes(key[0], &m->phdr, sizeof(m->phdr));
	key[1] = sp_hash_add_bytes(key[1], m->shown, strlen(m->shown));
}

/*
 * Numbers of objects, by which cached names and lines are found. Processes of a family have the same objects at
 * the same addresses, and an object that a process has unloaded may come back at the same place. Such an
 * object has one number for all of them, so that it is read once. Never 0. file is NULL where it is not known.
 */
static uint32_t serial_of(const struct sp_module *module, const struct stat *file)
{
	static struct {
		uint64_t key[2];
		uint32_t serial;
	} known[KNOWN_MAX];
	static struct sp_hash_index by_key;
	static uint32_t n;
	static uint32_t serials;
	uint64_t key[2];
	uint32_t i;

	/* Without a build id and a file the path may be another file's by now. */
	if (module->build_id_len == 0 && (file == NULL || file->st_ino == 0))
		return ++serials;
	identify(module, file, key);
	for (uint32_t step = 0; sp_hash_index_next(&by_key, (uint32_t)key[1], &step, &i);)
		if (known[i].key[0] == key[0] && known[i].key[1] == key[1])
			return known[i].serial;
	serials++;
	if (n < KNOWN_MAX && sp_hash_index_put(&by_key, (uint32_t)key[1], n)) {
		memcpy(known[n].key, key, sizeof(key));
		known[n++].serial = serials;
	}
	return serials;
}

/* The handler may compute another end of an object than its file has. */
static bool is_told_of(const struct sp_module *a, const struct sp_module *b)
{
	return a->bias == b->bias && a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, sizeof(a->build_id)) == 0;
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
 * Whether the module event of this object still counts against the mappings. Addresses of samples
 * in the ring refer to the object that was announced last there, whatever the mappings show now.
 * The handler announces an object once in an interval, and another one at the same addresses only
 * when a sample is in it. Samples from before the handler was told to begin anew belong to the next
 * interval.
 */
static bool is_believed(const struct sp_modules *m, const struct item *it)
{
	return it->told != 0 && it->told + 1 >= m->interval;
}

/*
 * Modules that are alive never overlap, so at most one of them begins before this one and reaches
 * into it.
 */
static bool is_kept_out(const struct sp_modules *m, const struct sp_module *mod)
{
	uint32_t n = alive_upto(m, mod->lo);

	return (n != 0 && m->alive[n - 1]->mod.hi > mod->lo) ||
	       (n < m->alive_n && m->alive[n]->mod.lo < mod->hi);
}

/*
 * If the file of an object cannot be opened, nothing is known about it. An object that was
 * announced there stays.
 */
static void see_unknown(struct sp_modules *m, const struct sp_host_object *object)
{
	uint32_t n = alive_upto(m, object->hi - 1);

	if (n != 0 && m->alive[n - 1]->mod.lo >= object->lo)
		m->alive[n - 1]->seen = true;
}

/*
 * An object that was announced has a file from the moment on at which the mappings show one for it, and
 * the kernel's name instead of the loader's.
 */
static bool name_by_file(const struct sp_modules *m, struct sp_module *it,
			 char text[2 * SP_MODULE_PATH_BYTES])
{
	const struct sp_host_object *object = sp_host_objects_find(m->host, it->lo);
	struct sp_module mod;

	if (it->path[0] != '\0' || object == NULL)
		return false;
	read_object(&mod, object);
	if (!is_told_of(it, &mod))
		return false;
	name_object(it, sp_host_objects_proc(m->host), object, text);
	return true;
}

/* Out of memory, it keeps the paths that it has. */
static void name_later(const struct sp_modules *m, struct item *it)
{
	char text[2 * SP_MODULE_PATH_BYTES];
	struct sp_module mod = it->mod;
	char *later;

	if (!name_by_file(m, &mod, text))
		return;
	later = malloc(paths_bytes(&mod));
	if (later == NULL)
		return;
	copy_paths(&mod, later);
	it->mod = mod;
	free(it->later);
	it->later = later;
}

static void see(struct sp_modules *m, const struct sp_host_object *object)
{
	struct sp_module mod;
	uint32_t n;

	if (!object->file->known) {
		see_unknown(m, object);
		return;
	}
	read_object(&mod, object);
	n = alive_upto(m, mod.lo);
	if (n == 0)
		return;
	if (is_same(&m->alive[n - 1]->mod, &mod))
		m->alive[n - 1]->seen = true;
	name_later(m, m->alive[n - 1]);
}

/* Adds a copy of an item that is complete except for serial and epochs. */
static int add(struct sp_modules *m, const struct item *from, const struct stat *file)
{
	struct item *it;
	uint32_t at;

	if (m->alive_n >= SP_MODULES_MAX ||
	    !SP_GROW(m->alive, m->alive_cap, m->alive_n + 1, SP_MODULES_MAX))
		return -ENOMEM;
	it = copy_item(from);
	if (it == NULL)
		return -ENOMEM;
	it->mod.born = m->epoch;
	it->mod.died = SP_EPOCH_ALIVE;
	it->seen = true;
	it->mod.serial = serial_of(&it->mod, file);
	at = alive_upto(m, it->mod.lo);
	memmove(m->alive + at + 1, m->alive + at, (m->alive_n - at) * sizeof(struct item *));
	m->alive[at] = it;
	m->alive_n++;
	return 0;
}

static int add_object(struct sp_modules *m, const struct sp_host_object *object)
{
	char text[2 * SP_MODULE_PATH_BYTES];
	struct item it = {.told = 0};

	if (!object->file->known)
		return 0;
	read_object(&it.mod, object);
	/* Kept out by itself, by an announced object, or by one that is not yet found gone. */
	if (it.mod.lo >= it.mod.hi || is_kept_out(m, &it.mod))
		return 0;
	name_object(&it.mod, sp_host_objects_proc(m->host), object, text);
	return add(m, &it, &object->file->st);
}

/* Forgets the first n of the dead. No stack is from an epoch before `wanted`. */
static void drop_oldest(struct sp_modules *m, uint32_t n, uint32_t wanted)
{
	if (n == 0)
		return;
	if (m->dead[n - 1]->mod.died > wanted)
		m->lost = m->dead[n - 1]->mod.died;
	for (uint32_t i = 0; i < n; i++)
		free_item(m->dead[i]);
	m->dead_n -= n;
	memmove(m->dead, m->dead + n, m->dead_n * sizeof(struct item *));
}

/* Moves what was not seen to the tombstones, under a new epoch. The oldest ones make room. */
static int bury_unseen(struct sp_modules *m)
{
	uint32_t kept = 0, dead = 0;

	for (uint32_t i = 0; i < m->alive_n; i++)
		dead += !m->alive[i]->seen;
	if (dead == 0)
		return 0;
	if (m->dead_n + dead > SP_MODULES_MAX)
		drop_oldest(m, m->dead_n + dead - SP_MODULES_MAX, 0);
	if (!SP_GROW(m->dead, m->dead_cap, m->dead_n + dead, SP_MODULES_MAX))
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
	for (uint32_t i = 0; i < m->alive_n; i++)
		m->alive[i]->seen = m->alive[i]->seen || is_believed(m, m->alive[i]);
	return bury_unseen(m);
}

int sp_modules_refresh(struct sp_modules *m)
{
	int looked = sp_host_objects_refresh(m->host);
	size_t n = sp_host_objects_count(m->host);
	int err = 0;

	if (looked != 0 && looked != -E2BIG)
		return looked;
	for (uint32_t i = 0; i < m->alive_n; i++)
		m->alive[i]->seen = false;
	for (size_t i = 0; i < n; i++)
		see(m, sp_host_objects_get(m->host, i));
	/*
	 * Before new ones are added: an object at a reused address is born after its predecessor
	 * died.
	 */
	if (looked == 0)
		err = bury_gone(m);
	for (size_t i = 0; i < n && err == 0; i++)
		err = add_object(m, sp_host_objects_get(m->host, i));
	return err != 0 ? err : looked;
}

void sp_modules_take_event(struct sp_modules *m, const struct sp_module_event *s)
{
	char text[2 * SP_MODULE_PATH_BYTES] = "";
	struct item it = {.told = m->interval};
	char path[sizeof(s->path)];
	bool known;
	uint32_t n;

	memcpy(path, s->path, sizeof(path));
	path[sizeof(path) - 1] = '\0';
	read_event(&it.mod, s);
	n = alive_upto(m, it.mod.lo);
	known = n != 0 && is_told_of(&m->alive[n - 1]->mod, &it.mod);
	/* Usually it is known. If not, it may be mapped still, and gone at the next refresh. */
	if (!known && sp_host_objects_due(m->host))
		(void)sp_host_objects_refresh(m->host);
	name_event(&it.mod, path, text);
	if (!known || it.mod.build_id_len == 0)
		(void)name_by_file(m, &it.mod, text);
	if (known &&
	    (it.mod.build_id_len != 0 || strcmp(m->alive[n - 1]->mod.shown, it.mod.shown) == 0)) {
		m->alive[n - 1]->told = m->interval;
		return;
	}
	if (it.mod.lo >= it.mod.hi)
		return;
	/* The mappings may be newer than the event. */
	for (uint32_t i = 0; i < m->alive_n; i++)
		m->alive[i]->seen =
			m->alive[i]->mod.hi <= it.mod.lo || it.mod.hi <= m->alive[i]->mod.lo;
	if (bury_unseen(m) == 0)
		(void)add(m, &it, NULL);
}

struct sp_modules *sp_modules_new(const char *proc, int maps)
{
	struct sp_modules *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->interval = 1;
	m->host = sp_host_objects_new(proc, maps);
	if (m->host == NULL) {
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
		free_item(m->alive[i]);
	for (uint32_t i = 0; i < m->dead_n; i++)
		free_item(m->dead[i]);
	free(m->alive);
	free(m->dead);
	sp_host_objects_free(m->host);
	free(m);
}

static bool copy_items(struct item ***to, uint32_t *to_n, struct item *const *from, uint32_t n,
		       size_t *bytes)
{
	*to = calloc(n != 0 ? n : 1, sizeof(struct item *));
	for (; *to != NULL && *to_n < n; ++*to_n) {
		(*to)[*to_n] = copy_item(from[*to_n]);
		if ((*to)[*to_n] == NULL)
			return false;
		*bytes += sizeof(struct item *) + sizeof(struct item) +
			  paths_bytes(&from[*to_n]->mod);
	}
	return *to != NULL;
}

struct sp_modules *sp_modules_copy(const struct sp_modules *m)
{
	struct sp_modules *copy = calloc(1, sizeof(*copy));

	if (copy == NULL)
		return NULL;
	copy->epoch = m->epoch;
	copy->lost = m->lost;
	copy->host = sp_host_objects_copy(m->host);
	if (copy->host != NULL &&
	    copy_items(&copy->alive, &copy->alive_n, m->alive, m->alive_n, &copy->bytes) &&
	    copy_items(&copy->dead, &copy->dead_n, m->dead, m->dead_n, &copy->bytes))
		return copy;
	sp_modules_free(copy);
	return NULL;
}

size_t sp_modules_bytes(const struct sp_modules *copy)
{
	return sizeof(*copy) + copy->bytes + sp_host_objects_bytes(copy->host);
}

struct sp_host_objects *sp_modules_host(const struct sp_modules *m)
{
	return m->host;
}

uint32_t sp_modules_epoch(const struct sp_modules *m)
{
	return m->epoch;
}

/* A program may load and unload objects for ever: half of the room for those that are gone stays for new ones. */
uint32_t sp_modules_forget(struct sp_modules *m, uint32_t epoch, uint32_t wanted)
{
	uint32_t n = 0;

	m->interval++;
	for (; n < m->dead_n && m->dead[n]->mod.died < epoch; n++)
		if (m->dead[n]->mod.died >= wanted && m->dead_n - n <= SP_MODULES_MAX / 2)
			break;
	drop_oldest(m, n, wanted);
	return m->lost > wanted ? m->lost : 0;
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
		if (d->born <= epoch && (epoch < d->died || (now == NULL && epoch >= m->lost)))
			return d;
	}
	return epoch >= m->lost ? now : NULL;
}

const struct sp_module *sp_modules_main(const struct sp_modules *m)
{
	for (uint32_t i = 0; i < m->alive_n; i++)
		if (m->alive[i]->mod.main)
			return &m->alive[i]->mod;
	return NULL;
}
