/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the file of a mapping. The kernel shows its device and inode. The inode must be that of the
 * file found. The device need not be: on btrfs and overlayfs, which containers use, the kernel
 * shows another device than fstat() does (that of the inode's file system in one place, of the
 * mount or subvolume in the other). A file with the same inode on another device is accepted only
 * after all paths were tried for one with the same device; and any file only if its headers agree
 * with what is mapped (host_objects.c). Context: the exporter.
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
#include <unistd.h>

#include "export/objects/maps.h"
#include "export/util/containers.h"
#include "export/util/shortage.h"
#include "sampler/base/arch_sig.h"

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
 * The vDSO is found in our own memory. The kernel maps the file as it is, with section
 * headers. Its program headers do not tell how much that is: where they end just below the end of a
 * page, as in Linux 6.1, the section headers are on one more. So our list of mappings is asked, once.
 * By a call of its own (mincore) the kernel would tell as well, but a filter of system calls that the
 * host has left to us may end us for one that nothing else makes.
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
#ifdef __aarch64__
#define SP_MACHINE EM_AARCH64
#else
#define SP_MACHINE EM_X86_64
#endif

/* Where the bytes are: in an open file, or in our own memory. */
struct source {
	int fd;
	const uint8_t *image; /* NULL: in fd */
	size_t size;
};

/* How many bytes there are from offset on, at most bytes; or a negative errno. */
static ssize_t read_at(const struct source *s, void *out, size_t bytes, uint64_t offset)
{
	size_t done = 0;

	if (offset > INT64_MAX - bytes)
		return -EINVAL;
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

/* The part [vaddr, vaddr + bytes) of the object, where it is in the file and mapped readable. */
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

/*
 * Only a note inside a load is read, because only loads are mapped, whatever the other headers
 * claim.
 */
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

static bool is_our_elf(const Elf64_Ehdr *eh)
{
	return memcmp(eh->e_ident, ELFMAG, SELFMAG) == 0 && eh->e_ident[EI_CLASS] == ELFCLASS64 &&
	       eh->e_ident[EI_DATA] == ELFDATA2LSB && eh->e_machine == SP_MACHINE &&
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
	}
	take_headers(f, &eh);
	return f->loads != 0;
}

/*
 * A regular file, or a negative errno. Checked before it is opened, because opening a device may
 * have an effect.
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
	/* It may have been replaced in between. */
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

/* The descriptor of the file, or a negative errno; -ENOENT: there is no way to it. */
static int find(struct sp_object_file *f, const struct sp_object_host *host,
		const struct sp_map *map, char path[SP_OBJECT_PATH_MAX])
{
	/* What is shown of a file outside of our root begins with "(unreachable)" and is no path. */
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

static int read_file(struct sp_object_file *f, const struct sp_object_host *host,
		     const struct sp_map *map)
{
	char path[SP_OBJECT_PATH_MAX];
	struct source s = {.fd = find(f, host, map, path)};

	if (s.fd < 0)
		return sp_is_shortage(s.fd) ? s.fd : 0;
	f->path = strdup(path);
	f->known = f->path != NULL && parse(f, &s);
	close(s.fd);
	return f->path != NULL ? 0 : -ENOMEM;
}

static void free_file(struct sp_object_file *f)
{
	if (f == NULL)
		return;
	free(f->mapped);
	free(f->path);
	free(f);
}

/*
 * Finds and reads the file of a mapping. mapped is its path. NULL when out of memory or descriptors; then it is
 * worth another try.
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
	if (err != 0) {
		free_file(f);
		return NULL;
	}
	return f;
}

/* Without access time and number of links, which do not depend on the contents. */
static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* False if the file at its path is no longer the one that was read. */
static bool is_unchanged(const struct sp_object_file *f)
{
	struct stat st;

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
	if (got < 0)
		return false;
	memset((char *)out + got, 0, bytes - (size_t)got);
	return true;
}

/* The list of the files that a host has mapped: usually a few hundred, looked up in the order in which they lie in memory. */
struct sp_object_files_entry {
	struct sp_object_file *file;
	bool seen;
};

struct query {
	const struct sp_object_host *host;
	const struct sp_map *map;
	const char *path;
};

/*
 * A file that was deleted has another path now. Its inode belongs to no other file as long as it is
 * mapped.
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
 * What was read of a file stays true when it is deleted. It can still be read by the program's own
 * link, or by a privileged one, but no longer by its path.
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

/* Each file is opened once, and again if another one with its inode replaced it. */
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
