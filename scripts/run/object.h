/* SPDX-License-Identifier: Apache-2.0 */
/* The object to preload: where it lies, and LD_PRELOAD with it. */
#ifndef SP_OBJECT_H
#define SP_OBJECT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define SP_OBJECT_NAME "libspanprof.so"
/* The program that sends the profiles: beside the object, or where the variable says. */
#define SP_EXPORTER_NAME "spanprof-exporter"
#define SP_EXPORTER_VARIABLE "SPANPROF_EXPORTER"

/*
 * Beside this program or in ../lib/spanprof of it. False: path holds the first place that was
 * looked at, and why what was wrong there.
 */
bool sp_object_find(char path[PATH_MAX], const char **why);

/*
 * The list with path in front (but behind AddressSanitizer's runtime), or a copy of the list when a
 * libspanprof.so is in it already. NULL when out of memory. free().
 */
char *sp_object_chain(const char *path, const char *list);

#endif
