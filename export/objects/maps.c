/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/PID/maps. A database may map thousands of data files, and a program with a garbage
 * collector as many pieces of anonymous memory. Each line is checked as it is read, so that such
 * mappings cost reading time but no memory. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/objects/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "export/util/containers.h"
#include "sampler/base/text.h"

#define SP_MAPS_KEPT_MAX 65536U
#define SP_MAPS_TEXT_MAX ((size_t)4 << 20)
/*
 * Three quarters of a million mappings; vm.max_map_count is 65,530 unless somebody has raised it.
 */
#define SP_MAPS_READ_MAX ((uint64_t)64 << 20)
/* A path has at most 4,096 bytes, each of which the kernel may write as four. */
#define SP_MAPS_BUFFER 32768U

/* Consecutive lines of one file, with nothing but anonymous memory between them. */
struct run {
	size_t first; /* in map[] */
	size_t text_n;
	bool code;
};

struct reading {
	struct sp_maps *m;
	struct run run;
	uint64_t end; /* the end of the last line */
};

/* A number and the character that must follow it. */
static bool take_number(const char **s, unsigned base, char end, uint64_t *v)
{
	return sp_text_number(s, base, v) && *(*s)++ == end;
}

/* "start-end perms offset major:minor inode   path" */
bool sp_maps_line(const char *line, struct sp_map *map, const char **path)
{
	const char *s = line;
	uint64_t major;
	uint64_t minor;

	if (!take_number(&s, 16, '-', &map->start) || !take_number(&s, 16, ' ', &map->end) ||
	    map->start >= map->end || strnlen(s, 5) < 5 || s[4] != ' ')
		return false;
	map->prot = (s[0] == 'r' ? PROT_READ : 0) | (s[1] == 'w' ? PROT_WRITE : 0) |
		    (s[2] == 'x' ? PROT_EXEC : 0);
	s += 5;
	if (!take_number(&s, 16, ' ', &map->offset) || !take_number(&s, 16, ':', &major) ||
	    !take_number(&s, 16, ' ', &minor))
		return false;
	map->device = makedev((unsigned)major, (unsigned)minor);
	(void)sp_text_number(&s, 10, &map->inode);
	s += strcspn(s, " ");
	s += strspn(s, " ");
	*path = s;
	return true;
}

/*
 * The kernel writes a newline in a path as "\012" (fs/proc/task_mmu.c), and escapes nothing else.
 */
static void unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from != '\0'; to++) {
		bool newline = *from == '\\' && strncmp(from, "\\012", 4) == 0;

		*to = newline ? '\n' : *from;
		from += newline ? 4 : 1;
	}
	*to = '\0';
}

static int put_path(struct sp_maps *m, const char *path, size_t *at)
{
	size_t len = strlen(path) + 1;

	if (m->text_n + len > SP_MAPS_TEXT_MAX)
		return -E2BIG;
	if (!SP_GROW(m->text, m->text_cap, m->text_n + len, SP_MAPS_TEXT_MAX))
		return -ENOMEM;
	*at = m->text_n;
	memcpy(m->text + m->text_n, path, len);
	m->text_n += len;
	return 0;
}

static int put_map(struct sp_maps *m, const struct sp_map *map)
{
	if (m->n >= SP_MAPS_KEPT_MAX)
		return -E2BIG;
	if (!SP_GROW(m->map, m->cap, m->n + 1, SP_MAPS_KEPT_MAX))
		return -ENOMEM;
	m->map[m->n++] = *map;
	return 0;
}

/* Drops the lines of a run that turned out to have no code. */
static void end_run(struct reading *r)
{
	if (!r->run.code) {
		r->m->n = r->run.first;
		r->m->text_n = r->run.text_n;
	}
	r->run = (struct run){.first = r->m->n, .text_n = r->m->text_n};
}

