/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of a command or of a running process, and the facts that decide whether our object
 * can be loaded into it; and the path of our object.
 */
#ifndef SP_TARGET_H
#define SP_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "scripts/run/elf_file.h"

/* A running process, as /proc shows it to the caller. No file that the process names is opened. */
struct sp_process {
	int proc; /* its folder in /proc; stays its folder even if the number is reused */
	int maps;
	int exe;
	uid_t uid;          /* effective */
	bool secure;        /* has more rights than its caller: our object does nothing in it */
	char **environment; /* its initial environment, NULL-terminated */
	char *strings;      /* the bytes of environment */
	char path[PATH_MAX];
};

/*
 * False with the reason in why: no such process, or another user has to examine it, or from
 * elsewhere.
 */
bool sp_process_open(pid_t pid, struct sp_process *p, char why[256]);
void sp_process_close(struct sp_process *p);

enum sp_libc { SP_LIBC_NONE, SP_LIBC_GLIBC, SP_LIBC_MUSL, SP_LIBC_OTHER };

struct sp_target {
	char path[PATH_MAX];   /* the ELF file that the kernel runs */
	char script[PATH_MAX]; /* the script that names path; "" = none */
	char interp[SP_ELF_INTERP_MAX];
	int error;          /* 0, or why path cannot be read: negative errno, -ENOEXEC = not ELF */
	bool readable;      /* the members below are known */
	bool is_static;     /* it runs without a loader */
	bool is_library;    /* a shared object that is no program */
	bool no_interp;     /* its loader does not exist */
	bool no_program;    /* a script whose interpreter, path, does not exist */
	bool is_go;         /* Go's linker made it */
	bool running;       /* a running process was examined */
	const char *secure; /* why the loader drops LD_PRELOAD; NULL = it does not */
	enum sp_libc libc;
	uint16_t machine;
	unsigned char word_size;
};

/* Finds the program as execvp() does; the path is absolute. Returns 0 or a negative errno. */
int sp_target_find(const char *name, char path[PATH_MAX]);

/* Examines the program; for a script, the program that runs it. */
void sp_target_read(const char *path, struct sp_target *t);

/* Examines the program of a running process. */
void sp_target_of_process(const struct sp_process *p, struct sp_target *t);

/* "x86-64", or "machine 42" in buf. */
const char *sp_target_machine(uint16_t machine, char buf[24]);
const char *sp_target_libc(enum sp_libc libc);

/*
 * A line that says why our object cannot work in the program, without a full stop; NULL = it can.
 * object may be NULL.
 */
const char *sp_target_obstacle(const struct sp_target *t, const struct sp_elf *object, char *buf,
			       size_t len);

/* The object to preload: its path, and the LD_PRELOAD that names it. */
#define SP_OBJECT_NAME "libspanprof.so"
/* In the same folder: the hooks of the allocator, for profiles of allocations. */
#define SP_OBJECT_ALLOC_NAME "libspanprof-alloc.so"
/* In the same folder: the program that sends the profiles. */
#define SP_EXPORTER_NAME "spanprof-exporter"

/*
 * Searches beside this program and in its ../lib/spanprof. False: path has the first place that was
 * tried, and why the fault there.
 */
bool sp_object_find(char path[PATH_MAX], const char **why);

/* The number of these places, and the index of the one to which the object is installed. */
#define SP_OBJECT_PLACES 3U
#define SP_OBJECT_INSTALLED 1U

/*
 * The object's path at one of these places without links, and whether it is there. False = unknown.
 */
bool sp_object_name(unsigned place, char path[PATH_MAX], bool *there);

/*
 * The list with path in front (but after AddressSanitizer's runtime), or a copy of the list if it
 * has an object of that name already. NULL = out of memory. The caller frees it.
 */
char *sp_object_chain(const char *path, const char *list);

#endif
