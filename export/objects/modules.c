/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which object is mapped at which addresses, and when (modules.h). There are two sources: the host's mappings,
 * which show the present only, and module events, which show in which order objects came and went. Context: the
 * exporter.
 */
#define _GNU_SOURCE
#include "export/objects/modules.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/objects/object_name.h"
#include "export/util/containers.h"
#include "export/util/log.h"

#define SP_MODULE_PATH_BYTES 1024U
#define SP_MODULE_NAME_BYTES 256U

struct item {
	struct sp_module mod;
	bool seen;
	uint32_t told; /* the interval of its last module event; 0 = none */
	char *later;   /* its texts, if they were found after the item was made; otherwise NULL */
	/* The path, the path to show, the name. */
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
	/* some of the dead of earlier epochs than this are missing; 0 = none is missing */
	uint32_t lost;
	uint32_t interval;
	uint32_t epoch;
	uint64_t own[SP_REGION_OBJECTS]; /* sp_modules_set_own() */
	size_t bytes;                    /* of the items of a copy */
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

/* Reads all of an object whose file is known, except names, serial and epochs. */
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
	mod->content = f->content;
	memcpy(mod->build_id, f->build_id, f->build_id_len);
}

static struct sp_file_id file_of(const struct sp_host_object *object)
{
	return sp_file_id_of(&object->file->st);
}

/* Two objects without a build id are different builds if their first pages differ. */
static bool is_build(const struct sp_module *a, const struct sp_module *b)
{
	return a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, sizeof(a->build_id)) == 0 &&
	       (a->content == b->content || a->content == 0 || b->content == 0);
}

/*
 * Whether both are the same build at the same address. Without a build id they must also have the same file, because
 * the first pages of two plugins may be equal.
 */
static bool is_same(const struct item *a, const struct sp_module *b, const struct sp_file_id *file)
{
	return a->mod.bias == b->bias && a->mod.phdr == b->phdr && a->mod.hi == b->hi &&
	       is_build(&a->mod, b) &&
	       (b->build_id_len != 0 || !sp_file_id_differs(&a->mod.file, file));
}

/* As read_object(), from a module event of the handler. */
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
	mod->content = mod->build_id_len == 0 ? s->content : 0;
	memcpy(mod->build_id, s->build_id, mod->build_id_len);
}

/* Texts of a module before it is copied. */
struct module_text {
	char path[SP_MODULE_PATH_BYTES];
	char shown[SP_MODULE_PATH_BYTES];
	char name[SP_MODULE_NAME_BYTES];
};

static void set_texts(struct sp_module *mod, const struct module_text *text)
{
	mod->path = text->path;
	mod->shown = text->shown;
	mod->name = text->name;
}

static size_t texts_bytes(const struct sp_module *mod)
{
	return strlen(mod->path) + strlen(mod->shown) + strlen(mod->name) + 3;
}

static const char *copy_text(char **to, const char *text)
{
	char *at = *to;
	size_t bytes = strlen(text) + 1;

	memcpy(at, text, bytes);
	*to += bytes;
	return at;
}

static void copy_texts(struct sp_module *mod, char *text)
{
	mod->path = copy_text(&text, mod->path);
	mod->shown = copy_text(&text, mod->shown);
	mod->name = copy_text(&text, mod->name);
}

/*
 * Allocates only as many bytes as the texts need: a host has hundreds of objects, an exporter may serve hundreds of
 * hosts, and thousands of copies of the list wait if the worker is slow.
 */
static struct item *copy_item(const struct item *from)
{
	struct item *it = malloc(sizeof(*from) + texts_bytes(&from->mod));

	if (it == NULL)
		return NULL;
	*it = *from;
	it->later = NULL;
	it->mod.held = sp_held_object_take(from->mod.held);
	copy_texts(&it->mod, it->text);
	return it;
}

static void free_item(struct item *it)
{
	sp_held_object_drop(it->mod.held);
	free(it->later);
	free(it);
}

/* A path that is too long becomes empty. */
static void put(char to[SP_MODULE_PATH_BYTES], const char *path)
{
	size_t len = strlen(path);

	to[0] = '\0';
	memcpy(to, path, len < SP_MODULE_PATH_BYTES ? len + 1 : 0);
}

static void put_cut(char to[SP_MODULE_PATH_BYTES], const char *path, size_t len)
{
	len = len < SP_MODULE_PATH_BYTES ? len : SP_MODULE_PATH_BYTES - 1;
	memcpy(to, path, len);
	to[len] = '\0';
}

