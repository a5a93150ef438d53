/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF files, mapped, and used only if they are the requested build.
 *
 * Anybody who may write to a mapped file may cut it off, and then access to the missing part raises SIGBUS. So all
 * code that reads such a file, also through libelf and libdw, runs inside of sp_elf_guard().
 */
#ifndef SP_ELF_FILE_H
#define SP_ELF_FILE_H

#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/objects/modules.h"

#define SP_DEBUG_ROOT "/usr/lib/debug"
#define SP_DEBUG_PATH_MAX 2048U
/* Bytes of all mapped files together, and so of any one; exporter/limits.c leaves room for them. */
#define SP_ELF_MAPPED_MAX ((uint64_t)6 << 30)

struct sp_elf_file {
	Elf *elf;       /* NULL = not open */
	int fd;         /* -1 = not needed any more */
	void *image;    /* malloc'ed content of a file that exists only in memory */
	uint64_t bytes; /* mapped, or the size of the image */
};

/*
 * Calls fn. False if a file that fn was reading has changed. Then fn ended in the middle, and its objects of libelf
 * and libdw must not be used again, not even to free them. If guards are nested, the outer one returns false.
 */
bool sp_elf_guard(void (*fn)(void *arg), void *arg);

/*
 * From now on, opens only files that nobody has changed since ns (CLOCK_REALTIME), the moment when
 * a process confined itself (sp_core_ops.confined_ns). 0 = opens all files. Applies to the calling
 * thread, the worker.
 */
void sp_elf_files_only_before(int64_t ns);

/*
 * Opens a regular file whose build id is the given one (id_len 0: the file has none). 0; -ENOENT:
 * no such file; -ESTALE: another build id, or changed since sp_elf_files_only_before(); -EINVAL: no
 * readable ELF; -EFBIG: too large for the bound of all files; or a shortage
 * (export/util/shortage.h). Nothing stays open after a failure.
 */
int sp_elf_file_open(const char *path, const uint8_t *id, size_t id_len, struct sp_elf_file *out);

/* As sp_elf_file_open(), for a descriptor. out owns the descriptor from then on. */
int sp_elf_file_open_fd(int fd, const uint8_t *id, size_t id_len, struct sp_elf_file *out);

/* As sp_elf_file_open(), for a whole file in malloc'ed memory. out owns the memory from then on. */
int sp_elf_file_open_image(void *image, size_t size, struct sp_elf_file *out);

/* Closes the descriptor, which is not needed any more; false if the file is of no use without it. */
bool sp_elf_file_let_go(struct sp_elf_file *f);
void sp_elf_file_close(struct sp_elf_file *f);

/* The keys of a search for separate debug information. */
struct sp_debug_query {
	const char *root;   /* SP_DEBUG_ROOT, or a test's */
	const char *object; /* absolute path of the stripped file */
	const uint8_t *id;  /* its build id */
	size_t id_len;
	Elf *elf; /* the file itself, if it is open, with a link (.gnu_debuglink) */
};

/*
 * Opens ROOT/.build-id/ab/cdef.debug. If that is missing, follows the link as debuggers do: beside the object, in
 * .debug/ beside it, and in ROOT followed by the object's folder. A file that is found by build id must have that
 * build id; a file that is found by link must have the link's checksum, and no other build id. 0 with the path, or
 * -ENOENT, or a shortage.
 */
int sp_elf_file_open_debug(const struct sp_debug_query *q, struct sp_elf_file *out,
			   char path[SP_DEBUG_PATH_MAX]);

/*
 * Opens the file to which dwz has moved what several files share: by build id, or by its name beside the file at
 * path.
 */
int sp_elf_file_open_shared(const char *root, const char *path, const char *name, const uint8_t *id,
			    size_t id_len, struct sp_elf_file *out);

/*
 * True if the file's executable segments are where the module's are, and its first page is the module's. A file
 * without a build id has no better proof.
 */
bool sp_elf_file_laid_out_as(Elf *elf, const struct sp_module *mod);

/* The section of that name, or NULL. */
Elf_Scn *sp_elf_file_section(Elf *elf, const char *name);

/* The strings with the names of a symbol table, which end with a NUL; or NULL. */
const Elf_Data *sp_elf_file_strings(Elf *elf, const GElf_Shdr *symbols);

/* Name of a section, "" when it has none. */
const char *sp_elf_file_section_name(Elf *elf, Elf_Scn *scn);

#endif
