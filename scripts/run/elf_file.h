/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ELF files that nobody vouches for: everything is read with pread() into memory of ours and
 * checked against the size of the file. Other word sizes and byte orders are recognised, not read.
 */
#ifndef SP_ELF_FILE_H
#define SP_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_ELF_INTERP_MAX 512U

struct sp_elf {
	int fd;
	uint64_t size;
	unsigned char word_size; /* ELFCLASS32 or ELFCLASS64 */
	uint16_t type;
	uint16_t machine;
	bool readable; /* 64 bits, little-endian: all that follows is filled in */
	bool dynamic;  /* has a dynamic section */
	Elf64_Phdr *phdr;
	unsigned phdrs;
	Elf64_Shdr *shdr;
	unsigned shdrs;
	char interp[SP_ELF_INTERP_MAX]; /* the loader it asks for, "" = none */
};

/*
 * A descriptor to read of a regular file, or a negative errno. To open a device can do something, such as start a
 * watchdog, and whoever chose the path can put one there at any time: what was looked at is what is opened, where there
 * is a /proc.
 */
int sp_open_regular(const char *path);

/* 0, -ENOEXEC when it is not ELF or damaged, or why it cannot be read. sp_elf_close() after 0. */
int sp_elf_open(const char *path, struct sp_elf *f);
/* The same for an open file, which it takes over also when it fails. */
int sp_elf_take(int fd, struct sp_elf *f);
void sp_elf_close(struct sp_elf *f);

/* So much was read of all files that nothing more is. */
bool sp_elf_is_cut(void);

/* The dynamic section marks it as a program. */
bool sp_elf_pie(const struct sp_elf *f);

/* The file has a section of that name. */
bool sp_elf_has_section(const struct sp_elf *f, const char *name);

/* The SDKs that the adapters of preload/ know, recognised in files by the same fingerprints. */
enum sp_sdk_state {
	SP_SDK_HOOKED, /* how says by which method */
	SP_SDK_KNOWN,  /* it is there, and how says what stands in the way */
};

struct sp_sdk_found {
	const char *name;
	enum sp_sdk_state state;
	const char *how;
};

/* What an object is in the tree. */
struct sp_sdk_place {
	bool is_program; /* the first of the tree */
	bool own_getenv; /* the program has a function of this name, which all objects use then */
};

/* At most max findings about one object. Of the program it fills in own_getenv, so it comes first. */
size_t sp_sdk_look(const struct sp_elf *f, struct sp_sdk_place *place, struct sp_sdk_found *found,
		   size_t max);

/* The object defines the variable of OpenTelemetry's thread context, so it may publish its spans. */
bool sp_sdk_publishes(const struct sp_elf *f);

/* The object knows the names of variables that OpenTelemetry reads. */
bool sp_sdk_is_opentelemetry(const struct sp_elf *f);

#endif
