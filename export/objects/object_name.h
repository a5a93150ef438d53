/* SPDX-License-Identifier: Apache-2.0 */
/* The names of objects in a profile. Context: the exporter. */
#ifndef SP_OBJECT_NAME_H
#define SP_OBJECT_NAME_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The name of an object, by its path and DT_SONAME ("" = unknown). Programs unpack libraries into folders for
 * temporary files, under names with a random part; such a file gets its SONAME as its name, or "*" for that part.
 */
void sp_object_name(const char *path, const char *soname, char *name, size_t cap);

/* Whether the file is in a folder for temporary files, or in none (memfd_create()). */
bool sp_object_is_temporary(const char *path);

#endif
