/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader's search, as ld.so(8) and glibc's elf/dl-load.c have it: the RPATH of an object and of
 * those that needed it, LD_LIBRARY_PATH, the RUNPATH of the object, the cache, the default folders.
 * glibc-hwcaps folders are left out: what is in them has the same symbols. Runs in spanprof-run
 * only.
 */
#define _GNU_SOURCE
#include "scripts/run/tree.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scripts/run/elf_file.h"
#include "scripts/run/ld_cache.h"

#if defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#else
#define MULTIARCH "x86_64-linux-gnu"
#endif
#define DEFAULT_DIRS                                                                               \
	"/lib/" MULTIARCH ":/usr/lib/" MULTIARCH ":/lib64:/usr/lib64:/lib:/usr/lib:/usr/local/lib"
#define MISSING_MAX 2000U
#define MAPS_LINE (PATH_MAX + 256)
#define MAPPINGS_MAX 1000000U

struct search {
	struct sp_tree *tree;
	struct sp_ld_cache cache;
	const char *name;
	unsigned from;       /* the object that needs it */
	char path[PATH_MAX]; /* what was found */
};

static bool fits(const struct search *s, const char *path)
{
	struct sp_elf f;
	bool ok;

	if (sp_elf_open(path, &f) != 0)
		return false;
	ok = f.readable && f.machine == s->tree->machine && f.type == ET_DYN;
	sp_elf_close(&f);
	return ok;
}

/* Length of "$NAME" or "${NAME}" at the begin of text, 0 = it is not that. */
static size_t token(const char *text, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(text + 1, name, n) == 0)
		return n + 1;
	if (text[1] == '{' && strncmp(text + 2, name, n) == 0 && text[2 + n] == '}')
		return n + 3;
	return 0;
}

/* Expands $ORIGIN and $LIB of one folder. False when it does not fit. */
static bool expand(const char *dir, size_t len, const char *object, char out[PATH_MAX])
{
	const char *slash = strrchr(object, '/');
	size_t used = 0;

	for (size_t i = 0; i < len && used < PATH_MAX; i++) {
		size_t origin = dir[i] == '$' ? token(dir + i, "ORIGIN") : 0;
		size_t lib = dir[i] == '$' ? token(dir + i, "LIB") : 0;

		if (origin != 0)
			used += (size_t)snprintf(out + used, PATH_MAX - used, "%.*s",
						 (int)(slash != NULL ? slash - object : 0), object);
		else if (lib != 0)
			used += (size_t)snprintf(out + used, PATH_MAX - used, "lib/" MULTIARCH);
		else
			out[used++] = dir[i];
		i += origin + lib != 0 ? origin + lib - 1 : 0;
	}
	if (used >= PATH_MAX)
		return false;
	out[used] = '\0';
	return true;
}

/* A list of folders, as in LD_LIBRARY_PATH; an empty one is the current folder. */
static bool in_dirs(struct search *s, const char *dirs, const char *object)
{
	char dir[PATH_MAX];
	size_t len;

	for (; dirs != NULL; dirs = dirs[len] != '\0' ? dirs + len + 1 : NULL) {
		len = strcspn(dirs, ":;");
		if (!expand(dirs, len, object, dir))
			continue;
		if (snprintf(s->path, sizeof(s->path), "%s/%s", dir[0] != '\0' ? dir : ".",
			     s->name) < PATH_MAX &&
		    fits(s, s->path))
			return true;
	}
	return false;
}

static bool in_rpaths(struct search *s)
{
	const struct sp_tree_object *o = &s->tree->object[s->from];

	if (o->runpath != NULL)
		return false;
	for (;; o = &s->tree->object[o->parent]) {
		if (o->rpath != NULL && in_dirs(s, o->rpath, o->path))
			return true;
		if (o == &s->tree->object[0])
			return false;
	}
}

static bool in_cache(struct search *s)
{
	const char *path;

	for (unsigned n = 0; (path = sp_ld_cache_find(&s->cache, s->name, n)) != NULL; n++)
		if (snprintf(s->path, sizeof(s->path), "%s", path) < PATH_MAX && fits(s, s->path))
			return true;
	return false;
}

static bool find(struct search *s)
{
	const struct sp_tree_object *o = &s->tree->object[s->from];
	const char *library_path = getenv("LD_LIBRARY_PATH");

	if (strchr(s->name, '/') != NULL)
		return expand(s->name, strlen(s->name), o->path, s->path) && fits(s, s->path);
	return in_rpaths(s) ||
	       (library_path != NULL && library_path[0] != '\0' &&
		in_dirs(s, library_path, s->tree->object[0].path)) ||
	       in_dirs(s, o->runpath, o->path) || in_cache(s) || in_dirs(s, DEFAULT_DIRS, o->path);
}

