/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens ELF files for libelf and libdw, and finds separate files with debug information. Files are mapped read-only.
 * Debug information may have several GiB, but the lookup of an address needs only a few pages, and the kernel can
 * take pages of a file back. libelf copies the headers of such a file, because it changes them when it unpacks a
 * section.
 *
 * libdwfl, which could find and open files as well, is not used: it maps debug files writable, which
 * counts as private memory; it waits for a writer when a path leads to a FIFO; it takes names from
 * string tables without a NUL; and it unpacks .gnu_debugdata of any size. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/symbols/elf_file.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "export/util/shortage.h"
#include "sampler/base/compiler.h"
#include "sampler/base/text.h"

#define SP_CRC_BUFFER 65536U
/* a larger file is not opened by its link, because its checksum takes too long */
#define SP_CRC_MAX ((uint64_t)1 << 30)

static SP_TLS sigjmp_buf *guard;

/*
 * Without a guard the SIGBUS does not come from reading a mapped file, so the default action
 * applies.
 */
static void on_bus_error(int signo)
{
	if (guard != NULL)
		siglongjmp(*guard, 1); // NOLINT(cert-err52-cpp)
	(void)signal(signo, SIG_DFL);
}

bool sp_elf_guard(void (*fn)(void *arg), void *arg)
{
	static _Atomic bool is_set;
	/* The signal is not blocked during the handler, because the handler does not return. */
	struct sigaction action = {.sa_handler = on_bus_error, .sa_flags = SA_NODEFER};
	sigjmp_buf here;

	if (guard == NULL) {
		if (!is_set)
			is_set = sigaction(SIGBUS, &action, NULL) == 0;
		if (sigsetjmp(here, 0) != 0) { // NOLINT(cert-err52-cpp)
			guard = NULL;
			return false;
		}
		guard = &here;
		fn(arg);
		guard = NULL;
	} else {
		fn(arg);
	}
	return true;
}

const char *sp_elf_file_section_name(Elf *elf, Elf_Scn *scn)
{
	const char *name = NULL;
	size_t strings;
	GElf_Shdr sh;

	if (gelf_getshdr(scn, &sh) != NULL && elf_getshdrstrndx(elf, &strings) == 0)
		name = elf_strptr(elf, strings, sh.sh_name);
	return name != NULL ? name : "";
}

Elf_Scn *sp_elf_file_section(Elf *elf, const char *name)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn)) != NULL)
		if (strcmp(sp_elf_file_section_name(elf, scn), name) == 0)
			return scn;
	return NULL;
}

const Elf_Data *sp_elf_file_strings(Elf *elf, const GElf_Shdr *sh)
{
	Elf_Scn *scn = elf_getscn(elf, sh->sh_link);
	const Elf_Data *data;
	GElf_Shdr names;

	if (scn == NULL || gelf_getshdr(scn, &names) == NULL || names.sh_type != SHT_STRTAB ||
	    (names.sh_flags & SHF_COMPRESSED) != 0)
		return NULL;
	data = elf_rawdata(scn, NULL);
	if (data == NULL || data->d_buf == NULL || data->d_size == 0 ||
	    ((const char *)data->d_buf)[data->d_size - 1] != '\0')
		return NULL;
	return data;
}

static bool has_content_of(Elf *elf, const struct sp_module *mod)
{
	uint64_t page[SP_MODULE_CONTENT_BYTES / 8] = {0};
	size_t bytes = 0;
	const char *file = elf_rawfile(elf, &bytes);

	if (mod->content == 0 || file == NULL)
		return mod->content == 0;
	memcpy(page, file, bytes < sizeof(page) ? bytes : sizeof(page));
	return sp_module_content(page) == mod->content;
}

