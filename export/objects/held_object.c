/* SPDX-License-Identifier: Apache-2.0 */
/* Holds contents of objects (held_object.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/objects/held_object.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic unsigned files;
static _Atomic size_t bytes_held;

static struct sp_held_object *new_held(int fd)
{
	struct sp_held_object *held = calloc(1, sizeof(*held));

	if (held != NULL)
		*held = (struct sp_held_object){.holders = 1, .fd = fd};
	return held;
}

struct sp_held_object *sp_held_object_file(int fd)
{
	struct sp_held_object *held = NULL;
	int own = -1;

	if (atomic_fetch_add(&files, 1) < SP_HELD_FILES_MAX)
		own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own >= 0)
		held = new_held(own);
	if (held != NULL && fstat(own, &held->st) == 0)
		return held;
	free(held);
	if (own >= 0)
		close(own);
	(void)atomic_fetch_sub(&files, 1);
	return NULL;
}

struct sp_held_object *sp_held_object_image(struct sp_held_object *held, uint8_t *image,
					    size_t bytes)
{
	bool has_room = atomic_fetch_add(&bytes_held, bytes) + bytes <= SP_HELD_BYTES_MAX;

	if (has_room && held == NULL)
		held = new_held(-1);
	if (!has_room || held == NULL) {
		(void)atomic_fetch_sub(&bytes_held, bytes);
		free(image);
		return held;
	}
	held->image = image;
	held->bytes = bytes;
	return held;
}

struct sp_held_object *sp_held_object_take(struct sp_held_object *held)
{
	if (held != NULL)
		(void)atomic_fetch_add(&held->holders, 1);
	return held;
}

void sp_held_object_drop(struct sp_held_object *held)
{
	if (held == NULL || atomic_fetch_sub(&held->holders, 1) != 1)
		return;
	if (held->fd >= 0) {
		close(held->fd);
		(void)atomic_fetch_sub(&files, 1);
	}
	(void)atomic_fetch_sub(&bytes_held, held->bytes);
	free(held->image);
	free(held);
}

bool sp_held_object_is_unchanged(const struct sp_held_object *held)
{
	const struct stat *then = &held->st;
	struct stat now;

	return held->fd >= 0 && fstat(held->fd, &now) == 0 && now.st_size == then->st_size &&
	       now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
	       now.st_mtim.tv_nsec == then->st_mtim.tv_nsec &&
	       (now.st_nlink != then->st_nlink || (now.st_ctim.tv_sec == then->st_ctim.tv_sec &&
						   now.st_ctim.tv_nsec == then->st_ctim.tv_nsec));
}
