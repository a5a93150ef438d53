/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the file of a mapping. The kernel shows a mapping's device and inode. The file must have
 * that inode. Its device may differ: on overlayfs and btrfs, fstat() shows another device than the
 * mapping, because the mount or subvolume has another device than the file system. First all paths
 * are searched for a file with the same inode and device, and only then for a file with the same
 * inode on another device. The headers of either file must agree with the mapped memory
 * (host_objects.c). Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/objects/object_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export/objects/maps.h"
#include "export/objects/object_name.h"
#include "export/util/containers.h"
#include "export/util/shortage.h"
#include "sampler/base/arch_sig.h"
#include "sampler/region/record.h"

static size_t padded(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

size_t sp_elf_build_id(const void *notes, size_t len, uint8_t *id, size_t cap)
{
	const unsigned char *at = notes;

	while (len >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		size_t need;

		memcpy(&n, at, sizeof(n));
		need = sizeof(n) + padded(n.n_namesz) + padded(n.n_descsz);
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && len >= sizeof(n) + 4 &&
		    memcmp(at + sizeof(n), "GNU", 4) == 0) {
			if (n.n_descsz > cap || sizeof(n) + 4 + n.n_descsz > len)
				return 0;
			memcpy(id, at + sizeof(n) + 4, n.n_descsz);
			return n.n_descsz;
		}
		if (need >= len)
			return 0;
		at += need;
		len -= need;
	}
	return 0;
}

/*
 * The vDSO is found in our own memory. The kernel maps the vDSO as a whole file, with section headers. Its program
 * headers do not say how large it is: if they end just below the end of a page, as in Linux 6.1, the section headers
 * are on one more page. So our own list of mappings is read, once. A system call (mincore) would tell too, but a
 * seccomp filter that the host has left to us may kill us for a call that nothing else makes.
 */

static uint64_t end_of_mapping(uint64_t addr)
{
	struct sp_maps maps = {0};
	const struct sp_map *map;
	uint64_t end;

	(void)sp_maps_read(&maps, "/proc/self/maps", -1);
	map = sp_maps_find(&maps, addr);
	end = map != NULL ? map->end : 0;
	sp_maps_fini(&maps);
	return end;
}

const uint8_t *sp_vdso_image(size_t *size)
{
	static uint64_t mapping_end;
	uint64_t start = getauxval(AT_SYSINFO_EHDR);
	/* The kernel passes the address as a number. */
	const ElfW(Ehdr) *ehdr = (const ElfW(Ehdr) *)start; // NOLINT(performance-no-int-to-ptr)
	uint64_t bytes;

	if (ehdr == NULL || ehdr->e_shentsize != sizeof(ElfW(Shdr)))
		return NULL;
	if (mapping_end == 0)
		mapping_end = end_of_mapping(start);
	bytes = ehdr->e_shoff + (uint64_t)ehdr->e_shnum * ehdr->e_shentsize;
	if (mapping_end < start || bytes > mapping_end - start)
		return NULL;
	*size = (size_t)bytes;
	return (const uint8_t *)ehdr;
}

#define SP_PHDRS_MAX 64U
#define SP_NOTES_MAX 65536U
#define SP_PAGE UINT64_C(4096)
#define SP_IMAGE_MAX ((size_t)16 << 20)
/* The limit for an image of a file that can be read as long as nobody writes to it. */
#define SP_IMAGE_OF_FILE_MAX ((size_t)1 << 20)

/* The source of a file's bytes: an open file, our own memory, or a mapping of a process. */
struct source {
	int fd;
	const uint8_t *image; /* NULL: in fd */
	size_t size;
	const struct sp_host_memory *memory; /* NULL: in fd or the image */
	uint64_t at;                         /* address there of the file's first byte */
	const struct sp_object_file *f;      /* the object whose segments are mapped */
};

