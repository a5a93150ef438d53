/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /etc/ld.so.cache. Layout: glibc's sysdeps/generic/dl-cache.h, checked with 2.31 and 2.36;
 * until 2.31 ldconfig put a table of an older format in front. Runs in spanprof-run only. Caller:
 * tree.c.
 */
#include "scripts/run/ld_cache.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE_MAX ((off_t)64 << 20)
#define OLD_MAGIC "ld.so-1.7.0"
#define OLD_HEAD 16U
#define OLD_ENTRY 12U
#define NEW_MAGIC "glibc-ld.so.cache1.1"

struct new_head {
	char magic[20];
	uint32_t n;
	uint32_t strings_len;
	uint32_t unused[5];
};

struct new_entry {
	int32_t flags;
	uint32_t key; /* offsets from the head */
	uint32_t value;
	uint32_t osversion;
	uint64_t hwcap;
};

/* The new table, wherever it begins. NULL when there is none. */
static const struct new_head *head_of(const struct sp_ld_cache *c, size_t *room)
{
	size_t at = 0;
	uint32_t n;

	if (c->size >= OLD_HEAD && memcmp(c->data, OLD_MAGIC, sizeof(OLD_MAGIC) - 1) == 0) {
		memcpy(&n, c->data + OLD_HEAD - sizeof(n), sizeof(n));
		at = (OLD_HEAD + (size_t)n * OLD_ENTRY + 7) & ~(size_t)7;
	}
	if (at > c->size || c->size - at < sizeof(struct new_head) ||
	    memcmp(c->data + at, NEW_MAGIC, sizeof(NEW_MAGIC) - 1) != 0)
		return NULL;
	*room = c->size - at;
	return (const void *)(c->data + at);
}

void sp_ld_cache_open(struct sp_ld_cache *c, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	memset(c, 0, sizeof(*c));
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
	    st.st_size < CACHE_MAX) {
		/* One byte more, so that the last string ends in any case. */
		c->data = calloc(1, (size_t)st.st_size + 1);
		c->size = (size_t)st.st_size;
	}
	if (c->data != NULL && read(fd, c->data, c->size) != (ssize_t)c->size)
		sp_ld_cache_close(c);
	(void)close(fd);
}

void sp_ld_cache_close(struct sp_ld_cache *c)
{
	free(c->data);
	c->data = NULL;
}

const char *sp_ld_cache_find(const struct sp_ld_cache *c, const char *name, unsigned n)
{
	size_t room = 0;
	const struct new_head *h = c->data != NULL ? head_of(c, &room) : NULL;
	const struct new_entry *e = h != NULL ? (const void *)(h + 1) : NULL;
	const char *base = (const char *)h;

	if (e == NULL || h->n > (room - sizeof(*h)) / sizeof(*e))
		return NULL;
	for (uint32_t i = 0; i < h->n; i++) {
		if (e[i].key >= room || e[i].value >= room || strcmp(base + e[i].key, name) != 0)
			continue;
		if (n-- == 0)
			return base + e[i].value;
	}
	return NULL;
}