/*
 * Makes three texts of a module that is otherwise complete: the path to open, the path to show, and the name. They
 * come from the kernel's path of the mapping, even if the loader has another path. They are stored in text. proc is
 * "/proc/PID".
 */
static void name_object(struct sp_module *mod, const char *proc,
			const struct sp_host_object *object, struct module_text *text)
{
	static const char deleted[] = " (deleted)";
	const struct sp_object_file *f = object->file;
	size_t len = strlen(f->mapped);
	size_t tail = sizeof(deleted) - 1;

	if (len > tail && strcmp(f->mapped + len - tail, deleted) == 0)
		len -= tail;
	/* The program itself can be opened by this link even when its file was replaced. */
	if (object->main)
		(void)snprintf(text->path, sizeof(text->path), "%s/exe", proc);
	else
		put(text->path, f->path != NULL ? f->path : "");
	put_cut(text->shown, f->mapped, len);
	sp_object_name(f->mapped, f->soname, text->name, sizeof(text->name));
	set_texts(mod, text);
	mod->held = f->held;
}

/*
 * The loader's path comes from the host's memory, so the host may have forged it. The exporter may have more rights
 * than the host, so it shows the path and never opens it.
 */
static void name_event(struct sp_module *mod, const char *path, struct module_text *text)
{
	text->path[0] = '\0';
	put_cut(text->shown, path, strlen(path));
	sp_object_name(path, "", text->name, sizeof(text->name));
	set_texts(mod, text);
}

/* At most this many objects keep their numbers. A further object gets a new number each time. */
#define KNOWN_MAX 4096U

/*
 * Two hashes of 64 bits over everything that distinguishes objects. Two objects do not have equal
 * hashes by chance. A user who makes them equal on purpose mixes up only names in his own profiles.
 */
static void identify(const struct sp_module *m, uint64_t key[2])
{
	key[0] = sp_hash_add_bytes(0, m->build_id, m->build_id_len);
	if (m->build_id_len == 0) {
		const uint64_t which[] = {
			m->content,
			m->file.device,
			m->file.inode,
			m->file.bytes,
			(uint64_t)m->file.changed.tv_sec,
			(uint64_t)m->file.changed.tv_nsec,
		};

		key[0] = sp_hash_add_bytes(key[0], which, sizeof(which));
	}
	key[0] = sp_hash_add(key[0], m->bias);
	key[1] = sp_hash_add_bytes(key[0], &m->phdr, sizeof(m->phdr));
	key[1] = sp_hash_add_bytes(key[1], m->shown, strlen(m->shown));
}

/*
 * Numbers of objects, by which cached names and lines are found. Processes of a family have the
 * same objects at the same addresses, and a process may load an object again at the same address.
 * All of them have one number, so the object is read once. Never 0.
 */
static uint32_t serial_of(const struct sp_module *module)
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

	/* Without a build id and a file, the path may lead to another file by now. */
	if (module->build_id_len == 0 && module->file.inode == 0)
		return ++serials;
	identify(module, key);
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

/*
 * Whether an event names this object. The ends are not compared, because the handler may compute
 * another end than the file shows.
 */
