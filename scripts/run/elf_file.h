/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ELF files that may be damaged or hostile: pread() copies every part, and the part is
 * checked against the size of the file. Files with another word size or byte order are
 * recognised, but not read.
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
	bool readable; /* 64 bits, little-endian; if false, the members below are empty */
	bool dynamic;  /* has a dynamic section */
	Elf64_Phdr *phdr;
	unsigned phdrs;
	Elf64_Shdr *shdr;
	unsigned shdrs;
	char interp[SP_ELF_INTERP_MAX]; /* the loader that it names; "" = none */
};

/*
 * Opens a regular file for reading; a negative errno on failure. Opening a device can have an
 * effect, such as starting a watchdog, and another user may replace the file by a device at any
 * time. So the file is examined first, and the same file is opened by /proc, if there is a /proc.
 */
int sp_open_regular(const char *path);

/*
 * Returns 0; -ENOEXEC if the file is not ELF or damaged; or the reason why it cannot be read.
 * sp_elf_close() after 0.
 */
int sp_elf_open(const char *path, struct sp_elf *f);
/* sp_elf_open() for an open file; on failure it closes the file. */
int sp_elf_take(int fd, struct sp_elf *f);
void sp_elf_close(struct sp_elf *f);

/* Whether the limit for all files was reached, so that nothing more is read. */
bool sp_elf_is_cut(void);

/* Whether its dynamic section says that it is a program. */
bool sp_elf_pie(const struct sp_elf *f);

/* Whether the file has a section of that name. */
bool sp_elf_has_section(const struct sp_elf *f, const char *name);

/* Recognises the SDKs that the adapters of preload/ know in files, by the same names. */
enum sp_sdk_state {
	SP_SDK_HOOKED, /* how tells the method */
	SP_SDK_KNOWN,  /* it is there, but how tells why it is not hooked */
};

struct sp_sdk_found {
	const char *name;
	enum sp_sdk_state state;
	const char *how;
};

/* The role of an object in its program. */
struct sp_sdk_place {
	bool is_program; /* it is the program itself */
	bool own_getenv; /* the program defines getenv(), which then all objects use */
};

/* Stores at most max findings about one object. The program must come first: it sets own_getenv. */
size_t sp_sdk_look(const struct sp_elf *f, struct sp_sdk_place *place, struct sp_sdk_found *found,
		   size_t max);

/*
 * Whether the object defines the variable of OpenTelemetry's thread context, so that it may publish
 * its spans.
 */
bool sp_sdk_publishes(const struct sp_elf *f);

/* Whether the object has the names of variables that OpenTelemetry reads. */
bool sp_sdk_is_opentelemetry(const struct sp_elf *f);

/*
 * Whether the object has opentelemetry-cpp's tracers, which have the same message in all releases
 * from 1.0 to 1.29.
 */
bool sp_sdk_is_otelcpp(const struct sp_elf *f);

#endif
