/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells generated code from files mapped behind the loader's back. Read at most once per upload,
 * and only when a sample has an address outside every loaded object. Context: BG. Caller:
 * symbolize.c.
 */
#define _GNU_SOURCE
#include "export/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SP_MAPS_MAX 16384U
#define SP_MAPS_BUFFER 16384U

/* A number in hex and the character that must follow it. */
static bool take_hex(const char **s, char end, uint64_t *v)
{
	char *after;

	*v = strtoull(*s, &after, 16);
	if (after == *s || *after != end)
		return false;
	*s = after + 1;
	return true;
}

/* Skips one word and the spaces behind it. */
static const char *next_word(const char *s)
{
	s += strcspn(s, " ");
	return s + strspn(s, " ");
}

/* "start-end perms offset device inode   path" */
static bool parse_line(const char *s, struct sp_map *map)
{
	const char *perms;

	if (!take_hex(&s, '-', &map->start) || !take_hex(&s, ' ', &map->end))
		return false;
	perms = s;
	s = next_word(s);
	if (strlen(perms) < 4 || perms[2] != 'x' || !take_hex(&s, ' ', &map->offset))
		return false;
	s = next_word(next_word(s));
	if (s[0] == '/')
		s = strrchr(s, '/') + 1;
	(void)snprintf(map->name, sizeof(map->name), "%s", s);
	return true;
}

static int add_line(struct sp_maps *m, const char *line)
{
	struct sp_map parsed;

	if (!parse_line(line, &parsed))
		return 0;
	if (m->n >= SP_MAPS_MAX)
		return -E2BIG;
	if (m->n == m->cap) {
		size_t cap = m->cap != 0 ? m->cap * 2 : 64;
		struct sp_map *more = realloc(m->map, cap * sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		m->map = more;
		m->cap = cap;
	}
	m->map[m->n++] = parsed;
	return 0;
}

/* Hands over each complete line of the buffer and keeps the rest. Returns what is kept. */
static size_t add_lines(struct sp_maps *m, char *buf, size_t len, int *err)
{
	char *line = buf;
	char *end;

	while (*err == 0 && (end = memchr(line, '\n', len - (size_t)(line - buf))) != NULL) {
		*end = '\0';
		*err = add_line(m, line);
		line = end + 1;
	}
	len -= (size_t)(line - buf);
	memmove(buf, line, len);
	return len;
}

int sp_maps_read(struct sp_maps *m, const char *path)
{
	char *buf = malloc(SP_MAPS_BUFFER);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t got = 1;
	int err = 0;

	m->n = 0;
	if (buf == NULL || fd < 0)
		err = buf == NULL ? -ENOMEM : -errno;
	while (err == 0 && got > 0 && have < SP_MAPS_BUFFER) {
		got = read(fd, buf + have, SP_MAPS_BUFFER - have);
		if (got > 0)
			have = add_lines(m, buf, have + (size_t)got, &err);
	}
	if (fd >= 0)
		close(fd);
	free(buf);
	return err;
}

void sp_maps_fini(struct sp_maps *m)
{
	free(m->map);
	memset(m, 0, sizeof(*m));
}

const struct sp_map *sp_maps_find(const struct sp_maps *m, uint64_t addr)
{
	for (size_t i = 0; i < m->n; i++)
		if (addr >= m->map[i].start && addr < m->map[i].end)
			return &m->map[i];
	return NULL;
}
