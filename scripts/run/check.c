/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-run --check: prints the verdict on a program, or on a running process; and finds the
 * objects of the program, on which the verdict is based.
 */
#define _GNU_SOURCE
#include "scripts/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/config/config.h"
#include "sampler/config/config_file.h"
#include "scripts/run/elf_file.h"
#include "scripts/run/target.h"

#define TREE_MAX 512U

struct tree_object {
	char *path;
	dev_t dev;
	ino_t ino;   /* 0 = no file has this path */
	bool former; /* another file has the path now, or none */
};

struct tree {
	struct tree_object object[TREE_MAX]; /* in load order; the first is the program */
	unsigned n;
	char *missing; /* names that the loader does not find, separated by spaces; NULL = none */
	char *said;    /* the loader's other messages, or why it was not asked; NULL = none */
	bool full;
	int exe; /* the file of a running program, borrowed; -1 = open the path */
};

/*
 * Finds the objects of a program by its loader, or those of a process by its mappings. The loader
 * is asked as ldd does: with LD_TRACE_LOADED_OBJECTS glibc's loader maps the program and its
 * objects, prints where they are, and ends before it runs any of their code (elf/rtld.c of 2.36;
 * with LD_WARN or LD_AUDIT it would run some). The loader's option --list does the same, but ends
 * at the first missing object. As with ldd, a malicious program file can make the loader run any
 * code with the caller's rights. A loader that other users could have installed is not asked. The
 * loader may answer any text.
 */
#define ANSWER_MAX ((size_t)1 << 20)
#define ANSWER_SECONDS 10
#define WORDS_MAX 2000U
#define MAPS_LINE (PATH_MAX + 256)
#define MAPPINGS_MAX 1000000U

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/* Whether only root and the caller can have installed this file, or can replace it. */
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
		/* In a sticky folder users cannot replace files of others. */
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

/* Runs in the child. If it fails, the reason is a line of the answer. */
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

/* Reads the pipe to its end; NULL = it failed. */
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
	 * If the loader starts a program itself, it takes $ORIGIN from the given path, which
	 * may be a link. When the kernel starts the program, $ORIGIN is that of the file behind the
	 * link. So the link is resolved here.
	 */
	if (realpath(program, target) != NULL)
		program = target;
	*why = "not asked: other users than root and you can replace it";
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

/* Adds a file once. st is zero if no file has the path. */
static void add_file(struct tree *t, const char *path, const struct stat *st, bool former)
{
	struct tree_object *o = &t->object[t->n];

	for (unsigned i = 0; i < t->n; i++) {
		if (t->object[i].dev != st->st_dev || t->object[i].ino != st->st_ino ||
		    (st->st_ino == 0 && strcmp(t->object[i].path, path) != 0))
			continue;
		t->object[i].former |= former;
		return;
	}
	if (t->n == TREE_MAX) {
		t->full = true;
		return;
	}
	memset(o, 0, sizeof(*o));
	o->path = strdup(path);
	o->dev = st->st_dev;
	o->ino = st->st_ino;
	o->former = former;
	t->n += o->path != NULL;
}

static void add(struct tree *t, const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0)
		add_file(t, path, &st, false);
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
static void take_line(struct tree *t, char *line)
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

/*
 * Finds the objects of a program with that LD_PRELOAD; only the program if its loader cannot be
 * asked.
 */
static void tree_of_program(const struct sp_target *program, const char *preload, struct tree *t)
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

/* The file of an executable mapping; NULL = the line is of another mapping. */
static char *mapped_code(char *line)
{
	char *path = strchr(line, '/');
	char *rights = strchr(line, ' ');

	if (path == NULL || rights == NULL || strlen(rights) < 4 || rights[3] != 'x')
		return NULL;
	path[strcspn(path, "\n")] = '\0';
	return path;
}