bool sp_elf_file_laid_out_as(Elf *elf, const struct sp_module *mod)
{
	unsigned segments = 0;
	size_t n = 0;
	GElf_Phdr ph;

	if (elf_getphdrnum(elf, &n) != 0 || !has_content_of(elf, mod))
		return false;
	for (size_t i = 0; i < n && gelf_getphdr(elf, (int)i, &ph) != NULL; i++) {
		const struct sp_segment *g = &mod->segment[segments];
		uint64_t start = mod->bias + ph.p_vaddr;

		if (ph.p_type != PT_LOAD || (ph.p_flags & PF_X) == 0)
			continue;
		if (segments == SP_MODULE_SEGMENTS)
			return true;
		if (segments == mod->segments || start < g->start || start - g->start >= 4096 ||
		    start + ph.p_memsz > g->end || g->end - (start + ph.p_memsz) >= 4096)
			return false;
		segments++;
	}
	return segments == mod->segments;
}

static const struct sp_elf_file closed = {.fd = -1};

/* File systems stamp changes with the time of the kernel's last tick, so a little too early. */
#define CHANGE_STEP_NS ((int64_t)(20 * SP_NS_PER_MS))

static int64_t newest_ns;

void sp_elf_files_only_before(int64_t ns)
{
	newest_ns = ns;
}

static bool is_too_new(const struct stat *st)
{
	int64_t changed = st->st_ctim.tv_sec * (int64_t)SP_NS_PER_S + st->st_ctim.tv_nsec;

	return newest_ns != 0 && changed > newest_ns - CHANGE_STEP_NS;
}

