/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the loaded objects in the memory map of a host. An object is found where the first page of
 * its first load is mapped, its code follows as the program headers say, and no other file is
 * mapped in between. Its code may be in anonymous memory: some programs copy their code to huge
 * pages. A file that a program maps without the loader, as data or as code, is not an object.
 *
 * Between two loads of a program or loader the kernel leaves a gap, and may use it: on aarch64,
 * where loads are 64 KiB apart, the vDSO lies in the gap of the loader. So one object may be inside
 * of another. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/objects/host_objects.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export/objects/perf_map.h"
#include "export/util/clock.h"
#include "export/util/containers.h"

#define SP_REST_FACTOR 50U

#define SP_PAGE UINT64_C(4096)
/* Unwinding one stack touches two or three pages of each object. A power of two. */
#define SP_PAGES 256U

/*
 * Pages of files, by the address at which they are mapped. The addresses are in one array, so that
 * a search touches few cache lines: a walk may ask of a thousand words of a stack whether they
 * point behind a call, and most of these words point into no object.
 */
struct pages {
	uint64_t at[SP_PAGES];     /* 0 = none */
	uint64_t absent[SP_PAGES]; /* a page that no object contains */
	/* allocated when the page is read, because most processes read few pages */
	uint8_t *byte[SP_PAGES];
};

/* There are two lists: one of this refresh and one of the last refresh. */
struct list {
	struct sp_host_object *object;
	size_t n;
	size_t cap;
};

struct sp_host_objects {
	char proc[64];
	int spare_maps;
	int perf_map; /* only in a copy: sp_host_objects_perf_map() */
	char exe[PATH_MAX];
	uint64_t page;
	struct sp_maps maps;
	struct sp_maps reading;
	struct sp_object_files files;
	struct list now;
	struct list next;
	struct pages *memory; /* NULL until a page is read */
	struct sp_host_memory own_memory;
	int mem;        /* /proc/PID/mem, while a refresh needs it; -1 */
	bool is_denied; /* the kernel refused to open it; no further attempt, because the kernel's log may mention each one */
	uint64_t end_ns;
	uint64_t took_ns;
};

static uint64_t page_down(const struct sp_host_objects *h, uint64_t a)
{
	return a & ~(h->page - 1);
}

/* Whether this part of the file, or a copy of it, is mapped executable at addr. */
static bool code_at(const struct sp_host_objects *h, const struct sp_map *first, uint64_t addr,
		    uint64_t offset)
{
	const struct sp_map *m = sp_maps_find(&h->reading, addr);

	if (m == NULL || (m->prot & PROT_EXEC) == 0)
		return false;
	if (m->inode == 0)
		return true;
	return m->inode == first->inode && m->device == first->device &&
	       m->start - m->offset == page_down(h, addr) - page_down(h, offset);
}

static bool is_free_of_others(const struct sp_host_objects *h, const struct sp_map *first,
			      uint64_t addr)
{
	const struct sp_map *m = sp_maps_find(&h->reading, addr);

	return m == NULL || m->inode == 0 ||
	       (m->inode == first->inode && m->device == first->device);
}

static bool is_laid_out(const struct sp_host_objects *h, const struct sp_object_file *f,
			const struct sp_map *first, uint64_t bias)
{
	bool code = false;

	for (unsigned i = 0; i < f->loads; i++) {
		const struct sp_object_load *l = &f->load[i];
		uint64_t start = bias + l->vaddr;

		if (!is_free_of_others(h, first, start + l->memsz - 1))
			return false;
		if ((l->flags & PF_X) == 0 || l->filesz == 0)
			continue;
		if (!code_at(h, first, start, l->offset) ||
		    !code_at(h, first, start + l->filesz - 1, l->offset + l->filesz - 1))
			return false;
		code = true;
	}
	return code;
}

/*
 * The number, from 1 on, of the innermost object that reaches to addr or beyond, among the first n
 * of the list; 0 = none.
 */
static size_t around(const struct list *l, size_t n, uint64_t addr)
{
	while (n != 0 && addr >= l->object[n - 1].hi)
		n = l->object[n - 1].around;
	return n;
}

static bool is_in_gap(const struct sp_host_object *outer, const struct sp_host_object *o)
{
	const struct sp_object_file *f = outer->file;

	for (unsigned i = 0; i < f->loads; i++) {
		uint64_t start = outer->bias + f->load[i].vaddr;

		if (o->lo < start + f->load[i].memsz && start < o->hi)
			return false;
	}
	return f->known && o->hi <= outer->hi;
}