/* Adds the program by its open file: if its file was replaced, the path leads to another one. */
static void add_program(struct tree *t, const struct sp_process *p)
{
	struct stat st;

	t->exe = fstat(p->exe, &st) == 0 ? p->exe : -1;
	t->object[0].path = strdup(p->path);
	t->object[0].dev = t->exe >= 0 ? st.st_dev : 0;
	t->object[0].ino = t->exe >= 0 ? st.st_ino : 0;
	t->n = t->object[0].path != NULL;
}

/*
 * An upgrade removes a mapped file from its path, and the kernel then shows the path with "
 * (deleted)" behind it. The process continues with the former file, which can be opened only with
 * more rights than its user has. So the file that has the path now is examined instead. Other
 * memory whose name was removed, such as a compiler's at run time, is no library.
 */
static void add_mapped(struct tree *t, char *path)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(path);
	size_t end = sizeof(deleted) - 1;
	struct stat st;

	if (len <= end || strcmp(path + len - end, deleted) != 0 || stat(path, &st) == 0) {
		add(t, path);
		return;
	}
	path[len - end] = '\0';
	if (stat(path, &st) != 0)
		memset(&st, 0, sizeof(st));
	if (S_ISREG(st.st_mode) || (st.st_ino == 0 && strstr(base_name(path), ".so") != NULL))
		add_file(t, path, &st, true);
}

/* Finds the mapped files of a running process; p must outlive t. False if they cannot be read. */
static bool tree_of_process(const struct sp_process *p, struct tree *t)
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
		char *mapped = mapped_code(line);

		/* The program was added before; another file may have its path. */
		if (mapped != NULL && strcmp(mapped, p->path) != 0)
			add_mapped(t, mapped);
	}
	(void)fclose(maps);
	return true;
}

/* sp_elf_open() for the i-th object. */
static int tree_open(const struct tree *t, unsigned i, struct sp_elf *f)
{
	int fd = i == 0 && t->exe >= 0 ? dup(t->exe) : -1;

	return fd >= 0 ? sp_elf_take(fd, f) : sp_elf_open(t->object[i].path, f);
}

static void tree_free(struct tree *t)
{
	for (unsigned i = 0; i < t->n; i++)
		free(t->object[i].path);
	free(t->missing);
	free(t->said);
	t->n = 0;
	t->missing = NULL;
	t->said = NULL;
}

/* The verdict. */

#define FOUND_MAX 8U