const struct sp_object_load *sp_object_first_load(const struct sp_object_file *f)
{
	const struct sp_object_load *first = &f->load[0];

	for (unsigned i = 1; i < f->loads; i++)
		if (f->load[i].vaddr < first->vaddr)
			first = &f->load[i];
	return first;
}

static uint64_t bias_of(const struct source *s)
{
	return s->at - (sp_object_first_load(s->f)->vaddr & ~(SP_PAGE - 1));
}

/* Bytes of the file that are in no known segment are assumed to be mapped behind its beginning. */
static bool read_memory(const struct source *s, void *out, size_t bytes, uint64_t offset)
{
	uint64_t at = s->at + offset;

	for (unsigned i = 0; i < s->f->loads; i++) {
		const struct sp_object_load *l = &s->f->load[i];

		if ((l->flags & PF_R) != 0 && offset >= l->offset &&
		    offset - l->offset < l->filesz && bytes <= l->filesz - (offset - l->offset))
			at = bias_of(s) + l->vaddr + (offset - l->offset);
	}
	return s->memory->read(s->memory->arg, at, out, bytes);
}

/* The number of bytes that were read from offset on, at most bytes; or a negative errno. */
static ssize_t read_at(const struct source *s, void *out, size_t bytes, uint64_t offset)
{
	size_t done = 0;

	if (offset > INT64_MAX - bytes)
		return -EINVAL;
	if (s->memory != NULL)
		return read_memory(s, out, bytes, offset) ? (ssize_t)bytes : -EIO;
	if (s->image != NULL) {
		done = offset >= s->size ? 0 : s->size - (size_t)offset;
		done = done < bytes ? done : bytes;
		memcpy(out, s->image + offset, done);
		return (ssize_t)done;
	}
	while (done < bytes) {
		ssize_t n = pread(s->fd, (char *)out + done, bytes - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static bool read_exactly(const struct source *s, void *out, size_t bytes, uint64_t offset)
{
	return read_at(s, out, bytes, offset) == (ssize_t)bytes;
}

/*
 * Finds the load that contains [vaddr, vaddr + bytes). NULL if it is not readable, or these bytes
 * are not in the file.
 */
static const struct sp_object_load *load_of(const struct sp_object_file *f, uint64_t vaddr,
					    uint64_t bytes)
{
	for (unsigned i = 0; i < f->loads; i++) {
		const struct sp_object_load *l = &f->load[i];

		if ((l->flags & PF_R) != 0 && vaddr >= l->vaddr && vaddr - l->vaddr <= l->filesz &&
		    bytes <= l->filesz - (vaddr - l->vaddr))
			return l;
	}
	return NULL;
}

static bool take_load(struct sp_object_file *f, const Elf64_Phdr *ph)
{
	if (ph->p_memsz == 0)
		return true;
	if (f->loads == SP_OBJECT_LOADS || ph->p_filesz > ph->p_memsz ||
	    ph->p_vaddr >= SP_ARCH_ADDRESS_END || ph->p_memsz >= SP_ARCH_ADDRESS_END ||
	    ph->p_offset > INT64_MAX || ph->p_filesz > INT64_MAX - ph->p_offset ||
	    (ph->p_vaddr - ph->p_offset) % SP_PAGE != 0)
		return false;
	f->load[f->loads++] = (struct sp_object_load){
		.vaddr = ph->p_vaddr,
		.memsz = ph->p_memsz,
		.filesz = ph->p_filesz,
		.offset = ph->p_offset,
		.flags = ph->p_flags,
	};
	if (ph->p_vaddr < f->lo)
		f->lo = ph->p_vaddr;
	if (ph->p_vaddr + ph->p_memsz > f->hi)
		f->hi = ph->p_vaddr + ph->p_memsz;
	return true;
}

/* A note is read only if it is inside a load, because only loads are mapped, whatever the other headers say. */
static void take_note(struct sp_object_file *f, const struct source *s, const Elf64_Phdr *ph)
{
	const struct sp_object_load *l = load_of(f, ph->p_vaddr, ph->p_filesz);
	void *notes;

	if (l == NULL || ph->p_filesz > SP_NOTES_MAX || ph->p_filesz == 0)
		return;
	notes = malloc((size_t)ph->p_filesz);
	if (notes != NULL &&
	    read_exactly(s, notes, (size_t)ph->p_filesz, l->offset + (ph->p_vaddr - l->vaddr)))
		f->build_id_len = (uint8_t)sp_elf_build_id(notes, (size_t)ph->p_filesz, f->build_id,
							   sizeof(f->build_id));
	free(notes);
}

static void take_headers(struct sp_object_file *f, const Elf64_Ehdr *eh)
{
	uint64_t bytes = (uint64_t)eh->e_phnum * sizeof(Elf64_Phdr);

	for (unsigned i = 0; i < f->loads && f->phdr == 0; i++) {
		const struct sp_object_load *l = &f->load[i];

		if (eh->e_phoff >= l->offset && eh->e_phoff - l->offset <= l->filesz &&
		    bytes <= l->filesz - (eh->e_phoff - l->offset))
			f->phdr = l->vaddr + (eh->e_phoff - l->offset);
	}
}

/* Behind the file's end there are zeros, as in the mapping. */
static void take_content(struct sp_object_file *f, const struct source *s)
{
	uint64_t page[SP_MODULE_CONTENT_BYTES / 8] = {0};

	if (read_at(s, page, sizeof(page), 0) > 0)
		f->content = sp_module_content(page);
}

static bool is_our_elf(const Elf64_Ehdr *eh)
{
	return memcmp(eh->e_ident, ELFMAG, SELFMAG) == 0 && eh->e_ident[EI_CLASS] == ELFCLASS64 &&
	       eh->e_ident[EI_DATA] == ELFDATA2LSB && eh->e_machine == SP_OBJECT_MACHINE &&
	       (eh->e_type == ET_DYN || eh->e_type == ET_EXEC) &&
	       eh->e_phentsize == sizeof(Elf64_Phdr) && eh->e_phnum <= SP_PHDRS_MAX;
}

static bool parse(struct sp_object_file *f, const struct source *s)
{
	Elf64_Phdr ph[SP_PHDRS_MAX] = {{0}};
	Elf64_Ehdr eh;

	if (!read_exactly(s, &eh, sizeof(eh), 0) || !is_our_elf(&eh) ||
	    !read_exactly(s, ph, eh.e_phnum * sizeof(ph[0]), eh.e_phoff))
		return false;
	f->lo = UINT64_MAX;
	for (unsigned i = 0; i < eh.e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && !take_load(f, &ph[i]))
			return false;
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		if (ph[i].p_type == PT_NOTE && f->build_id_len == 0)
			take_note(f, s, &ph[i]);
		if (ph[i].p_type == PT_GNU_EH_FRAME && load_of(f, ph[i].p_vaddr, 1) != NULL)
			f->eh_frame_hdr = ph[i].p_vaddr;
		if (ph[i].p_type == PT_DYNAMIC &&
		    load_of(f, ph[i].p_vaddr, ph[i].p_filesz) != NULL) {
			f->dynamic = ph[i].p_vaddr;
			f->dynamic_bytes = ph[i].p_filesz;
		}
	}
	take_headers(f, &eh);
	if (f->build_id_len == 0)
		take_content(f, s);
	return f->loads != 0;
}

/*
 * A descriptor of a regular file, or a negative errno. The kind is checked before the file is opened, because opening
 * a device may have an effect.
 */
static int open_regular(const char *path, struct stat *st)
{
	int fd;

	if (stat(path, st) != 0)
		return -errno;
	if (!S_ISREG(st->st_mode))
		return -EINVAL;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The file may have been replaced in between. */
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

/*
 * The paths that may lead to the file, best first: its own path; the same in the host's root, which
 * may have changed since we began; for the program itself /proc/PID/exe; and, if the kernel allows
 * it (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), the link of the mapping, which works even for a
 * deleted file.
 */
static bool path_of(unsigned which, const struct sp_object_host *host, const struct sp_map *map,
		    const char *mapped, char path[SP_OBJECT_PATH_MAX])
{
	int n = -1;

	if (which == 0)
		n = snprintf(path, SP_OBJECT_PATH_MAX, "%s", mapped);
	else if (which == 1)
		n = snprintf(path, SP_OBJECT_PATH_MAX, "%s/root%s", host->proc, mapped);
	else if (which == 2 && strcmp(host->exe, mapped) == 0)
		n = snprintf(path, SP_OBJECT_PATH_MAX, "%s/exe", host->proc);
	else if (which == 3)
		n = snprintf(path, SP_OBJECT_PATH_MAX, "%s/map_files/%lx-%lx", host->proc,
			     (unsigned long)map->start, (unsigned long)map->end);
	return n > 0 && n < (int)SP_OBJECT_PATH_MAX;
}

#define SP_PATHS 4U

/* The descriptor of the file, or a negative errno; -ENOENT: no path leads to it. */
static int find(struct sp_object_file *f, const struct sp_object_host *host,
		const struct sp_map *map, char path[SP_OBJECT_PATH_MAX])
{
	/* The kernel shows "(unreachable)" in front of a file outside of our root: that is no path. */
	for (unsigned i = 0; f->mapped[0] == '/' && i < 2 * SP_PATHS; i++) {
		bool any_device = i >= SP_PATHS;
		int fd = path_of(i % SP_PATHS, host, map, f->mapped, path)
				 ? open_regular(path, &f->st)
				 : -ENOENT;

		if (fd >= 0 && f->st.st_ino == f->inode &&
		    (any_device || f->st.st_dev == f->device))
			return fd;
		if (fd >= 0)
			close(fd);
		else if (sp_is_shortage(fd))
			return fd;
	}
	return -ENOENT;
}

/* Whether the file may be gone from its path when its names are looked up. */
static bool is_passing(const struct sp_object_file *f)
{
	return f->st.st_nlink == 0 || f->build_id_len == 0 || sp_object_is_temporary(f->mapped);
}

static bool read_by_address(void *arg, uint64_t vaddr, void *out, size_t bytes)
{
	const struct source *s = arg;
	const struct sp_object_load *l = load_of(s->f, vaddr, bytes);

	if (l == NULL)
		return false;
	if (s->memory != NULL)
		return s->memory->read(s->memory->arg, bias_of(s) + vaddr, out, bytes);
	return read_exactly(s, out, bytes, l->offset + (vaddr - l->vaddr));
}

static struct sp_object_layout layout_of(const struct sp_object_file *f)
{
	return (struct sp_object_layout){
		.load = f->load,
		.loads = f->loads,
		.lo = f->lo,
		.hi = f->hi,
		.eh_frame_hdr = f->eh_frame_hdr,
		.dynamic = f->dynamic,
		.dynamic_bytes = f->dynamic_bytes,
	};
}

static void take_soname(struct sp_object_file *f, struct source *s)
{
	const struct sp_object_reader reader = {read_by_address, s,
						s->memory != NULL ? bias_of(s) : 0};

	const struct sp_object_layout layout = layout_of(f);

	s->f = f;
	if (sp_object_is_temporary(f->mapped))
		sp_object_soname(&layout, &reader, f->soname);
}

static int read_file(struct sp_object_file *f, const struct sp_object_host *host,
		     const struct sp_map *map)
{
	char path[SP_OBJECT_PATH_MAX];
	struct source s = {.fd = find(f, host, map, path)};

	if (s.fd < 0)
		return s.fd;
	f->path = strdup(path);
	f->known = f->path != NULL && parse(f, &s);
	if (f->known)
		take_soname(f, &s);
	if (f->known && is_passing(f))
		f->held = sp_held_object_file(s.fd);
	close(s.fd);
	return f->path != NULL ? 0 : -ENOMEM;
}

/* Reading memory of a device may have an effect. */
static bool is_of_device(const char *mapped)
{
	return strncmp(mapped, "/dev/", 5) == 0 && strncmp(mapped, "/dev/shm/", 9) != 0;
}

/* If no path leads to the file, its mapped memory tells as much as the handler knows. */
static void read_mapped(struct sp_object_file *f, const struct sp_object_host *host,
			const struct sp_map *map)
{
	struct source s = {.fd = -1, .memory = &host->memory, .at = map->start, .f = f};

	if (host->memory.read == NULL || is_of_device(f->mapped) || map->offset != 0 ||
	    (map->prot & PROT_READ) == 0)
		return;
	f->known = f->in_memory = parse(f, &s);
	if (f->known)
		take_soname(f, &s);
	f->st = (struct stat){.st_dev = f->device, .st_ino = f->inode};
}

/* What sp_object_file_frames() reads of a file later, although the file itself is const. */
struct sp_object_frames {
	struct sp_frame_table *table;
	bool is_read;
};

static void free_file(struct sp_object_file *f)
{
	if (f == NULL)
		return;
	sp_held_object_drop(f->held);
	if (f->frames != NULL)
		sp_frame_table_free(f->frames->table);
	free(f->frames);
	free(f->mapped);
	free(f->path);
	free(f);
}

/*
 * Finds and reads the file of a mapping. mapped is its path. NULL when out of memory or descriptors; a later attempt
 * may succeed.
 */
static struct sp_object_file *new_file(const struct sp_object_host *host, const struct sp_map *map,
				       const char *mapped)
{
	struct sp_object_file *f = calloc(1, sizeof(*f));
	struct source own = {.fd = -1};
	int err;

	if (f == NULL)
		return NULL;
	f->device = map->device;
	f->inode = map->inode;
	f->vdso = map->inode == 0;
	f->mapped = strdup(mapped);
	err = f->mapped != NULL ? 0 : -ENOMEM;
	if (f->vdso)
		own.image = sp_vdso_image(&own.size);
	if (own.image != NULL)
		f->known = parse(f, &own);
	else if (err == 0 && !f->vdso)
		err = read_file(f, host, map);
	if (err == -ENOENT)
		read_mapped(f, host, map);
	if (f->known && !f->in_memory)
		f->frames = calloc(1, sizeof(*f->frames));
	if (sp_is_shortage(err)) {
		free_file(f);
		return NULL;
	}
	return f;
}

/* Compares all but the access time and the number of links, which do not depend on the contents. */
static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* False if the path leads to another file than the one that was read. */
static bool is_unchanged(const struct sp_object_file *f)
{
	struct stat st;

	/* By now another file may have this inode, and be mapped at the same address. */
	if (f->in_memory)
		return false;
	if (f->path == NULL)
		return true;
	return stat(f->path, &st) == 0 && same(&st, &f->st);
}

bool sp_object_file_read(const struct sp_object_file *f, uint64_t offset, void *out, size_t bytes)
{
	struct source s = {.fd = -1};
	struct stat st = {0};
	ssize_t got = -1;

	if (f->vdso)
		s.image = sp_vdso_image(&s.size);
	else if (f->path != NULL)
		s.fd = open_regular(f->path, &st);
	if (s.image != NULL || (s.fd >= 0 && same(&st, &f->st)))
		got = read_at(&s, out, bytes, offset);
	if (s.fd >= 0)
		close(s.fd);
	s.fd = f->held != NULL ? f->held->fd : -1;
	if (got < 0 && s.fd >= 0 && sp_held_object_is_unchanged(f->held))
		got = read_at(&s, out, bytes, offset);
	if (got < 0)
		return false;
	memset((char *)out + got, 0, bytes - (size_t)got);
	return true;
}

static bool read_file_at(const void *arg, uint64_t offset, void *out, size_t bytes)
{
	return sp_object_file_read(arg, offset, out, bytes);
}

const struct sp_frame_table *sp_object_file_frames(const struct sp_object_file *f)
{
	const struct sp_frame_file file = {read_file_at, f};
	const struct sp_object_layout layout = layout_of(f);
	struct sp_object_frames *frames = f->frames;

	if (frames == NULL)
		return NULL;
	if (!frames->is_read)
		frames->table = sp_frame_table_new(&layout, &file);
	frames->is_read = true;
	return frames->table;
}

/* The list of the files that a host has mapped: usually a few hundred, looked up in the order in which they lie in memory. */
struct sp_object_files_entry {
	struct sp_object_file *file;
	bool seen;
	bool is_held; /* sp_object_files_hold() was called for it; the content is held as far as possible */
};

struct query {
	const struct sp_object_host *host;
	const struct sp_map *map;
	const char *path;
};

/*
 * Whether `path` is the mapped path with the kernel's mark of a deleted file. While a deleted file
 * is mapped, no other file gets its inode.
 */
bool sp_object_files_deleted(const struct sp_object_file *f, const char *path)
{
	size_t len = strlen(f->mapped);

	return strncmp(path, f->mapped, len) == 0 && strcmp(path + len, " (deleted)") == 0;
}

static bool is_of(const struct sp_object_file *f, const struct sp_map *map, const char *path)
{
	return f->inode == map->inode && f->device == map->device &&
	       (strcmp(f->mapped, path) == 0 || sp_object_files_deleted(f, path));
}

static int add(struct sp_object_files *all, const struct query *q,
	       const struct sp_object_file **out)
{
	struct sp_object_file *f;

	if (all->n == SP_OBJECT_FILES_MAX)
		return -E2BIG;
	if (!SP_GROW(all->entry, all->cap, all->n + 1, SP_OBJECT_FILES_MAX))
		return -ENOMEM;
	f = new_file(q->host, q->map, q->path);
	if (f == NULL)
		return -ENOMEM;
	all->hint = all->n;
	all->entry[all->n++] = (struct sp_object_files_entry){.file = f, .seen = true};
	*out = f;
	return 0;
}

/*
 * Finds the path of a deleted file again. What was read from the file stays true. The file can
 * still be read through /proc/PID/exe or, with privileges, through the link of the mapping, but no
 * longer by its path.
 */
static int reopen(struct sp_object_files *all, const struct query *q,
		  const struct sp_object_files_entry *known, const struct sp_object_file **out)
{
	size_t at = (size_t)(known - all->entry);
	int err = add(all, q, out);

	if (err != 0 || (*out)->known)
		return err;
	free_file(all->entry[--all->n].file);
	all->hint = at;
	all->entry[at].seen = true;
	*out = all->entry[at].file;
	return 0;
}

/* Each file is opened once, and again if another file with its inode has replaced it. */
int sp_object_files_get(struct sp_object_files *all, const struct sp_object_host *host,
			const struct sp_map *map, const char *mapped,
			const struct sp_object_file **out)
{
	const struct query q = {.host = host, .map = map, .path = mapped};

	/* The lines of a file are adjacent, so the search begins where the last one ended. */
	for (size_t n = 0; n < all->n; n++, all->hint++) {
		struct sp_object_files_entry *f = &all->entry[all->hint % all->n];

		if (!is_of(f->file, map, mapped))
			continue;
		if (f->seen || is_unchanged(f->file)) {
			f->seen = true;
			*out = f->file;
			return 0;
		}
		if (f->file->known && sp_object_files_deleted(f->file, mapped))
			return reopen(all, &q, f, out);
	}
	return add(all, &q, out);
}

static bool has_id_of(const struct sp_object_file *a, const struct sp_object_file *b)
{
	return a->build_id_len != 0 && a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, a->build_id_len) == 0;
}

/*
 * Makes `st` of an image distinguish it from other images. Without a build id this needs a hash of
 * the image.
 */
static void tell_apart(struct sp_object_file *f)
{
	uint64_t hash =
		f->held != NULL ? sp_hash_add_bytes(f->content, f->held->image, f->held->bytes) : 0;

	f->st.st_size = f->held != NULL ? (off_t)f->held->bytes : 0;
	f->st.st_ctim = (struct timespec){.tv_sec = (time_t)(hash >> 32),
					  .tv_nsec = (long)(hash & UINT32_MAX)};
}

/* Whether the beginning of the memory is the object's: a program may have written another object into the file. */
static bool is_mapped(const struct sp_object_file *f, const struct source *s)
{
	uint64_t page[SP_MODULE_CONTENT_BYTES / 8];

	return f->build_id_len != 0 || f->content == 0 ||
	       (s->memory->read(s->memory->arg, s->at, page, sizeof(page)) &&
		sp_module_content(page) == f->content);
}

static void hold(struct sp_object_files *all, struct sp_object_file *f,
		 const struct sp_host_memory *memory, uint64_t bias)
{
	struct source s = {.fd = -1, .memory = memory, .f = f};
	const struct sp_object_reader reader = {read_by_address, &s, bias};
	const struct sp_object_layout layout = layout_of(f);
	size_t most = f->in_memory ? SP_IMAGE_MAX : SP_IMAGE_OF_FILE_MAX;
	size_t bytes = 0;
	uint8_t *image;

	s.at = bias + (sp_object_first_load(f)->vaddr & ~(SP_PAGE - 1));
	for (size_t i = 0; i < all->n && f->held == NULL; i++)
		if (has_id_of(all->entry[i].file, f))
			f->held = sp_held_object_take(all->entry[i].file->held);
	if ((f->held == NULL || f->build_id_len == 0) && is_mapped(f, &s)) {
		image = sp_object_image(&layout, &reader, most, &bytes);
		if (image != NULL)
			f->held = sp_held_object_image(f->held, image, bytes);
	}
	if (f->in_memory && f->build_id_len == 0)
		tell_apart(f);
}

/* The program itself needs no image, because the kernel lets nobody write to the file of a running program. */
static bool needs_image(const struct sp_object_file *f, const struct sp_object_host *host)
{
	return f->known && !f->vdso &&
	       (f->in_memory || (f->build_id_len == 0 && strcmp(f->mapped, host->exe) != 0));
}

void sp_object_files_hold(struct sp_object_files *all, const struct sp_object_file *file,
			  const struct sp_object_host *host, uint64_t bias)
{
	for (size_t i = 0; host->memory.read != NULL && i < all->n; i++) {
		struct sp_object_files_entry *e = &all->entry[i];

		if (e->file != file || e->is_held)
			continue;
		e->is_held = true;
		if (needs_image(file, host))
			hold(all, e->file, &host->memory, bias);
	}
}

void sp_object_files_drop_unused(struct sp_object_files *all)
{
	size_t kept = 0;

	for (size_t i = 0; i < all->n; i++) {
		if (all->entry[i].seen)
			all->entry[kept++] = all->entry[i];
		else
			free_file(all->entry[i].file);
	}
	all->n = kept;
	sp_object_files_give_up(all);
}

void sp_object_files_give_up(struct sp_object_files *all)
{
	for (size_t i = 0; i < all->n; i++)
		all->entry[i].seen = false;
}

void sp_object_files_fini(struct sp_object_files *all)
{
	for (size_t i = 0; i < all->n; i++)
		free_file(all->entry[i].file);
	free(all->entry);
	memset(all, 0, sizeof(*all));
}
