/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of a program, from what its loader says, or of a process, from its mappings. The loader is asked
 * as ldd does it: told by LD_TRACE_LOADED_OBJECTS, glibc's maps the program and all that it needs, tells where
 * that is, and ends before it runs anything of it (elf/rtld.c of 2.36; with LD_WARN or LD_AUDIT it would). Its
 * option --list does the same, but ends at the first object that is missing. A file that was made for it can
 * turn the loader into anything, with the rights of whoever asks, as with ldd; a loader that others could have
 * put there is not asked. Its answer is anybody's text. Runs in spanprof-run only.
 */
#define _GNU_SOURCE
#include "scripts/run/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)1 << 20)
#define ANSWER_SECONDS 10
#define WORDS_MAX 2000U
#define MAPS_LINE (PATH_MAX + 256)
#define MAPPINGS_MAX 1000000U

/* Nobody but root and ourselves can have put it there, or can replace it. */
static bool is_trusted(char *path)
{
	struct stat st;
	char *slash = path;

	do {
		slash = strchr(slash + 1, '/');
		if (slash != NULL)
			*slash = '\0';
		if (stat(path, &st) != 0 || (st.st_uid != 0 && st.st_uid != geteuid()))
			return false;
		/* In a sticky folder others' files cannot be replaced. */
		if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 &&
		    (!S_ISDIR(st.st_mode) || (st.st_mode & S_ISVTX) == 0))
			return false;
		if (slash != NULL)
			*slash = '/';
	} while (slash != NULL);
	return S_ISREG(st.st_mode);
}

/* "NAME=VALUE" */
static char *entry(const char *name, const char *value)
{
	char *text = NULL;

	if (asprintf(&text, "%s=%s", name, value != NULL ? value : "") < 0)
		_exit(1);
	return text;
}

/* In the child. Our own failure is a line of the answer. */
static _Noreturn void become_loader(const char *loader, const char *program, const char *preload,
				    int answer)
{
	const char *argv[] = {loader, program, NULL};
	char *envp[] = {entry("LD_TRACE_LOADED_OBJECTS", "1"), entry("LD_PRELOAD", preload),
			entry("LD_LIBRARY_PATH", getenv("LD_LIBRARY_PATH")), NULL};
	const struct rlimit no_core = {0, 0};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)setrlimit(RLIMIT_CORE, &no_core);
	if (dup2(answer, STDOUT_FILENO) < 0 || dup2(answer, STDERR_FILENO) < 0)
		_exit(1);
	(void)close(STDIN_FILENO);
	(void)execve(loader, (char **)(uintptr_t)argv, envp);
	dprintf(STDERR_FILENO, "not asked: it cannot be started: %s\n", strerror(errno));
	_exit(1);
}

static long milliseconds(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* All that comes through the pipe, or NULL. */
static char *read_answer(int fd, const char **why)
{
	long until = milliseconds() + ANSWER_SECONDS * 1000L;
	char *text = malloc(ANSWER_MAX + 1);
	size_t len = 0;

	*why = text == NULL ? "out of memory" : NULL;
	while (*why == NULL) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		long left = until - milliseconds();
		ssize_t got = 0;

		if (left <= 0 || (poll(&p, 1, (int)left) == 0))
			*why = "it does not answer";
		else if (len == ANSWER_MAX)
			*why = "its answer has no end";
		else if ((got = read(fd, text + len, ANSWER_MAX - len)) <= 0)
			break;
		len += (size_t)got;
	}
	if (*why == NULL) {
		text[len] = '\0';
		return text;
	}
	free(text);
	return NULL;
}

static char *ask_loader(const char *loader, const char *program, const char *preload,
			const char **why)
{
	char path[PATH_MAX];
	char target[PATH_MAX];
	char *text;
	int answer[2];
	pid_t pid;

	/*
	 * Of a program that it starts itself the loader takes $ORIGIN from the path that it is given, which
	 * may be a link. When the kernel starts the program, it takes the file behind the link.
	 */
	if (realpath(program, target) != NULL)
		program = target;
	*why = "not asked: others than root and you can replace it";
	if (realpath(loader, path) == NULL || !is_trusted(path))
		return NULL;
	*why = "not asked: it cannot be started";
	if (pipe2(answer, O_CLOEXEC) != 0)
		return NULL;
	pid = fork();
	if (pid == 0)
		become_loader(path, program, preload, answer[1]);
	(void)close(answer[1]);
	text = pid > 0 ? read_answer(answer[0], why) : NULL;
	(void)close(answer[0]);
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	return text;
}

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
	answer = ask_loader(program->interp, program->path, preload, &why);
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