static int put_object(struct sp_host_objects *h, const struct sp_host_object *o)
{
	struct list *l = &h->next;
	size_t outer = around(l, l->n, o->lo);

	if (l->n == SP_HOST_OBJECTS_MAX)
		return -E2BIG;
	if (!SP_GROW(l->object, l->cap, l->n + 1, SP_HOST_OBJECTS_MAX))
		return -ENOMEM;
	l->object[l->n] = *o;
	l->object[l->n++].around = outer;
	return 0;
}

/* Adjacent mappings of a file that cannot be opened are one object. */
static int put_unknown(struct sp_host_objects *h, const struct sp_map *map,
		       const struct sp_object_file *f)
{
	struct sp_host_object *last = h->next.n != 0 ? &h->next.object[h->next.n - 1] : NULL;

	if (last != NULL && last->file == f) {
		last->hi = map->end;
		return 0;
	}
	return put_object(h, &(struct sp_host_object){.file = f, .lo = map->start, .hi = map->end});
}

static int put_known(struct sp_host_objects *h, const struct sp_map *map,
		     const struct sp_object_file *f)
{
	const struct sp_object_load *first = sp_object_first_load(f);
	struct sp_host_object o = {.file = f};
	size_t outer;

	if (map->inode != 0 && map->offset != page_down(h, first->offset))
		return 0;
	o.bias = map->start - page_down(h, first->vaddr);
	o.lo = o.bias + f->lo;
	o.hi = o.bias + f->hi;
	o.main = strcmp(f->mapped, h->exe) == 0 || sp_object_files_deleted(f, h->exe);
	outer = around(&h->next, h->next.n, o.lo);
	if (o.hi <= o.lo || (outer != 0 && !is_in_gap(&h->next.object[outer - 1], &o)) ||
	    (map->inode != 0 && !is_laid_out(h, f, map, o.bias)))
		return 0;
	return put_object(h, &o);
}

static int open_memory(struct sp_host_objects *h)
{
	char path[sizeof(h->proc) + 8];
	int fd;

	if (h->is_denied)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/mem", h->proc);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	h->is_denied = fd < 0 && (errno == EACCES || errno == EPERM);
	return fd;
}

/*
 * Reads memory of the process through /proc/PID/mem. The descriptor still belongs to this process if another process
 * gets its id.
 */
