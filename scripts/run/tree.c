/* SPDX-License-Identifier: Apache-2.0 */
/* From what the program's loader says, or from the mappings of a process. Runs in spanprof-run only. */
#define _GNU_SOURCE
#include "scripts/run/tree.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scripts/run/loader.h"

#define WORDS_MAX 2000U
#define MAPS_LINE (PATH_MAX + 256)
#define MAPPINGS_MAX 1000000U

/* Adds it unless it is there. */
static void add(struct sp_tree *t, const char *path)
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
	o->dev = st.st_dev;
	o->ino = st.st_ino;
	t->n += o->path != NULL;
}

static void append(char **list, const char *between, const char *words)
{
	char *longer = NULL;

	if (*list != NULL && strlen(*list) > WORDS_MAX)
		return;
	if (asprintf(&longer, "%s%s%s", *list != NULL ? *list : "", *list != NULL ? between : "",
		     words) < 0)
		return;
	free(*list);
	*list = longer;
}

/* "\tNAME => PATH (0xADDRESS)", "\tPATH (0xADDRESS)", "\tNAME => not found", or an error. */
static void take_line(struct sp_tree *t, char *line)
{
	char *name = line + 1;
	char *arrow = strstr(line, " => ");
	char *path = arrow != NULL ? arrow + strlen(" => ") : name;
	char *address = strstr(path, " (0x");

	if (line[0] != '\t') {
		append(&t->said, "; ", line);
	} else if (arrow != NULL && strcmp(path, "not found") == 0) {
		*arrow = '\0';
		append(&t->missing, " ", name);
	} else if (address != NULL) {
		*address = '\0';
		/* The vDSO has no path. */
		if (strchr(path, '/') != NULL)
			add(t, path);
	}
}

void sp_tree_of_program(const struct sp_target *program, const char *preload, struct sp_tree *t)
{
	const char *why;
	char *answer;
	char *rest;
	char *line;

	memset(t, 0, sizeof(*t));
	t->exe = -1;
	add(t, program->path);
	answer = sp_loader_list(program->interp, program->path, preload, &why);
	rest = answer;
	while ((line = strsep(&rest, "\n")) != NULL)
		if (line[0] != '\0')
			take_line(t, line);
	if (answer == NULL)
		append(&t->said, "", why);
	free(answer);
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
			add(t, mapped);
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
	for (unsigned i = 0; i < t->n; i++)
		free(t->object[i].path);
	free(t->missing);
	free(t->said);
	t->n = 0;
	t->missing = NULL;
	t->said = NULL;
}
