/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program behind a command or in a running process, and what of it decides whether we can be loaded; and where our
 * object is.
 */
#ifndef SP_TARGET_H
#define SP_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "scripts/run/elf_file.h"

/* A running process, as /proc shows it to whoever asks. Nothing that the process names is opened. */
struct sp_process {
	int proc; /* its folder in /proc: stays that of this process when the number is used again */
	int maps;
	int exe;
	uid_t uid;          /* effective */
	bool secure;        /* started with more rights than its caller has: we are inert in it */
	char **environment; /* what it was started with, NULL-terminated */
	char *strings;      /* of which it is made */
	char path[PATH_MAX];
};

/* False with the reason in why: there is none, or it has to be looked at by somebody else or from elsewhere. */
bool sp_process_open(pid_t pid, struct sp_process *p, char why[256]);
void sp_process_close(struct sp_process *p);

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

/* The object to preload: where it lies, and LD_PRELOAD with it. */
#define SP_OBJECT_NAME "libspanprof.so"
/* Beside it: what stands for the allocator, where a profile of allocations is wanted. */
#define SP_OBJECT_ALLOC_NAME "libspanprof-alloc.so"
/* The program that sends the profiles: beside the object, or where the variable says. */
#define SP_EXPORTER_NAME "spanprof-exporter"
#define SP_EXPORTER_VARIABLE "SPANPROF_EXPORTER"

/*
 * Beside this program or in ../lib/spanprof of it. False: path holds the first place that was
 * looked at, and why what was wrong there.
 */
bool sp_object_find(char path[PATH_MAX], const char **why);

/* The places where that looks, and the one to which it is installed. */
#define SP_OBJECT_PLACES 3U
#define SP_OBJECT_INSTALLED 1U

/*
 * The path without links that the object has at one of these places, or would have, and whether it is there.
 * False: cannot tell.
 */
bool sp_object_name(unsigned place, char path[PATH_MAX], bool *there);

/*
 * The list with path in front (but behind AddressSanitizer's runtime), or a copy of the list when an object of
 * that name is in it already. NULL when out of memory. free().
 */
char *sp_object_chain(const char *path, const char *list);

#endif