static bool read_mem(void *arg, uint64_t at, void *out, size_t bytes)
{
	struct sp_host_objects *h = arg;
	size_t done = 0;

	if (h->mem < 0)
		h->mem = open_memory(h);
	while (h->mem >= 0 && done < bytes && at <= (uint64_t)INT64_MAX - bytes) {
		ssize_t n = pread(h->mem, (char *)out + done, bytes - done, (off_t)(at + done));

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done == bytes;
}

static void close_memory(struct sp_host_objects *h)
{
	if (h->mem >= 0)
		close(h->mem);
	h->mem = -1;
}

static int look(struct sp_host_objects *h)
{
	const struct sp_object_host host = {
		.proc = h->proc, .exe = h->exe, .memory = {read_mem, h}};
	int err = 0;

	h->next.n = 0;
	for (size_t i = 0; i < h->reading.n && err == 0; i++) {
		const struct sp_map *map = &h->reading.map[i];
		const char *path = sp_maps_path(&h->reading, map);
		const struct sp_object_file *f;

		if (map->inode == 0 && strcmp(path, "[vdso]") != 0)
			continue;
		err = sp_object_files_get(&h->files, &host, map, path, &f);
		if (err == 0)
			err = f->known ? put_known(h, map, f) : put_unknown(h, map, f);
	}
	for (size_t i = 0; i < h->next.n && err == 0; i++)
		sp_object_files_hold(&h->files, h->next.object[i].file, &host,
				     h->next.object[i].bias);
	close_memory(h);
	return err;
}

static void free_pages(struct sp_host_objects *h)
{
	for (size_t i = 0; h->memory != NULL && i < SP_PAGES; i++)
		free(h->memory->byte[i]);
	free(h->memory);
	h->memory = NULL;
}

/* Replaces the known list by the one that was read. */
static void take_over(struct sp_host_objects *h)
{
	struct list list = h->now;
	struct sp_maps maps = h->maps;

	/*
	 * All pages are dropped, because another object may be mapped there now. Reading a page
	 * again takes only microseconds.
	 */
	free_pages(h);
	h->now = h->next;
	h->next = list;
	h->maps = h->reading;
	h->reading = maps;
	sp_object_files_drop_unused(&h->files);
}

static int refresh(struct sp_host_objects *h)
{
	char path[sizeof(h->proc) + 8];
	ssize_t n;
	int cut;
	int err;

	(void)snprintf(path, sizeof(path), "%s/exe", h->proc);
	n = readlink(path, h->exe, sizeof(h->exe) - 1);
	h->exe[n > 0 ? n : 0] = '\0';
	(void)snprintf(path, sizeof(path), "%s/maps", h->proc);
	cut = sp_maps_read(&h->reading, path, h->spare_maps);
	if (cut != 0 && cut != -E2BIG)
		return cut;
	/* The file of a process that has ended is empty. */
	if (h->reading.n == 0)
		return -ESRCH;
	err = look(h);
	if (err == 0 || err == -E2BIG) {
		take_over(h);
		return err != 0 ? err : cut;
	}
	sp_object_files_give_up(&h->files);
	return err;
}

int sp_host_objects_refresh(struct sp_host_objects *h)
{
	uint64_t begin = sp_clock_mono_ns();
	int err = refresh(h);

	h->end_ns = sp_clock_mono_ns();
	h->took_ns = h->end_ns - begin;
	return err;
}

bool sp_host_objects_due(const struct sp_host_objects *h)
{
	return sp_clock_mono_ns() - h->end_ns >= h->took_ns * SP_REST_FACTOR;
}

struct sp_host_objects *sp_host_objects_new(const char *proc, int maps)
{
	struct sp_host_objects *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	(void)snprintf(h->proc, sizeof(h->proc), "%s", proc);
	h->spare_maps = maps;
	h->perf_map = h->mem = -1;
	h->page = (uint64_t)sysconf(_SC_PAGESIZE);
	return h;
}

void sp_host_objects_free(struct sp_host_objects *h)
{
	if (h == NULL)
		return;
	sp_object_files_fini(&h->files);
	sp_host_objects_forget_perf_map(h);
	free_pages(h);
	free(h->now.object);
	free(h->next.object);
	sp_maps_fini(&h->maps);
	sp_maps_fini(&h->reading);
	free(h);
}

void sp_host_objects_forget_perf_map(struct sp_host_objects *copy)
{
	if (copy->perf_map >= 0)
		close(copy->perf_map);
	copy->perf_map = -1;
}

struct sp_host_objects *sp_host_objects_copy(const struct sp_host_objects *h)
{
	struct sp_host_objects *copy = sp_host_objects_new(h->proc, -1);

	if (copy != NULL && !sp_maps_copy(&copy->maps, &h->maps)) {
		sp_host_objects_free(copy);
		return NULL;
	}
	/* The map is opened even if no generated code is mapped any more: node has unmapped its code by its end. */
	if (copy != NULL)
		copy->perf_map = sp_perf_map_open(h->proc);
	return copy;
}

size_t sp_host_objects_bytes(const struct sp_host_objects *copy)
{
	return sizeof(*copy) + copy->maps.n * sizeof(*copy->maps.map) + copy->maps.text_n;
}

size_t sp_host_objects_count(const struct sp_host_objects *h)
{
	return h->now.n;
}

const struct sp_host_object *sp_host_objects_get(const struct sp_host_objects *h, size_t i)
{
	return &h->now.object[i];
}

const struct sp_host_object *sp_host_objects_find(const struct sp_host_objects *h, uint64_t addr)
{
	size_t i = around(&h->now, SP_SORTED_UPTO(h->now.object, h->now.n, lo, addr), addr);

	return i != 0 && h->now.object[i - 1].file->known ? &h->now.object[i - 1] : NULL;
}

bool sp_host_objects_have_frames(const struct sp_host_objects *h)
{
	for (size_t i = 0; i < h->now.n; i++)
		if (sp_object_file_frames(h->now.object[i].file) != NULL)
			return true;
	return false;
}

const struct sp_map *sp_host_objects_map(const struct sp_host_objects *h, uint64_t addr)
{
	const struct sp_map *map = sp_maps_find(&h->maps, addr);

	return map != NULL && (map->prot & PROT_EXEC) != 0 ? map : NULL;
}

const char *sp_host_objects_path(const struct sp_host_objects *h, const struct sp_map *map)
{
	return sp_maps_path(&h->maps, map);
}

bool sp_host_objects_is_generated(const struct sp_host_objects *h, const struct sp_map *map)
{
	/*
	 * The kernel's names for memory that a program makes itself: anonymous with a name, memfd_create(), shared.
	 */
	static const char *const own[] = {"[anon", "/memfd:", "/dev/zero", "/SYSV"};
	const char *path = sp_maps_path(&h->maps, map);

	for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (strncmp(path, own[i], strlen(own[i])) == 0)
			return true;
	return path[0] == '\0';
}

int sp_host_objects_perf_map(const struct sp_host_objects *copy)
{
	return copy->perf_map;
}

const char *sp_host_objects_proc(const struct sp_host_objects *h)
{
	return h->proc;
}

/*
 * Memory is read from files. Writable segments are left out, because the loader has relocated them and the file does
 * not say what they contain. When a library was upgraded on disk, its path leads to another file; the old file is
 * still the mapped one.
 */

void sp_host_objects_set_memory(struct sp_host_objects *h, const struct sp_host_memory *memory)
{
	h->own_memory = *memory;
}

bool sp_host_objects_read_own(const struct sp_host_objects *h, uint64_t addr, void *out,
			      size_t bytes)
{
	return h->own_memory.read != NULL &&
	       h->own_memory.read(h->own_memory.arg, addr, out, bytes);
}

/*
 * Whether the load contains the page. Whole pages count, because the loader maps segments in pages, and fills the
 * last page of a file with zeros.
 */
static bool holds_page(const struct sp_host_object *o, const struct sp_object_load *l, uint64_t at)
{
	uint64_t start = (o->bias + l->vaddr) & ~(SP_PAGE - 1);

	return at >= start && at < o->bias + l->vaddr + l->filesz;
}

static const struct sp_object_load *load_of_page(const struct sp_host_object *o, uint64_t at)
{
	for (unsigned i = 0; o != NULL && i < o->file->loads; i++) {
		const struct sp_object_load *l = &o->file->load[i];

		if ((l->flags & PF_R) != 0 && (l->flags & PF_W) == 0 && holds_page(o, l, at))
			return l;
	}
	return NULL;
}

/* Reads a page of an object that exists only in memory. */
static bool read_mapped(struct sp_host_objects *h, const struct sp_host_object *o, uint64_t at,
			void *out)
{
	bool done = o->file->in_memory && read_mem(h, at, out, SP_PAGE);

	close_memory(h);
	return done;
}

/* An object may begin inside of its first page, and end inside of its last one. */
static bool read_page(struct sp_host_objects *h, uint64_t at, size_t i)
{
	const struct sp_host_object *o = sp_host_objects_find(h, at + SP_PAGE - 1);
	const struct sp_object_load *l = load_of_page(o, at);

	if (l == NULL) {
		o = sp_host_objects_find(h, at);
		l = load_of_page(o, at);
	}
	if (l == NULL) {
		h->memory->absent[i] = at;
		return false;
	}
	h->memory->at[i] = 0;
	if (h->memory->byte[i] == NULL)
		h->memory->byte[i] = malloc(SP_PAGE);
	if (h->memory->byte[i] == NULL ||
	    (!sp_object_file_read(o->file, at - o->bias - l->vaddr + l->offset, h->memory->byte[i],
				  SP_PAGE) &&
	     !read_mapped(h, o, at, h->memory->byte[i]) &&
	     !sp_host_objects_read_own(h, at, h->memory->byte[i], SP_PAGE)))
		return false;
	h->memory->at[i] = at;
	return true;
}

static const uint8_t *page_of(struct sp_host_objects *h, uint64_t at)
{
	size_t i = at / SP_PAGE % SP_PAGES;

	if (h->memory == NULL)
		h->memory = calloc(1, sizeof(*h->memory));
	if (h->memory == NULL || at == 0)
		return NULL;
	if (h->memory->at[i] == at)
		return h->memory->byte[i];
	if (h->memory->absent[i] == at)
		return NULL;
	return read_page(h, at, i) ? h->memory->byte[i] : NULL;
}

bool sp_host_objects_read(struct sp_host_objects *h, uint64_t addr, void *out, unsigned bytes)
{
	uint8_t *to = out;

	while (bytes > 0) {
		uint64_t skip = addr % SP_PAGE;
		const uint8_t *page = page_of(h, addr - skip);
		unsigned n = bytes < SP_PAGE - skip ? bytes : (unsigned)(SP_PAGE - skip);

		if (page == NULL)
			return false;
		memcpy(to, page + skip, n);
		to += n;
		addr += n;
		bytes -= n;
	}
	return true;
}

bool sp_host_objects_is_data(const struct sp_host_objects *h, uint64_t addr)
{
	const struct sp_host_object *o = sp_host_objects_find(h, addr);

	for (unsigned i = 0; o != NULL && i < o->file->loads; i++) {
		const struct sp_object_load *l = &o->file->load[i];

		if ((l->flags & PF_W) != 0 && addr - o->bias >= l->vaddr &&
		    addr - o->bias - l->vaddr < l->memsz)
			return true;
	}
	return false;
}