static int check(struct sp_elf_file *f, const uint8_t *id, size_t id_len)
{
	const void *have;
	struct stat st;
	ssize_t n;

	/* The descriptor may belong to a device, or to a pipe without an end. */
	if (fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	if (is_too_new(&st))
		return -ESTALE;
	f->bytes = (uint64_t)st.st_size;
	if (f->bytes > SP_ELF_MAPPED_MAX)
		return -EFBIG;
	elf_version(EV_CURRENT);
	f->elf = elf_begin(f->fd, ELF_C_READ_MMAP, NULL);
	if (f->elf == NULL || elf_kind(f->elf) != ELF_K_ELF)
		return -EINVAL;
	n = dwelf_elf_gnu_build_id(f->elf, &have);
	n = n > 0 ? n : 0;
	return (size_t)n == id_len && (n == 0 || memcmp(have, id, id_len) == 0) ? 0 : -ESTALE;
}

int sp_elf_file_open_fd(int fd, const uint8_t *id, size_t id_len, struct sp_elf_file *out)
{
	int err;

	*out = (struct sp_elf_file){.fd = fd};
	err = check(out, id, id_len);
	if (err == 0)
		return 0;
	elf_end(out->elf);
	close(fd);
	*out = closed;
	return err;
}

static int why_not(void)
{
	return sp_is_shortage(-errno) ? -errno : -ENOENT;
}

int sp_elf_file_open(const char *path, const uint8_t *id, size_t id_len, struct sp_elf_file *out)
{
	struct stat st;
	int fd;

	*out = closed;
	/* The path comes from an untrusted source, and opening a device may have an effect. */
	if (stat(path, &st) != 0)
		return why_not();
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	/*
	 * Non-blocking, because the path may have become a FIFO, which must not stop the exporter.
	 */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? why_not() : sp_elf_file_open_fd(fd, id, id_len, out);
}

int sp_elf_file_open_image(void *image, size_t size, struct sp_elf_file *out)
{
	*out = (struct sp_elf_file){.fd = -1, .image = image, .bytes = size};
	elf_version(EV_CURRENT);
	out->elf = elf_memory(image, size);
	if (out->elf != NULL && elf_kind(out->elf) == ELF_K_ELF)
		return 0;
	sp_elf_file_close(out);
	return -EINVAL;
}

/*
 * Without its descriptor, libelf needs the whole file in memory: a file that could not be mapped is
 * read as a whole, if it fits.
 */
bool sp_elf_file_let_go(struct sp_elf_file *f)
{
	if (f->fd >= 0 && elf_cntl(f->elf, ELF_C_FDREAD) != 0)
		return false;
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	return true;
}

void sp_elf_file_close(struct sp_elf_file *f)
{
	elf_end(f->elf);
	if (f->fd >= 0)
		close(f->fd);
	free(f->image);
	*f = closed;
}

static int open_by_id(const char *root, const uint8_t *id, size_t id_len, struct sp_elf_file *out,
		      char *path)
{
	char hex[(size_t)2 * SP_BUILD_ID_MAX + 1];

	if (id_len < 2 || id_len > SP_BUILD_ID_MAX)
		return -ENOENT;
	sp_text_hex(hex, id, id_len);
	(void)snprintf(path, SP_DEBUG_PATH_MAX, "%s/.build-id/%.2s/%s.debug", root, hex, hex + 2);
	return sp_elf_file_open(path, id, id_len, out);
}

/* The checksum of .gnu_debuglink is zlib's, over the whole file. */
static bool crc_matches(int fd, uint32_t want)
{
	uint8_t *buf = malloc(SP_CRC_BUFFER);
	uLong crc = crc32(0, NULL, 0);
	uint64_t done = 0;
	ssize_t n = -1;

	while (buf != NULL && done <= SP_CRC_MAX &&
	       (n = pread(fd, buf, SP_CRC_BUFFER, (off_t)done)) > 0) {
		crc = crc32(crc, buf, (uInt)n);
		done += (uint64_t)n;
	}
	free(buf);
	return n == 0 && crc == want;
}

static int open_linked(const struct sp_debug_query *q, uint32_t crc, struct sp_elf_file *out,
		       const char *path)
{
	int err = sp_elf_file_open(path, q->id, q->id_len, out);

	/*
	 * A file without a build id may belong to an object with one, because old tools strip it.
	 */
	if (err == -ESTALE && q->id_len != 0)
		err = sp_elf_file_open(path, NULL, 0, out);
	if (err != 0)
		return err;
	if (crc_matches(out->fd, crc))
		return 0;
	sp_elf_file_close(out);
	return -ESTALE;
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int open_by_link(const struct sp_debug_query *q, struct sp_elf_file *out, char *path)
{
	char real[PATH_MAX];
	const char *object = realpath(q->object, real) != NULL ? real : q->object;
	int dir = (int)(strrchr(object, '/') != NULL ? strrchr(object, '/') - object : 0);
	const char *const where[][2] = {{"", ""}, {"", "/.debug"}, {q->root, ""}};
	const char *name;
	GElf_Word crc;
	int err;

	name = q->elf != NULL ? dwelf_elf_gnu_debuglink(q->elf, &crc) : NULL;
	/* A name with a "/" could lead anywhere. */
	if (name == NULL || name[0] == '\0' || strchr(name, '/') != NULL || object[0] != '/')
		return -ENOENT;
	for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		int n = snprintf(path, SP_DEBUG_PATH_MAX, "%s%.*s%s/%s", where[i][0], dir, object,
				 where[i][1], name);

		/* The link in a file that was never stripped may name that file. */
		if (n < 0 || n >= (int)SP_DEBUG_PATH_MAX || same_file(path, object))
			continue;
		err = open_linked(q, crc, out, path);
		if (err == 0 || sp_is_shortage(err))
			return err;
	}
	return -ENOENT;
}

int sp_elf_file_open_debug(const struct sp_debug_query *q, struct sp_elf_file *out,
			   char path[SP_DEBUG_PATH_MAX])
{
	int err = open_by_id(q->root, q->id, q->id_len, out, path);

	if (err != 0 && !sp_is_shortage(err))
		err = open_by_link(q, out, path);
	if (err == 0)
		return 0;
	path[0] = '\0';
	return sp_is_shortage(err) ? err : -ENOENT;
}

int sp_elf_file_open_shared(const char *root, const char *path, const char *name, const uint8_t *id,
			    size_t id_len, struct sp_elf_file *out)
{
	int dir = (int)(strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 - path : 0);
	char at[SP_DEBUG_PATH_MAX];
	int n;

	if (open_by_id(root, id, id_len, out, at) == 0)
		return 0;
	n = snprintf(at, sizeof(at), "%.*s%s", name[0] != '/' ? dir : 0, path, name);
	if (n <= 0 || n >= (int)sizeof(at))
		return -ENOENT;
	return sp_elf_file_open(at, id, id_len, out);
}