static bool is_told_of(const struct sp_module *a, const struct sp_module *b)
{
	return a->bias == b->bias && is_build(a, b);
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
 * Whether the module event of this object overrides the mappings. The addresses of samples in the
 * ring belong to the object that was announced last there, whatever the mappings show now. The
 * handler announces an object once per interval, and another object at the same addresses only when
 * a sample is in it. Samples that the handler takes before it learns of a new interval still belong
 * to the former announcement, so an event counts for one interval more.
 */
static bool is_believed(const struct sp_modules *m, const struct item *it)
{
	return it->told != 0 && it->told + 1 >= m->interval;
}

/*
 * Whether an object that is alive overlaps with mod. Alive modules never overlap, so only the last
 * one that begins before `mod` can reach into it.
 */
static bool is_kept_out(const struct sp_modules *m, const struct sp_module *mod)
{
	uint32_t n = alive_upto(m, mod->lo);

	return (n != 0 && m->alive[n - 1]->mod.hi > mod->lo) ||
	       (n < m->alive_n && m->alive[n]->mod.lo < mod->hi);
}

/*
 * If the file of an object cannot be opened, nothing is known about the object, so an announced object at that
 * address stays.
 */
static void see_unknown(struct sp_modules *m, const struct sp_host_object *object)
{
	uint32_t n = alive_upto(m, object->hi - 1);

	if (n != 0 && m->alive[n - 1]->mod.lo >= object->lo)
		m->alive[n - 1]->seen = true;
}

/* The file that the host has at that path now; the file is not opened. The inode is 0 if there is none. */
static struct sp_file_id file_at(const struct sp_modules *m, const char *path)
{
	char all[64 + SP_MODULE_PATH_BYTES];
	struct stat st;
	int n = snprintf(all, sizeof(all), "%s/root%s", sp_host_objects_proc(m->host), path);

	/* The root folder of an ended process cannot be found, and is as a rule the same as ours. */
	if (path[0] == '/' && n > 0 && (size_t)n < sizeof(all) &&
	    (stat(all, &st) == 0 || stat(path, &st) == 0))
		return sp_file_id_of(&st);
	return (struct sp_file_id){0};
}

/* Whether the loader's path leads to the mapped file. If the path is relative, only its last part is compared. */
static bool leads_to(const struct sp_modules *m, const char *path,
		     const struct sp_host_object *object)
{
	const struct sp_object_file *f = object->file;
	const char *mapped = path[0] == '/' ? f->mapped : sp_text_file_name(f->mapped);
	const char *name = path[0] == '/' ? path : sp_text_file_name(path);
	size_t len = strlen(name);

	if (strncmp(mapped, name, len) == 0 &&
	    (mapped[len] == '\0' || strcmp(mapped + len, " (deleted)") == 0))
		return true;
	return file_at(m, path).inode == f->inode;
}

/*
 * An announced object gets a file, and the kernel's name instead of the loader's, as soon as the mappings show a file
 * for it. An object without a build id must have the same first page and path: the mappings may show another plugin,
 * which was at these addresses before or after.
 */
static bool name_by_file(const struct sp_modules *m, struct item *it, struct module_text *text)
{
	const struct sp_host_object *object = sp_host_objects_find(m->host, it->mod.lo);
	struct sp_module mod;

	if (sp_module_has_file(&it->mod) || object == NULL)
		return false;
	read_object(&mod, object);
	if (!is_told_of(&it->mod, &mod) ||
	    (mod.build_id_len == 0 &&
	     (it->mod.content != mod.content || !leads_to(m, it->mod.shown, object))))
		return false;
	name_object(&it->mod, sp_host_objects_proc(m->host), object, text);
	it->mod.file = file_of(object);
	return true;
}

/*
 * A plugin without a build id may come and go between two reads of the mappings. It gets the file of an earlier
 * plugin with the same first page, if its path leads to that file and nobody has written to the file since.
 */
static bool name_by_earlier(const struct sp_modules *m, struct item *it, struct module_text *text)
{
	struct sp_file_id file;

	if (sp_module_has_file(&it->mod) || it->mod.build_id_len != 0 || it->mod.content == 0)
		return false;
	file = file_at(m, it->mod.shown);
	for (uint32_t i = m->dead_n; file.inode != 0 && i-- != 0;) {
		const struct item *earlier = m->dead[i];

		if (!sp_module_has_file(&earlier->mod) || earlier->mod.file.inode != file.inode ||
		    sp_file_id_differs(&earlier->mod.file, &file) ||
		    !is_build(&earlier->mod, &it->mod))
			continue;
		put(text->path, earlier->mod.path);
		put(text->shown, earlier->mod.shown);
		(void)snprintf(text->name, sizeof(text->name), "%s", earlier->mod.name);
		set_texts(&it->mod, text);
		it->mod.held = earlier->mod.held;
		it->mod.file = earlier->mod.file;
		return true;
	}
	return false;
}

/* Names an item again. When out of memory, it keeps its old paths. */
static void name_later(const struct sp_modules *m, struct item *it)
{
	struct module_text text;
	struct item named = *it;
	char *later;

	if (!name_by_file(m, &named, &text))
		return;
	later = malloc(texts_bytes(&named.mod));
	if (later == NULL)
		return;
	copy_texts(&named.mod, later);
	free(it->later);
	it->mod = named.mod;
	(void)sp_held_object_take(it->mod.held);
	it->later = later;
}

static void see(struct sp_modules *m, const struct sp_host_object *object)
{
	const struct sp_file_id file = file_of(object);
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
	if (is_same(m->alive[n - 1], &mod, &file)) {
		m->alive[n - 1]->seen = true;
		if (m->alive[n - 1]->mod.held == NULL && m->alive[n - 1]->mod.path[0] != '\0')
			m->alive[n - 1]->mod.held = sp_held_object_take(object->file->held);
	} else if (mod.build_id_len == 0 && is_told_of(&m->alive[n - 1]->mod, &mod))
		m->alive[n - 1]->told =
			0; /* the handler cannot distinguish the two objects, so it announces neither */
	name_later(m, m->alive[n - 1]);
}

/* Adds a copy of an item that is complete except for serial and epochs. */
static int add(struct sp_modules *m, const struct item *from)
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
	it->mod.serial = serial_of(&it->mod);
	at = alive_upto(m, it->mod.lo);
	memmove(m->alive + at + 1, m->alive + at, (m->alive_n - at) * sizeof(struct item *));
	m->alive[at] = it;
	m->alive_n++;
	return 0;
}

