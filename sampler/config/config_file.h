/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of a machine: a file of root with lines NAME=VALUE. A program reads this file if our
 * object was loaded without LD_PRELOAD, for example by /etc/ld.so.preload. The program's
 * environment may come from a user with fewer rights. When such a user starts a set-user-id
 * program, the loader removes LD_PRELOAD, but not SPANPROF_OUTPUT_DIR, and the program hands the
 * environment on to helpers that it executes as root.
 */
#ifndef SP_CONFIG_FILE_H
#define SP_CONFIG_FILE_H

#include <stddef.h>

#define SP_CONFIG_FILE "/etc/spanprof.conf"
#define SP_CONFIG_FILE_MAX 16384U

/*
 * Reads the file into text, which has SP_CONFIG_FILE_MAX + 1 bytes, and returns the file's length.
 * 0 with *why = NULL: there is no such file. 0 with a reason, to be printed after the file's name:
 * another user may have written the file, or it cannot be read.
 */
size_t sp_config_file_read(const char *path, char *text, const char **why);

/* The next line that is not a comment, with a NUL at its end; NULL = end. Moves *at. */
char *sp_config_file_line(char **at, const char *end);

#endif
