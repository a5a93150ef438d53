/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands of spanprof-run are, and what they print: a line, whose words may be anybody's. */
#ifndef SP_RUN_H
#define SP_RUN_H

#include <stdio.h>
#include <sys/types.h>

#define SP_LINE_MAX 16384U

/* One line, made printable and cut at SP_LINE_MAX bytes. */
void sp_line(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The name that it was called by. */
extern const char *sp_tool;

/* A line on stderr that begins with that name. */
void sp_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Copies lines, each made printable, up to that many bytes. */
void sp_line_copy(FILE *in, FILE *out, size_t max);

enum sp_check {
	SP_CHECK_HOOKED = 0,  /* an SDK will be hooked, or spans be read */
	SP_CHECK_NO_SDK = 1,  /* it can be loaded, but there is no SDK to hook */
	SP_CHECK_BLOCKED = 2, /* it cannot be loaded, or not work */
	SP_CHECK_FAILED = 125 /* nothing can be said, but why that is so */
};

/* path as sp_target_find() left it. Prints to stdout. */
enum sp_check sp_check_program(const char *path);

/* The same for a running process: what is really mapped. */
int sp_check_process(pid_t pid);

/*
 * spanprof-preload: the object in /etc/ld.so.preload, for every program of a machine. The arguments behind the name
 * of the program; returns its exit status.
 */
int sp_preload(int argc, char **argv);

#endif
