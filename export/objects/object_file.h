/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file behind a mapping of a host: where it can be opened, and what its ELF headers say. Both
 * are untrusted. Files are read and never mapped, because access to a mapped file that somebody
 * truncates raises SIGBUS. No descriptor outlives a call. Context: the exporter.
 */
#ifndef SP_OBJECT_FILE_H
#define SP_OBJECT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "export/objects/maps.h"

#define SP_OBJECT_LOADS 16U
#define SP_OBJECT_PATH_MAX 4352U /* "/proc/PID/root" and a path as long as paths may be */
#define SP_BUILD_ID_MAX 32U

/* A PT_LOAD, as in the file. */
struct sp_object_load {
	uint64_t vaddr;
	uint64_t memsz;
	uint64_t filesz;
	uint64_t offset;
	uint32_t flags; /* PF_R, PF_W, PF_X */
};

struct sp_object_file {
	uint64_t device; /* as the mapping has them */
	uint64_t inode;
	char *mapped;   /* path of the mapping, as the kernel has it; owned */
	char *path;     /* to open; NULL = none of the file's paths leads to it; owned */
	struct stat st; /* of path, when it was opened */
	bool known;     /* it is an ELF file, and what follows is true */
	bool vdso;
	uint64_t phdr;         /* ELF address of the program headers; 0 = they are not mapped */
	uint64_t eh_frame_hdr; /* ELF address; 0 = none */
	uint64_t lo;           /* ELF addresses of all its loads: [lo, hi) */
	uint64_t hi;
	unsigned loads;
	struct sp_object_load load[SP_OBJECT_LOADS];
	uint8_t build_id[SP_BUILD_ID_MAX];
	uint8_t build_id_len; /* 0 = none */
};

/* What is tried besides the path of the mapping. */
struct sp_object_host {
	const char *proc; /* "/proc/PID" */
	const char *exe;  /* what its exe points to, "" = not readable */
};

/* Bytes of the file from offset on, and zeros behind its end. False if it is not there any more. */
bool sp_object_file_read(const struct sp_object_file *f, uint64_t offset, void *out, size_t bytes);

/*
 * Searches len bytes of notes for NT_GNU_BUILD_ID and copies at most cap bytes of it to id.
 * Returns its length, 0 when there is none or the notes are damaged before it.
 */
size_t sp_elf_build_id(const void *notes, size_t len, uint8_t *id, size_t cap);

/*
 * The object that the kernel maps into every process (vDSO). It has no file, but all 64-bit processes get the
 * same one, so a host's is the same as ours: a whole ELF file, mapped as long as we live; its size goes to
 * *size. NULL when there is none.
 */
const uint8_t *sp_vdso_image(size_t *size);

#define SP_OBJECT_FILES_MAX 4096U

/* Zero it at first use. */
struct sp_object_files {
	struct sp_object_files_entry *entry;
	size_t n;
	size_t cap;
	size_t hint; /* modulo n: the one that was asked for last */
};

void sp_object_files_fini(struct sp_object_files *all);

/*
 * The file of a mapping, whose path is `mapped`. It lives until a sp_object_files_drop_unused()
 * before which it was not looked up. 0, -E2BIG if there are too many, -ENOMEM.
 */
int sp_object_files_get(struct sp_object_files *all, const struct sp_object_host *host,
			const struct sp_map *map, const char *mapped,
			const struct sp_object_file **out);

/* All mappings were looked up: files that were not are dropped. */
void sp_object_files_drop_unused(struct sp_object_files *all);

/* Not all could be looked up, so nothing is dropped. */
void sp_object_files_give_up(struct sp_object_files *all);

/* True if path is what the kernel calls the file after it was deleted. */
bool sp_object_files_deleted(const struct sp_object_file *f, const char *path);

#endif