static int add_line(struct reading *r, char *line)
{
	struct sp_maps *m = r->m;
	const struct sp_map *run = r->run.first < m->n ? &m->map[r->run.first] : NULL;
	struct sp_map map;
	const char *begin;
	char *path;
	int err = 0;

	/* A change between two read calls may show an address twice. */
	if (!sp_maps_line(line, &map, &begin) || map.start < r->end)
		return 0;
	path = line + (begin - line);
	r->end = map.end;
	if (map.inode == 0 && (map.prot & PROT_EXEC) == 0)
		return 0;
	unescape(path);
	if (run != NULL && map.inode != 0 && map.inode == run->inode && map.device == run->device &&
	    strcmp(path, m->text + run->path) == 0) {
		map.path = run->path;
	} else {
		/* Anonymous memory may have a name by now, "[anon:...]". */
		if (map.inode != 0 || (path[0] == '[' && strncmp(path, "[anon", 5) != 0))
			end_run(r);
		err = put_path(m, path, &map.path);
	}
	if (err == 0)
		err = put_map(m, &map);
	r->run.code = r->run.code || (map.prot & PROT_EXEC) != 0;
	return err;
}

/* Passes on each complete line of the buffer and moves the rest to its beginning. Returns the length of the rest. */
static size_t add_lines(struct reading *r, char *buf, size_t len, int *err)
{
	char *line = buf;
	char *end;

	while (*err == 0 && (end = memchr(line, '\n', len - (size_t)(line - buf))) != NULL) {
		*end = '\0';
		*err = add_line(r, line);
		line = end + 1;
	}
	len -= (size_t)(line - buf);
	memmove(buf, line, len);
	return len;
}

static int read_lines(struct reading *r, int fd, char *buf)
{
	uint64_t total = 0;
	size_t have = 0;
	int err = 0;

	while (err == 0) {
		ssize_t got = read(fd, buf + have, SP_MAPS_BUFFER - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : 0;
		total += (uint64_t)got;
		have = add_lines(r, buf, have + (size_t)got, &err);
		if (err == 0 && (total > SP_MAPS_READ_MAX || have == SP_MAPS_BUFFER))
			err = -E2BIG;
	}
	return err;
}

static int read_all(struct sp_maps *m, int fd, char *buf)
{
	struct reading r = {.m = m};
	int err;

	m->n = 0;
	m->text_n = 0;
	err = read_lines(&r, fd, buf);
	end_run(&r);
	if (err != 0 && err != -E2BIG) {
		m->n = 0;
		m->text_n = 0;
	}
	return err;
}

int sp_maps_read(struct sp_maps *m, const char *path, int spare)
{
	char *buf = malloc(SP_MAPS_BUFFER);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err = fd >= 0 ? 0 : -errno;

	m->n = 0;
	m->text_n = 0;
	if (buf == NULL)
		err = -ENOMEM;
	if (err == 0)
		err = read_all(m, fd, buf);
	if (buf != NULL && m->n == 0 && spare >= 0 && lseek(spare, 0, SEEK_SET) == 0)
		err = read_all(m, spare, buf);
	if (fd >= 0)
		close(fd);
	free(buf);
	return err;
}

bool sp_maps_copy(struct sp_maps *to, const struct sp_maps *from)
{
	if (from->n == 0)
		return true;
	to->map = malloc(from->n * sizeof(*to->map));
	to->text = malloc(from->text_n);
	if (to->map == NULL || to->text == NULL)
		return false;
	memcpy(to->map, from->map, from->n * sizeof(*to->map));
	memcpy(to->text, from->text, from->text_n);
	to->n = to->cap = from->n;
	to->text_n = to->text_cap = from->text_n;
	return true;
}

void sp_maps_fini(struct sp_maps *m)
{
	free(m->map);
	free(m->text);
	memset(m, 0, sizeof(*m));
}

const struct sp_map *sp_maps_find(const struct sp_maps *m, uint64_t addr)
{
	size_t low = SP_SORTED_UPTO(m->map, m->n, start, addr);

	return low != 0 && addr < m->map[low - 1].end ? &m->map[low - 1] : NULL;
}

const char *sp_maps_path(const struct sp_maps *m, const struct sp_map *map)
{
	return m->text + map->path;
}
