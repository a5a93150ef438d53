/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files, mapped, and trusted only when they are the build that is asked for.
 *
 * Whoever may write to a mapped file may cut it off, and then access to what is gone raises SIGBUS.
 * So everything that reads such a file, also through libelf and libdw, runs inside of sp_elf_guard().
 */
#ifndef SP_ELF_FILE_H
#define SP_ELF_FILE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/objects/modules.h"

#define SP_DEBUG_ROOT "/usr/lib/debug"
#define SP_DEBUG_PATH_MAX 2048U
/* All of them together, and so any one; exporter/limits.c leaves room for it. */
#define SP_ELF_MAPPED_MAX ((uint64_t)6 << 30)

struct sp_elf_file {
	Elf *elf;       /* NULL = not open */
	int fd;         /* -1 = not needed any more */
	void *image;    /* malloc'ed, of a file that is no file */
	uint64_t bytes; /* mapped, or of the image */
};

/*
 * Calls fn. False if a file that fn was reading has changed: then fn was left in the middle, and the
 * objects of libelf and libdw that it worked on are not to be touched again, not even to be freed. Inside
 * of another guard it is that one which is left.
 */
bool sp_elf_guard(void (*fn)(void *arg), void *arg);

/*
 * Opens a regular file whose build id is the given one (id_len 0: that has none). 0, -ENOENT no such
 * file, -ESTALE another build id, -EINVAL no readable ELF, -EFBIG larger than all may be together,
 * or a shortage (export/util/shortage.h). Nothing stays open after a failure.
 */
int sp_elf_file_open(const char *path, const uint8_t *id, size_t id_len, struct sp_elf_file *out);

/* The same for a descriptor, which it owns from then on. */
int sp_elf_file_open_fd(int fd, const uint8_t *id, size_t id_len, struct sp_elf_file *out);

/* A whole file in malloc'ed memory, which it owns from then on. */
int sp_elf_file_open_image(void *image, size_t size, struct sp_elf_file *out);

/* The descriptor is not needed any more; false if the file is of no use without it. */
bool sp_elf_file_let_go(struct sp_elf_file *f);
void sp_elf_file_close(struct sp_elf_file *f);

/* What a search for separate debug information goes by. */
struct sp_debug_query {
	const char *root;   /* SP_DEBUG_ROOT, or a test's */
	const char *object; /* the file that was stripped, as an absolute path */
	const uint8_t *id;  /* its build id */
	size_t id_len;
	Elf *elf; /* the file itself, if it is known, with a link (.gnu_debuglink) */
};

/*
 * Opens ROOT/.build-id/ab/cdef.debug, and then what the link names: beside the object, in .debug/
 * beside it, and in ROOT followed by its folder, as debuggers do. By build id a file must have that
 * build id; by link it must have the link's checksum, and no other build id. 0 with the path, or
 * -ENOENT, or a shortage.
 */
int sp_elf_file_open_debug(const struct sp_debug_query *q, struct sp_elf_file *out,
			   char path[SP_DEBUG_PATH_MAX]);

/* What several files share, which dwz has moved into one: by build id, or by name beside the file at path. */
int sp_elf_file_open_shared(const char *root, const char *path, const char *name, const uint8_t *id,
			    size_t id_len, struct sp_elf_file *out);

/*
 * True if the file's executable segments are where the module's are; for a file without a build id
 * there is no better proof.
 */
bool sp_elf_file_laid_out_as(Elf *elf, const struct sp_module *mod);

/* The section of that name, or NULL. */
Elf_Scn *sp_elf_file_section(Elf *elf, const char *name);

/* Name of a section, "" when it has none. */
const char *sp_elf_file_section_name(Elf *elf, Elf_Scn *scn);

#endif
