/* SPDX-License-Identifier: Apache-2.0 */
/* The program that a command line starts, and what of it decides whether we can be loaded. */
#ifndef SP_TARGET_H
#define SP_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "scripts/run/elf_file.h"
#include "scripts/run/process.h"

enum sp_libc { SP_LIBC_NONE, SP_LIBC_GLIBC, SP_LIBC_MUSL, SP_LIBC_OTHER };

struct sp_target {
	char path[PATH_MAX];   /* the ELF file that the kernel will run */
	char script[PATH_MAX]; /* the script that names it, "" = none */
	char interp[SP_ELF_INTERP_MAX];
	int error;          /* 0, or why path cannot be read: negative errno, -ENOEXEC = not ELF */
	bool readable;      /* the rest of its headers is known as well */
	bool is_static;     /* no loader runs for it */
	bool is_library;    /* a shared object that is no program */
	bool no_interp;     /* the loader it asks for is not there */
	bool no_program;    /* a script whose interpreter is not there; path names it */
	bool is_go;         /* Go's linker made it */
	bool running;       /* a process was looked at */
	const char *secure; /* why the loader drops LD_PRELOAD; NULL = it does not */
	enum sp_libc libc;
	uint16_t machine;
	unsigned char word_size;
};

/* As execvp() finds it, absolute. 0 or a negative errno. */
int sp_target_find(const char *name, char path[PATH_MAX]);

/* Follows scripts to the program behind them. */
void sp_target_read(const char *path, struct sp_target *t);

/* The program of a running process. */
void sp_target_of_process(const struct sp_process *p, struct sp_target *t);

/* "x86-64", or "machine 42" in buf. */
const char *sp_target_machine(uint16_t machine, char buf[24]);
const char *sp_target_libc(enum sp_libc libc);

/* A line of what keeps us out of it, without a full stop; NULL = nothing. object may be NULL. */
const char *sp_target_obstacle(const struct sp_target *t, const struct sp_elf *object, char *buf,
			       size_t len);

#endif
