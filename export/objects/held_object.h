/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the content of an object whose path leads to another file, or may do so soon. The content is a descriptor of
 * the object's file, an ELF file that was made from the process's memory (object_image.h), or both if somebody may
 * write to the file. The list of the process's objects holds it, and so does each copy of that list, in both threads
 * of the exporter. Descriptors and bytes are bounded. Context: the exporter.
 */
#ifndef SP_HELD_OBJECT_H
#define SP_HELD_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define SP_HELD_FILES_MAX 64U
#define SP_HELD_BYTES_MAX ((size_t)48 << 20)

struct sp_held_object {
	_Atomic unsigned holders;
	int fd;         /* -1 = only an image */
	struct stat st; /* of fd, when it was taken */
	uint8_t *image; /* or NULL */
	size_t bytes;   /* of the image */
};

/* Holds a duplicate of fd. NULL: too many are held, or memory or descriptors are short. */
struct sp_held_object *sp_held_object_file(int fd);

/*
 * Takes over an image from malloc(). Adds it to held, which must have one holder only, or to a new object if held is
 * NULL. Returns that object. If too many bytes are held, or memory is short, the image is freed and `held` is
 * returned unchanged.
 */
struct sp_held_object *sp_held_object_image(struct sp_held_object *held, uint8_t *image,
					    size_t bytes);

/*
 * sp_held_object_take() adds a holder and returns `held`; sp_held_object_drop() removes one. NULL
 * stays NULL.
 */
struct sp_held_object *sp_held_object_take(struct sp_held_object *held);
void sp_held_object_drop(struct sp_held_object *held);

/*
 * Whether a file is held to which nobody has written since it was taken. A removed link changes
 * st_ctim as a write does; then st_mtim decides.
 */
bool sp_held_object_is_unchanged(const struct sp_held_object *held);

#endif
