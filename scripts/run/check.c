/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-run --check. */
#define _GNU_SOURCE
#include "scripts/run/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler/config/config.h"
#include "scripts/run/line.h"
#include "scripts/run/object.h"
#include "scripts/run/process.h"
#include "scripts/run/sdk.h"
#include "scripts/run/target.h"
#include "scripts/run/tree.h"

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

/* What keeps us out, as the verdict. NULL = nothing. */
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

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

static bool is_ours(const char *path)
{
	return strncmp(base_name(path), "libspanprof", 11) == 0;
}

/* What there is of SDKs in a tree. */
struct sdks {
	unsigned hooked;     /* will be */
	unsigned obstacles;  /* will not */
	const char *foreign; /* asks for OTEL_ variables, and has none that we know; NULL = none */
	const char *publisher; /* has OpenTelemetry's thread context; NULL = none */
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

static void say_sdks(const struct sp_tree *t, struct sdks *all)
{
	struct sp_sdk_found found[FOUND_MAX];
	struct sp_sdk_place place = {.is_program = false};
	struct sp_elf f;

	for (unsigned i = 0; i < t->n; i++) {
		size_t n;

		if (is_ours(t->object[i].path) || sp_tree_open(t, i, &f) != 0)
			continue;
		place.is_program = i == 0;
		n = f.readable ? sp_sdk_look(&f, &place, found, FOUND_MAX) : 0;
		if (n == 0 && all->foreign == NULL && f.readable && sp_sdk_is_opentelemetry(&f))
			all->foreign = t->object[i].path;
		if (all->publisher == NULL && f.readable && sp_sdk_publishes(&f))
			all->publisher = t->object[i].path;
		sp_elf_close(&f);
		say_found(found, n, t->object[i].path, all);
	}
	if (all->hooked + all->obstacles == 0 && all->foreign != NULL)
		row("SDK",
		    "no supported SDK, although %s uses OpenTelemetry; if that is "
		    "opentelemetry-cpp, it was built with -fno-rtti",
		    all->foreign);
}

/* Of the program, or of whoever asks. */
static struct sp_config config;

/* Who tells whom of the spans, beside the hooks. */
static void say_context(const struct sdks *all)
{
	if (all->publisher != NULL && all->hooked == 0)
		row("context", "%s can publish its spans; samples are labelled with them",
		    all->publisher);
	else if (all->hooked != 0 && config.thread_context)
		row("context", "its spans will be published for other profilers, unless a "
			       "library of it publishes its own");
}

/* What the variables say. Bad values are told on stderr, as the program would. */
static void say_config(char *const *environment)
{
	sp_config_capture(environment);
	sp_config_parse(&config);
	if (config.disabled)
		row("note", "profiling is switched off by SPANPROF_DISABLED, OTEL_SDK_DISABLED, "
			    "PYROSCOPE_AGENT_ENABLED or OTEL_PYROSCOPE_START_PROFILING");
}

/* gcc's AddressSanitizer ends a program in which another object was loaded before its runtime. */
static void say_sanitizer(const struct sp_target *t, const struct sp_tree *tree)
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

static enum sp_check say_verdict(const struct sp_target *t, const struct sp_tree *tree)
{
	struct sdks all = {.hooked = 0};

	say_sdks(tree, &all);
	say_context(&all);
	say_sanitizer(t, tree);
	if (tree->missing != NULL)
		row("missing", "%s (the loader does not find it)", tree->missing);
	if (tree->said != NULL)
		row("loader", "%s", tree->said);
	if (tree->full)
		row("note", "more than %u objects: the others were not examined", SP_TREE_MAX);
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
		    "can be loaded, but no library of it is a supported SDK. One that it "
		    "opens later (dlopen) is hooked as well; "
		    "SPANPROF_PROFILE=always profiles it without spans");
	return SP_CHECK_NO_SDK;
}

static enum sp_check check(const struct sp_target *t, const struct sp_elf *object,
			   const struct sp_tree *tree)
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
	const char *why; /* it cannot be; NULL = it can, and elf is open */
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

static enum sp_check check_tree(const struct sp_target *t, const struct candidate *c,
				const struct sp_tree *tree)
{
	say_target(t);
	/* A process that runs has one of its own, or none. */
	for (unsigned i = 0; t->running && i < tree->n; i++)
		if (strcmp(base_name(tree->object[i].path), SP_OBJECT_NAME) == 0)
			row("loaded", "%s", tree->object[i].path);
	if (!t->running)
		row("object", "%s%s%s", c->path, c->why != NULL ? ": " : "",
		    c->why != NULL ? c->why : "");
	if (c->why == NULL || t->running)
		return check(t, c->why == NULL ? &c->elf : NULL, tree);
	row("verdict", "cannot be profiled: there is no object to load");
	return SP_CHECK_BLOCKED;
}

/* Only of a program that the loader would take us into: what else it says is of no use. */
static void ask_loader(const struct sp_target *t, const struct candidate *object,
		       struct sp_tree *tree)
{
	char buf[SP_ELF_INTERP_MAX + 128];
	char *preload;

	if (object->why != NULL || t->error != 0 ||
	    blocked(t, &object->elf, buf, sizeof(buf)) != NULL)
		return;
	preload = sp_object_chain(object->path, getenv("LD_PRELOAD"));
	sp_tree_of_program(t, preload, tree);
	free(preload);
}

enum sp_check sp_check_program(const char *path)
{
	static struct candidate object;
	static struct sp_target t;
	static struct sp_tree tree;
	enum sp_check result;

	sp_target_read(path, &t);
	open_candidate(&object);
	say_config(environ);
	ask_loader(&t, &object, &tree);
	result = check_tree(&t, &object, &tree);
	close_candidate(&object);
	sp_tree_free(&tree);
	return result;
}

/* Of a program with more rights than its caller the environment is the caller's. */
static int look_at(struct sp_process *p, const struct candidate *object)
{
	static struct sp_target t;
	static struct sp_tree tree;
	int result;

	if (!sp_tree_of_process(p, &tree))
		return SP_CHECK_FAILED;
	sp_target_of_process(p, &t);
	row("user", "%u", (unsigned)p->uid);
	if (!p->secure)
		say_config(p->environment);
	result = (int)check_tree(&t, object, &tree);
	sp_tree_free(&tree);
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
