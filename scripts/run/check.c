/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-run --check. Caller: main.c. */
#include "scripts/run/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scripts/run/object.h"
#include "scripts/run/sdk.h"
#include "scripts/run/target.h"
#include "scripts/run/tree.h"

#define FOUND_MAX 8U

static __attribute__((format(printf, 2, 3))) void row(const char *what, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	printf("%-9s ", what);
	vprintf(fmt, args);
	putchar('\n');
	va_end(args);
}

static void say_target(const struct sp_target *t)
{
	char buf[24];

	if (t->script[0] != '\0')
		row("script", "%s, run by", t->script);
	row("program", "%s", t->path);
	if (t->error == -ENOEXEC) {
		row("kind", "no ELF file");
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

	if (t->error == -ENOEXEC)
		return "it is not an ELF program";
	if (why != NULL)
		return why;
	if (t->is_library)
		return "it is a shared library, not a program";
	if (t->is_static)
		return t->is_go ? "it is statically linked, as most Go programs are, and no loader "
				  "runs that would take us in (for Go there is pyroscope-go)"
				: "it is statically linked: no loader runs that would take us in";
	if (t->no_interp) {
		(void)snprintf(buf, len, "its loader %s is not there: it cannot be run at all",
			       t->interp);
		return buf;
	}
	if (t->secure != NULL) {
		(void)snprintf(buf, len, "%s: the loader drops LD_PRELOAD, and we stay inert in it",
			       t->secure);
		return buf;
	}
	return NULL;
}

static bool is_ours(const char *path)
{
	const char *name = strrchr(path, '/');

	return strncmp(name != NULL ? name + 1 : path, "libspanprof", 11) == 0;
}

/* Returns how many SDKs will be hooked; *obstacles of them are there and will not. */
static unsigned say_sdks(const struct sp_tree *t, unsigned *obstacles)
{
	struct sp_sdk_found found[FOUND_MAX];
	struct sp_elf f;
	unsigned hooked = 0;

	*obstacles = 0;
	for (unsigned i = 0; i < t->n; i++) {
		size_t n;

		if (is_ours(t->object[i].path) || sp_elf_open(t->object[i].path, &f) != 0)
			continue;
		n = f.readable ? sp_sdk_look(&f, i == 0, found, FOUND_MAX) : 0;
		sp_elf_close(&f);
		for (size_t k = 0; k < n; k++) {
			bool ok = found[k].state == SP_SDK_HOOKED;

			row("SDK", "%s in %s: %s%s", found[k].name, t->object[i].path,
			    ok ? "hooked: " : "not hooked: ", found[k].how);
			hooked += ok;
			*obstacles += !ok;
		}
	}
	return hooked;
}

static enum sp_check say_verdict(const struct sp_target *t, const struct sp_tree *tree)
{
	unsigned obstacles = 0;
	unsigned hooked = say_sdks(tree, &obstacles);

	if (tree->missing != NULL)
		row("missing", "%s (nowhere on the loader's path)", tree->missing);
	if (tree->full)
		row("note", "more than %u objects: the rest was not looked at", SP_TREE_MAX);
	if (hooked != 0) {
		row("verdict", "can be profiled: its spans will be seen");
		return SP_CHECK_HOOKED;
	}
	if (obstacles != 0)
		row("verdict", "will not see spans: its SDK cannot be hooked. "
			       "SPANPROF_PROFILE=always profiles it without spans");
	else if (t->script[0] != '\0')
		row("verdict", "the script's interpreter has no SDK. What the script starts is "
			       "profiled in turn: check that");
	else
		row("verdict", "can be loaded, but none of its libraries is an SDK we know. One "
			       "that it opens later (dlopen) is hooked all the same; "
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

static bool open_object(struct sp_elf *object)
{
	char path[PATH_MAX];
	const char *why;

	if (!sp_object_find(path, &why))
		row("object", "%s: %s", path, why);
	else if (sp_elf_open(path, object) != 0)
		row("object", "%s: not an ELF file", path);
	else {
		row("object", "%s", path);
		return true;
	}
	return false;
}

static enum sp_check check_tree(const struct sp_target *t, const struct sp_tree *tree)
{
	struct sp_elf object;
	bool have_object;
	enum sp_check result;

	say_target(t);
	have_object = open_object(&object);
	result = check(t, have_object ? &object : NULL, tree);
	if (have_object) {
		sp_elf_close(&object);
		return result;
	}
	row("verdict", "cannot be profiled: there is no object to load");
	return SP_CHECK_BLOCKED;
}

enum sp_check sp_check_program(const char *path)
{
	static struct sp_target t;
	static struct sp_tree tree;
	enum sp_check result;

	sp_target_read(path, &t);
	if (t.error == 0 && t.readable && !t.is_static)
		(void)sp_tree_of_program(t.path, &tree);
	result = check_tree(&t, &tree);
	sp_tree_free(&tree);
	return result;
}

int sp_check_process(pid_t pid)
{
	static struct sp_target t;
	static struct sp_tree tree;
	char exe[64];
	int result;

	(void)snprintf(exe, sizeof(exe), "/proc/%d/exe", (int)pid);
	if (!sp_tree_of_process(pid, &tree)) {
		result = errno;
		sp_tree_free(&tree);
		return result != 0 ? -result : -EACCES;
	}
	sp_target_read(exe, &t);
	/* It runs, so its loader is there, wherever that is. */
	t.no_interp = false;
	result = (int)check_tree(&t, &tree);
	sp_tree_free(&tree);
	return result;
}