static __attribute__((format(printf, 2, 3))) void row(const char *what, const char *fmt, ...)
{
	char text[SP_LINE_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	sp_line(stdout, "%-9s %s", what, text);
}

static void say_target(const struct sp_target *t)
{
	char buf[24];

	if (t->script[0] != '\0')
		row("script", "%s, run by", t->script);
	row("program", "%s", t->path);
	if (t->no_program) {
		row("kind", "not there");
		return;
	}
	if (t->error == -ENOEXEC) {
		row("kind", "not an ELF file");
		return;
	}
	if (t->error != 0) {
		row("kind", "unknown: it cannot be read (%s)", strerror(-t->error));
		return;
	}
	if (!t->readable)
		row("kind", "%s, %s", sp_target_machine(t->machine, buf),
		    t->word_size == ELFCLASS32 ? "32 bits" : "big-endian");
	else if (t->is_static)
		row("kind", "%s, %s, %s%s", sp_target_machine(t->machine, buf),
		    t->is_library ? "a shared library" : "statically linked", "no loader",
		    t->is_go ? ", made by Go" : "");
	else
		row("kind", "%s, dynamically linked, %s (%s)%s", sp_target_machine(t->machine, buf),
		    sp_target_libc(t->libc), t->interp, t->is_go ? ", made by Go" : "");
}

/* Why we cannot be loaded or work, for the verdict; NULL = we can. */
static const char *blocked(const struct sp_target *t, const struct sp_elf *object, char *buf,
			   size_t len)
{
	const char *why = sp_target_obstacle(t, object, buf, len);

	if (t->no_program) {
		(void)snprintf(
			buf, len,
			"the script's interpreter %.500s is not there: it cannot be run at all",
			t->path);
		return buf;
	}
	if (t->error == -ENOEXEC)
		return "it is not an ELF program";
	if (why != NULL)
		return why;
	if (t->is_library)
		return "it is a shared library, not a program";
	if (t->is_static)
		return t->is_go ? "it is statically linked, as most Go programs are, so nothing "
				  "can be "
				  "preloaded into it (for Go there is pyroscope-go)"
				: "it is statically linked, so nothing can be preloaded into it";
	if (t->no_interp) {
		(void)snprintf(buf, len, "its loader %s is not there: it cannot be run at all",
			       t->interp);
		return buf;
	}
	if (t->secure != NULL) {
		(void)snprintf(buf, len, "%s, so the loader ignores LD_PRELOAD", t->secure);
		return buf;
	}
	return NULL;
}

static bool is_ours(const char *path)
{
	return strncmp(base_name(path), "libspanprof", 11) == 0;
}

/* The SDKs in the objects of a program. */
struct sdks {
	unsigned hooked;       /* SDKs that will be hooked */
	unsigned obstacles;    /* SDKs that will not */
	const char *foreign;   /* reads OTEL_ variables without a known SDK; NULL = none */
	const char *otelcpp;   /* object with opentelemetry-cpp, classes not found; NULL = none */
	const char *publisher; /* object with OpenTelemetry's thread context; NULL = none */
};

static void say_found(const struct sp_sdk_found *found, size_t n, const char *path,
		      struct sdks *all)
{
	for (size_t i = 0; i < n; i++) {
		bool ok = found[i].state == SP_SDK_HOOKED;

		row("SDK", "%s in %s: %s%s", found[i].name, path,
		    ok ? "will be hooked: " : "not hooked: ", found[i].how);
		all->hooked += ok;
		all->obstacles += !ok;
	}
}

static void say_sdks(const struct tree *t, struct sdks *all)
{
	struct sp_sdk_found found[FOUND_MAX];
	struct sp_sdk_place place = {.is_program = false};
	struct sp_elf f;

	for (unsigned i = 0; i < t->n; i++) {
		size_t n;

		if (is_ours(t->object[i].path) || tree_open(t, i, &f) != 0)
			continue;
		place.is_program = i == 0;
		n = f.readable ? sp_sdk_look(&f, &place, found, FOUND_MAX) : 0;
		if (n == 0 && all->foreign == NULL && f.readable && sp_sdk_is_opentelemetry(&f))
			all->foreign = t->object[i].path;
		if (n == 0 && all->otelcpp == NULL && f.readable && sp_sdk_is_otelcpp(&f))
			all->otelcpp = t->object[i].path;
		if (all->publisher == NULL && f.readable && sp_sdk_publishes(&f))
			all->publisher = t->object[i].path;
		sp_elf_close(&f);
		say_found(found, n, t->object[i].path, all);
	}
	if (all->hooked + all->obstacles != 0)
		return;
	if (all->otelcpp != NULL) {
		row("SDK",
		    "opentelemetry-cpp in %s: not hooked: it has no symbols, and no run-time type "
		    "information (-fno-rtti)",
		    all->otelcpp);
		all->obstacles++;
	} else if (all->foreign != NULL) {
		row("SDK",
		    "no supported SDK, although %s reads variables of OpenTelemetry, as tracers of "
		    "other makers do as well",
		    all->foreign);
	}
}

/* The settings of the examined process, or of the caller. */
static struct sp_config config;

/* Prints who publishes spans, besides the hooks. */
static void say_context(const struct sdks *all)
{
	if (all->publisher != NULL && all->hooked == 0)
		row("context", "%s can publish its spans; samples are labelled with them",
		    all->publisher);
	else if (all->hooked != 0 && config.thread_context)
		row("context", "its spans will be published for other profilers, unless a "
			       "library of it publishes its own");
}

/*
 * Prints the settings. Bad values are reported on stderr, as the program would do. loaded: our
 * object in the process; NULL = none.
 */
static void say_config(char *const *environment, const char *loaded)
{
	if (loaded != NULL)
		sp_config_load(environment, loaded, SP_CONFIG_FILE);
	else
		sp_config_capture(environment);
	sp_config_parse(&config);
	if (config.disabled)
		row("note", "profiling is switched off by SPANPROF_DISABLED, OTEL_SDK_DISABLED, "
			    "PYROSCOPE_AGENT_ENABLED or OTEL_PYROSCOPE_START_PROFILING");
}

/* gcc's AddressSanitizer ends a program if another object was loaded before its runtime. */
static void say_sanitizer(const struct sp_target *t, const struct tree *tree)
{
	const char *options = getenv("ASAN_OPTIONS");

	if (t->running || (options != NULL && strstr(options, "verify_asan_link_order=0") != NULL))
		return;
	for (unsigned i = 0; i < tree->n; i++) {
		const char *name = base_name(tree->object[i].path);

		if (is_ours(name))
			break;
		if (strncmp(name, "libasan.so", 10) == 0)
			return;
	}
	for (unsigned i = 0; i < tree->n; i++)
		if (strstr(tree->object[i].path, "/libasan.so") != NULL)
			row("note",
			    "AddressSanitizer does not start behind a preloaded object: put %s in "
			    "front of LD_PRELOAD, or set ASAN_OPTIONS=verify_asan_link_order=0",
			    tree->object[i].path);
}

/*
 * Names files that were replaced or removed, except our own files. For these the verdict is based
 * on other files than the process has mapped.
 */
static void say_former(const struct tree *t)
{
	char *replaced = NULL;
	char *removed = NULL;

	for (unsigned i = 0; i < t->n; i++)
		if (t->object[i].former && !is_ours(t->object[i].path))
			append(t->object[i].ino != 0 ? &replaced : &removed, " ",
			       t->object[i].path);
	if (replaced != NULL)
		row("note",
		    "replaced on disk since the program loaded them, so the new files were "
		    "examined: %s",
		    replaced);
	if (removed != NULL)
		row("note", "removed from disk since the program loaded them, and not examined: %s",
		    removed);
	free(replaced);
	free(removed);
}

static enum sp_check say_verdict(const struct sp_target *t, const struct tree *tree)
{
	struct sdks all = {.hooked = 0};

	say_sdks(tree, &all);
	say_former(tree);
	say_context(&all);
	say_sanitizer(t, tree);
	if (tree->missing != NULL)
		row("missing", "%s (the loader does not find it)", tree->missing);
	if (tree->said != NULL)
		row("loader", "%s", tree->said);
	if (tree->full)
		row("note", "more than %u objects: the others were not examined", TREE_MAX);
	if (sp_elf_is_cut())
		row("note", "its files are too large: the bytes after the first 8 GiB were not "
			    "examined");
	if (all.hooked != 0) {
		row("verdict", "can be profiled: its spans will be seen");
		return SP_CHECK_HOOKED;
	}
	if (all.publisher != NULL) {
		row("verdict", "can be profiled: the spans that it publishes will be seen");
		return SP_CHECK_HOOKED;
	}
	if (all.obstacles != 0)
		row("verdict", "its spans will not be seen, because its SDK cannot be hooked. "
			       "SPANPROF_PROFILE=always profiles it without spans");
	else if (t->script[0] != '\0')
		row("verdict", "the script's interpreter has no SDK. The programs that the script "
			       "starts are profiled as well: check those");
	else
		row("verdict",
		    "can be loaded, but no library of it is a supported SDK. An SDK that it "
		    "opens later (dlopen) is hooked as well; "
		    "SPANPROF_PROFILE=always profiles it without spans");
	return SP_CHECK_NO_SDK;
}

static enum sp_check check(const struct sp_target *t, const struct sp_elf *object,
			   const struct tree *tree)
{
	char buf[SP_ELF_INTERP_MAX + 128];
	const char *why = blocked(t, object, buf, sizeof(buf));

	if (why == NULL)
		return say_verdict(t, tree);
	row("verdict", "cannot be profiled: %s", why);
	return SP_CHECK_BLOCKED;
}

/* The object that would be preloaded. */
struct candidate {
	char path[PATH_MAX];
	const char *why; /* why it cannot be; NULL = it can, and elf is open */
	struct sp_elf elf;
};

static void open_candidate(struct candidate *c)
{
	if (sp_object_find(c->path, &c->why))
		c->why = sp_elf_open(c->path, &c->elf) != 0 ? "not an ELF file" : NULL;
}

static void close_candidate(struct candidate *c)
{
	if (c->why == NULL)
		sp_elf_close(&c->elf);
}

/* Prints the copy of our object in a running process, which may have none. */
static void say_loaded(const struct tree *t)
{
	for (unsigned i = 0; i < t->n; i++) {
		const struct tree_object *o = &t->object[i];

		if (strcmp(base_name(o->path), SP_OBJECT_NAME) != 0)
			continue;
		row("loaded", "%s", o->path);
		if (o->former)
			row("note",
			    "%s disk since the program loaded it, and the program keeps the former "
			    "file until it ends: %s",
			    o->ino != 0 ? "replaced on" : "removed from", o->path);
	}
}

static enum sp_check check_tree(const struct sp_target *t, const struct candidate *c,
				const struct tree *tree)
{
	say_target(t);
	if (t->running)
		say_loaded(tree);
	else
		row("object", "%s%s%s", c->path, c->why != NULL ? ": " : "",
		    c->why != NULL ? c->why : "");
	if (c->why == NULL || t->running)
		return check(t, c->why == NULL ? &c->elf : NULL, tree);
	row("verdict", "cannot be profiled: there is no object to load");
	return SP_CHECK_BLOCKED;
}

enum sp_check sp_check_program(const char *path)
{
	static struct candidate object;
	static struct sp_target t;
	static struct tree tree;
	char buf[SP_ELF_INTERP_MAX + 128];
	enum sp_check result;

	sp_target_read(path, &t);
	open_candidate(&object);
	say_config(environ, NULL);
	/*
	 * The loader is asked only if it would load our object. Otherwise its answer would change
	 * nothing.
	 */
	if (object.why == NULL && t.error == 0 &&
	    blocked(&t, &object.elf, buf, sizeof(buf)) == NULL) {
		char *preload = sp_object_chain(object.path, getenv("LD_PRELOAD"));

		tree_of_program(&t, preload, &tree);
		free(preload);
	}
	result = check_tree(&t, &object, &tree);
	close_candidate(&object);
	tree_free(&tree);
	return result;
}

static const char *path_of_ours(const struct tree *t)
{
	for (unsigned i = 0; i < t->n; i++)
		if (is_ours(base_name(t->object[i].path)))
			return t->object[i].path;
	return NULL;
}

/* The environment of a program with more rights than its caller comes from the caller. */
static int look_at(struct sp_process *p, const struct candidate *object)
{
	static struct sp_target t;
	static struct tree tree;
	int result;

	if (!tree_of_process(p, &tree))
		return SP_CHECK_FAILED;
	sp_target_of_process(p, &t);
	row("user", "%u", (unsigned)p->uid);
	if (!p->secure)
		say_config(p->environment, path_of_ours(&tree));
	result = (int)check_tree(&t, object, &tree);
	tree_free(&tree);
	return result;
}

int sp_check_process(pid_t pid)
{
	static struct candidate object;
	static struct sp_process p;
	char why[256];
	int result;

	if (!sp_process_open(pid, &p, why)) {
		sp_line(stderr, "spanprof-run: process %d: %s", (int)pid, why);
		return SP_CHECK_FAILED;
	}
	open_candidate(&object);
	result = look_at(&p, &object);
	close_candidate(&object);
	sp_process_close(&p);
	return result;
}
