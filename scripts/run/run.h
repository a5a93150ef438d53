/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of spanprof-run, and the lines that they print, which may contain texts of other
 * users.
 */
#ifndef SP_RUN_H
#define SP_RUN_H

#include <stdio.h>
#include <sys/types.h>

#define SP_LINE_MAX 16384U

/* Prints one line, made printable and cut at SP_LINE_MAX bytes. */
void sp_line(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The name under which the program was called. */
extern const char *sp_tool;

/* Prints a line on stderr that begins with that name. */
void sp_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Copies lines, each made printable, at most max bytes. */
void sp_line_copy(FILE *in, FILE *out, size_t max);

enum sp_check {
	SP_CHECK_HOOKED = 0,  /* an SDK will be hooked, or published spans will be read */
	SP_CHECK_NO_SDK = 1,  /* it can be loaded, but has no SDK to hook */
	SP_CHECK_BLOCKED = 2, /* it cannot be loaded, or cannot work */
	SP_CHECK_FAILED = 125 /* the program cannot be examined; a line says why */
};

/* path: from sp_target_find(). Prints to stdout. */
enum sp_check sp_check_program(const char *path);

/* The same for a running process, by its mappings. */
int sp_check_process(pid_t pid);

/*
 * Runs a command by run(), which executes the command or returns an exit status, and passes on to
 * the command signals that only our parent has got. Returns 0 after the command has ended, with two
 * files in the folder: "ended" (a sentence) and "err" (the profiler's lines of the command's
 * standard error; all other lines are copied to our standard error). Otherwise a negative errno.
 */
int sp_watch(const char *folder, char **command, int (*run)(char **command));

/*
 * spanprof-preload: puts the object into /etc/ld.so.preload, for every program of a machine. argv:
 * the arguments after the name of the program. Returns the exit status.
 */
int sp_preload(int argc, char **argv);

#endif