/* Adds it unless it is there. */
static void add(struct sp_tree *t, const char *path, unsigned parent)
{
	struct sp_tree_object *o = &t->object[t->n];
	struct stat st;

	if (stat(path, &st) != 0)
		return;
	for (unsigned i = 0; i < t->n; i++)
		if (t->object[i].dev == st.st_dev && t->object[i].ino == st.st_ino)
			return;
	if (t->n == SP_TREE_MAX) {
		t->full = true;
		return;
	}
	memset(o, 0, sizeof(*o));
	o->path = strdup(path);
	o->parent = parent;
	o->dev = st.st_dev;
	o->ino = st.st_ino;
	t->n += o->path != NULL;
}

static void add_missing(struct sp_tree *t, const char *name)
{
	char *longer = NULL;

	if (t->missing != NULL && strlen(t->missing) > MISSING_MAX)
		return;
	if (asprintf(&longer, "%s%s%s", t->missing != NULL ? t->missing : "",
		     t->missing != NULL ? " " : "", name) < 0)
		return;
	free(t->missing);
	t->missing = longer;
}

static void add_needed(struct search *s, const struct sp_elf_links *l)
{
	struct sp_tree_object *o = &s->tree->object[s->from];

	o->runpath = l->runpath != NULL ? strdup(l->runpath) : NULL;
	o->rpath = l->rpath != NULL && l->runpath == NULL ? strdup(l->rpath) : NULL;
	for (unsigned i = 0; i < l->needs; i++) {
		s->name = l->needed[i];
		if (find(s))
			add(s->tree, s->path, s->from);
		else
			add_missing(s->tree, s->name);
	}
}

bool sp_tree_of_program(const char *program, struct sp_tree *t)
{
	struct search s = {.tree = t};
	struct sp_elf_links l;
	struct sp_elf f;

	memset(t, 0, sizeof(*t));
	t->exe = -1;
	add(t, program, 0);
	if (t->n == 0)
		return false;
	sp_ld_cache_open(&s.cache, "/etc/ld.so.cache");
	for (s.from = 0; s.from < t->n; s.from++) {
		if (sp_elf_open(t->object[s.from].path, &f) != 0)
			continue;
		if (s.from == 0)
			t->machine = f.machine;
		if (f.readable && sp_elf_links(&f, &l)) {
			add_needed(&s, &l);
			sp_elf_links_free(&l);
		}
		sp_elf_close(&f);
	}
	sp_ld_cache_close(&s.cache);
	return true;
}

/* The path of an executable mapping of a file. */
static const char *mapped_code(char *line)
{
	char *path = strchr(line, '/');
	char *rights = strchr(line, ' ');

	if (path == NULL || rights == NULL || strlen(rights) < 4 || rights[3] != 'x')
		return NULL;
	path[strcspn(path, "\n")] = '\0';
	return path;
}

/* By its open file: a program that was replaced on the disk has no path any more. */
static void add_program(struct sp_tree *t, const struct sp_process *p)
{
	struct stat st;

	t->exe = fstat(p->exe, &st) == 0 ? p->exe : -1;
	t->object[0].path = strdup(p->path);
	t->object[0].dev = t->exe >= 0 ? st.st_dev : 0;
	t->object[0].ino = t->exe >= 0 ? st.st_ino : 0;
	t->n = t->object[0].path != NULL;
}

bool sp_tree_of_process(const struct sp_process *p, struct sp_tree *t)
{
	char line[MAPS_LINE];
	int fd = dup(p->maps);
	FILE *maps = fd >= 0 ? fdopen(fd, "r") : NULL;

	memset(t, 0, sizeof(*t));
	t->exe = -1;
	if (maps == NULL) {
		if (fd >= 0)
			(void)close(fd);
		return false;
	}
	rewind(maps);
	add_program(t, p);
	for (unsigned n = 0; n < MAPPINGS_MAX && fgets(line, sizeof(line), maps) != NULL; n++) {
		const char *mapped = mapped_code(line);

		if (mapped != NULL)
			add(t, mapped, 0);
	}
	(void)fclose(maps);
	return true;
}

int sp_tree_open(const struct sp_tree *t, unsigned i, struct sp_elf *f)
{
	int fd = i == 0 && t->exe >= 0 ? dup(t->exe) : -1;

	return fd >= 0 ? sp_elf_take(fd, f) : sp_elf_open(t->object[i].path, f);
}

void sp_tree_free(struct sp_tree *t)
{
	for (unsigned i = 0; i < t->n; i++) {
		free(t->object[i].path);
		free(t->object[i].rpath);
		free(t->object[i].runpath);
	}
	free(t->missing);
	t->n = 0;
	t->missing = NULL;
}
