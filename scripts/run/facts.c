/* SPDX-License-Identifier: Apache-2.0 */
/* Facts for spanprof-doctor, and sentences about our files: spanprof-run --facts. */
#define _GNU_SOURCE
#include "scripts/run/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "scripts/run/check.h"
#include "scripts/run/exporter.h"
#include "scripts/run/line.h"
#include "scripts/run/object.h"
#include "scripts/run/process.h"
#include "scripts/run/target.h"

#define MAPS_LINE (PATH_MAX + 256)
#define MAPPINGS_MAX 1000000U

static void say(const char *key, const char *value)
{
	sp_line(stdout, "%s %s", key, value);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/* The first folder of the path that we may not pass, or the file itself. */
static void barrier(const char *path, char out[PATH_MAX])
{
	for (size_t i = 1; path[i] != '\0' && i < PATH_MAX - 1; i++) {
		if (path[i] != '/')
			continue;
		memcpy(out, path, i);
		out[i] = '\0';
		if (faccessat(AT_FDCWD, out, X_OK, AT_EACCESS) != 0)
			return;
	}
	(void)snprintf(out, PATH_MAX, "%s", path);
}

static void say_other_machine(const char *what, const char *path, const struct sp_elf *f,
			      const struct sp_target *t)
{
	char ours[24];
	char theirs[24];
	const char *wanted = sp_target_machine(t->machine, theirs);

	sp_line_say(what, "wrong", "the %s %s is built for %s%s, the program for %s", what, path,
		    sp_target_machine(f->machine, ours),
		    f->word_size == ELFCLASS32 ? " (32 bits)" : "", wanted);
	sp_line_say(what, "change", "use the objects that are built for %s", wanted);
}

static void say_no_way(const char *what, const char *path, int err)
{
	char place[PATH_MAX];

	if (err == -ENOEXEC) {
		sp_line_say(what, "wrong", "the %s %s is not an ELF file", what, path);
		sp_line_say(what, "change", "install it again");
	} else if (err == -ENOENT || err == -ENOTDIR || err == -ELOOP) {
		sp_line_say(what, "wrong",
			    "the %s is missing: there is no %s where the program runs", what, path);
		sp_line_say(
			what, "change", "%s",
			strcmp(what, "exporter") != 0
				? "correct the path in LD_PRELOAD; for a container, put object and "
				  "exporter into its image or a volume"
				: "put object and exporter into one folder, or name the "
				  "exporter in " SP_EXPORTER_VARIABLE);
	} else {
		barrier(path, place);
		sp_line_say(what, "wrong",
			    "the %s %s cannot be read by the program's user (uid %u): %s does "
			    "not allow it",
			    what, path, (unsigned)geteuid(), place);
		sp_line_say(what, "change", "give every user the right to read it: chmod a+rX %s",
			    place);
	}
}

static void say_noexec(const char *what, const char *path)
{
	bool exporter = strcmp(what, "exporter") == 0;

	sp_line_say(what, "wrong", "the %s %s lies on a file system that is mounted noexec, so %s",
		    what, path, exporter ? "it cannot be started" : "it cannot be loaded");
	sp_line_say(what, "change", "put it on a file system without noexec%s",
		    exporter ? ", or name a copy elsewhere in " SP_EXPORTER_VARIABLE : "");
}

/*
 * What keeps a loader from taking that file into a program like t, NULL = any that we are built for; and
 * the exporter, which is a program, from being started there.
 */
static void say_file(const char *what, const char *path, const struct sp_target *t)
{
	struct statvfs mount;
	struct sp_elf f;
	int err = sp_elf_open(path, &f);

	if (err != 0) {
		say_no_way(what, path, err);
		return;
	}
	if (t != NULL && t->error == 0 &&
	    (t->machine != f.machine || t->word_size != f.word_size)) {
		say_other_machine(what, path, &f, t);
	} else if (statvfs(path, &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0) {
		say_noexec(what, path);
	} else if (strcmp(what, "exporter") == 0 &&
		   faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) != 0) {
		sp_line_say(what, "wrong", "the %s %s may not be executed by the program's user",
			    what, path);
		sp_line_say(what, "change", "chmod a+x %s", path);
	}
	sp_elf_close(&f);
}

/* Of the mappings of each of our files whether one may be executed: a loader that was not allowed to
 * map the code of a file leaves the rest of it behind. */
static void say_mapped(const struct sp_process *p, char object[PATH_MAX])
{
	static char line[MAPS_LINE];
	int fd = dup(p->maps);
	FILE *maps = fd >= 0 ? fdopen(fd, "r") : NULL;
	bool partly = false;

	object[0] = '\0';
	for (unsigned n = 0; maps != NULL && n < MAPPINGS_MAX && fgets(line, sizeof(line), maps);
	     n++) {
		char *path = strchr(line, '/');
		const char *rights = strchr(line, ' ');
		bool code = rights != NULL && strlen(rights) > 3 && rights[3] == 'x';

		if (path == NULL)
			continue;
		path[strcspn(path, "\n")] = '\0';
		if (strcmp(base_name(path), SP_OBJECT_NAME) != 0)
			continue;
		partly = partly || !code;
		if (code)
			(void)snprintf(object, PATH_MAX, "%s", path);
	}
	if (maps != NULL)
		(void)fclose(maps);
	if (object[0] != '\0')
		say("loaded", object);
	else if (partly)
		say("loaded.partly", "yes");
}

/* The entry of LD_PRELOAD that names us. False: there is none. */
static bool entry_of(const char *list, char out[PATH_MAX])
{
	for (size_t len; list != NULL && *list != '\0'; list += len) {
		list += strspn(list, ": ");
		len = strcspn(list, ": ");
		(void)snprintf(out, PATH_MAX, "%.*s", (int)(len < PATH_MAX ? len : PATH_MAX - 1),
			       list);
		if (strcmp(base_name(out), SP_OBJECT_NAME) == 0)
			return true;
	}
	return false;
}

/* As getenv(): the first one counts. */
static const char *variable(char *const *environment, const char *name)
{
	size_t len = strlen(name);

	for (; *environment != NULL; environment++)
		if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=')
			return *environment + len + 1;
	return NULL;
}

/* None of these holds a secret. */
static void say_variables(char *const *environment)
{
	static const char *const names[] = {
		"LD_PRELOAD",          "OTEL_SERVICE_NAME",       "OTEL_RESOURCE_ATTRIBUTES",
		"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = variable(environment, names[i]);

		if (value != NULL)
			sp_line(stdout, "env.%s %s", names[i], value);
	}
}

/* Beside the object, or where the variable says. */
static void say_exporter(const char *object, const struct sp_process *p, const struct sp_target *t)
{
	char path[PATH_MAX + sizeof(SP_EXPORTER_NAME)];
	const char *named = variable(p->environment, SP_EXPORTER_VARIABLE);

	if (named != NULL && named[0] == '/')
		(void)snprintf(path, sizeof(path), "%s", named);
	else
		(void)snprintf(path, sizeof(path), "%.*s" SP_EXPORTER_NAME,
			       (int)(base_name(object) - object), object);
	say_file("exporter", path, t);
}

/* Whatever of ours the process should have: where it is, and what is wrong with it. */
static void say_files(const struct sp_process *p, const struct sp_target *t)
{
	char object[PATH_MAX];

	say_mapped(p, object);
	if (object[0] != '\0')
		say_exporter(object, p, t);
	/* Anything else is searched for by the loader, or its own words in it replaced. */
	else if (entry_of(variable(p->environment, "LD_PRELOAD"), object) && object[0] == '/' &&
		 strchr(object, '$') == NULL)
		say_file("object", object, t);
}

int sp_facts_of_process(pid_t pid)
{
	static struct sp_process p;
	static struct sp_target t;
	const char *why = NULL;
	enum sp_exporter_of exporter;
	bool entered;
	int err = sp_process_open(pid, &p);

	if (err != 0)
		return err;
	exporter = sp_exporter_of(&p);
	entered = sp_process_enter(&p, &why);
	if (!entered && !p.secure) {
		sp_line(stderr, "spanprof-run: process %d: %s", (int)pid, why);
		sp_process_close(&p);
		return SP_CHECK_FAILED;
	}
	sp_target_of_process(&p, &t);
	say("program", p.path);
	say_variables(p.environment);
	if (p.cut)
		say("environment.cut", "yes");
	if (exporter != SP_EXPORTER_OF_NONE)
		say("active", exporter == SP_EXPORTER_OF_FOUND ? "yes" : "ended");
	if (entered)
		say_files(&p, &t);
	sp_process_close(&p);
	return 0;
}

int sp_facts_of_object(void)
{
	char path[PATH_MAX];
	const char *why;

	say_variables(environ);
	if (sp_object_find(path, &why))
		say_file("object", path, NULL);
	return 0;
}