static int add_object(struct sp_modules *m, const struct sp_host_object *object)
{
	struct module_text text;
	struct item it = {.told = 0};

	if (!object->file->known)
		return 0;
	read_object(&it.mod, object);
	/*
	 * Something is at these addresses already: this object, an announced object, or an object
	 * whose end was not noticed yet.
	 */
	if (it.mod.lo >= it.mod.hi || is_kept_out(m, &it.mod))
		return 0;
	name_object(&it.mod, sp_host_objects_proc(m->host), object, &text);
	it.mod.file = file_of(object);
	return add(m, &it);
}

/* Forgets the first n dead modules. No stack has an epoch before `wanted`. */
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

/*
 * Moves the modules that were not seen to the dead ones, and begins a new epoch. The oldest dead modules make room.
 */
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
	 * Objects that have gone are buried before new ones are added, so that an object at a
	 * reused address is born after its predecessor died.
	 */
	if (looked == 0)
		err = bury_gone(m);
	for (size_t i = 0; i < n && err == 0; i++)
		err = add_object(m, sp_host_objects_get(m->host, i));
	return err != 0 ? err : looked;
}

void sp_modules_take_event(struct sp_modules *m, const struct sp_module_event *s)
{
	struct module_text text;
	struct item it = {.told = m->interval};
	char path[sizeof(s->path)];
	bool known;
	uint32_t n;

	memcpy(path, s->path, sizeof(path));
	path[sizeof(path) - 1] = '\0';
	read_event(&it.mod, s);
	n = alive_upto(m, it.mod.lo);
	known = n != 0 && is_told_of(&m->alive[n - 1]->mod, &it.mod);
	/*
	 * Usually the object is known. If not, another object may still be mapped there, and gone at the next
	 * refresh.
	 */
	if (!known && sp_host_objects_due(m->host))
		(void)sp_host_objects_refresh(m->host);
	name_event(&it.mod, path, &text);
	if ((!known || it.mod.build_id_len == 0) && !name_by_file(m, &it, &text))
		(void)name_by_earlier(m, &it, &text);
	if (known &&
	    (it.mod.build_id_len != 0 || strcmp(m->alive[n - 1]->mod.shown, it.mod.shown) == 0)) {
		m->alive[n - 1]->told = m->interval;
		return;
	}
	if (it.mod.lo >= it.mod.hi)
		return;
	/*
	 * Objects at the event's addresses are gone, even if the mappings show them, because the
	 * mappings may be newer than the event.
	 */
	for (uint32_t i = 0; i < m->alive_n; i++)
		m->alive[i]->seen =
			m->alive[i]->mod.hi <= it.mod.lo || it.mod.hi <= m->alive[i]->mod.lo;
	(void)sp_held_object_take(it.mod.held);
	if (bury_unseen(m) == 0)
		(void)add(m, &it);
	sp_held_object_drop(it.mod.held);
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
			  texts_bytes(&from[*to_n]->mod);
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
	sp_modules_set_own(copy, m->own);
	copy->host = sp_host_objects_copy(m->host);
	if (copy->host != NULL &&
	    copy_items(&copy->alive, &copy->alive_n, m->alive, m->alive_n, &copy->bytes) &&
	    copy_items(&copy->dead, &copy->dead_n, m->dead, m->dead_n, &copy->bytes))
		return copy;
	sp_modules_free(copy);
	return NULL;
}

void sp_modules_forget_perf_map(struct sp_modules *copy)
{
	sp_host_objects_forget_perf_map(copy->host);
}

void sp_modules_set_own(struct sp_modules *m, const uint64_t bias[SP_REGION_OBJECTS])
{
	memcpy(m->own, bias, sizeof(m->own));
}

bool sp_modules_is_own(const struct sp_modules *m, const struct sp_module *mod)
{
	for (unsigned i = 0; i < SP_REGION_OBJECTS; i++)
		if (m->own[i] != 0 && m->own[i] == mod->bias)
			return true;
	return false;
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

/*
 * A program may load and unload objects for ever. So at the end of an interval, modules that are gone may fill at
 * most half of their room.
 */
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
