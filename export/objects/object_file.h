/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file behind a mapping of a host: the path that opens it, and what its ELF headers say. Both are untrusted.
 * Files are read and never mapped, because access to a mapped file that somebody truncates raises SIGBUS. Descriptors
 * are closed before a call returns, except as held_object.h says. Context: the exporter.
 */
#ifndef SP_OBJECT_FILE_H
#define SP_OBJECT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "export/objects/frame_table.h"
#include "export/objects/held_object.h"
#include "export/objects/maps.h"
#include "export/objects/object_image.h"

#define SP_OBJECT_PATH_MAX 4352U /* "/proc/PID/root" and a path of the greatest length */
#define SP_BUILD_ID_MAX 32U

struct sp_object_file {
	uint64_t device; /* of the mapping */
	uint64_t inode;
	char *mapped; /* path of the mapping, as the kernel shows it; owned */
	char *path;   /* to open; NULL = none of the paths leads to the file; owned */
	/* of path, when it was opened; of an image, values that distinguish it from others */
	struct stat st;
	struct sp_held_object *held; /* the content, if the path may not lead to it; or NULL */
	bool known;                  /* it is an ELF file, and the fields below are valid */
	bool vdso;
	/* no path leads to the file: the fields below come from the process's memory */
	bool in_memory;
	/* of a file in a folder for temporary files; "" = none */
	char soname[SP_OBJECT_SONAME_MAX];
	uint64_t phdr;         /* ELF address of the program headers; 0 = they are not mapped */
	uint64_t eh_frame_hdr; /* ELF address; 0 = none */
	uint64_t dynamic;      /* ELF address of the dynamic section, and its bytes; 0 = none */
	uint64_t dynamic_bytes;
	uint64_t lo; /* ELF addresses of all its loads: [lo, hi) */
	uint64_t hi;
	unsigned loads;
	struct sp_object_load load[SP_OBJECT_LOADS];
	uint8_t build_id[SP_BUILD_ID_MAX];
	uint8_t build_id_len; /* 0 = none */
	/* sp_module_content(), if there is no build id; otherwise 0 */
	uint64_t content;
	struct sp_object_frames *frames; /* for sp_object_file_frames(); owned */
};

/* Reads memory of the host itself. False unless all bytes could be read. */
struct sp_host_memory {
	bool (*read)(void *arg, uint64_t at, void *out, size_t bytes); /* NULL = none may be read */
	void *arg;
};

/* The load with the lowest address. */
const struct sp_object_load *sp_object_first_load(const struct sp_object_file *f);

/* The process in which a file is searched, besides the path of the mapping. */
struct sp_object_host {
	const char *proc; /* "/proc/PID" */
	const char *exe;  /* the target of its exe link, "" = not readable */
	struct sp_host_memory memory;
};

/* Bytes of the file from offset on, and zeros behind its end. False if the file is gone. */
bool sp_object_file_read(const struct sp_object_file *f, uint64_t offset, void *out, size_t bytes);

/*
 * The call frame information to which no table in the object's memory leads; read from the file at the first call.
 * NULL: there is none.
 */
const struct sp_frame_table *sp_object_file_frames(const struct sp_object_file *f);

/*
 * Searches len bytes of notes for NT_GNU_BUILD_ID and copies at most cap bytes of it to id. Returns its length, or 0
 * if there is none or the notes before it are damaged.
 */
size_t sp_elf_build_id(const void *notes, size_t len, uint8_t *id, size_t cap);

/*
 * The object that the kernel maps into every process (vDSO). It has no file, but all 64-bit processes get the same
 * one, so ours equals the host's: a whole ELF file, mapped as long as we live; its size goes to *size. NULL if there
 * is none.
 */
const uint8_t *sp_vdso_image(size_t *size);

#define SP_OBJECT_FILES_MAX 4096U

/* Zero it at first use. */
struct sp_object_files {
	struct sp_object_files_entry *entry;
	size_t n;
	size_t cap;
	size_t hint; /* modulo n: the entry of the last search */
};

void sp_object_files_fini(struct sp_object_files *all);

/*
 * The file of a mapping, whose path is `mapped`. It is valid until sp_object_files_drop_unused(), which frees the
 * files that nobody has searched for since its last call. 0; -E2BIG if there are too many; -ENOMEM.
 */
int sp_object_files_get(struct sp_object_files *all, const struct sp_object_host *host,
			const struct sp_map *map, const char *mapped,
			const struct sp_object_file **out);

/*
 * Says that the object of the file is mapped with that bias. Its names are read from memory, once,
 * if the file exists only in memory, or if no build id says whether the file is still the same.
 */
void sp_object_files_hold(struct sp_object_files *all, const struct sp_object_file *file,
			  const struct sp_object_host *host, uint64_t bias);

/* All mappings have been looked up: drops the files that were not among them. */
void sp_object_files_drop_unused(struct sp_object_files *all);

/* Not all mappings could be looked up, so no file is dropped. */
void sp_object_files_give_up(struct sp_object_files *all);

/* True if path is the kernel's name for the file after it was deleted. */
bool sp_object_files_deleted(const struct sp_object_file *f, const char *path);

#endif
