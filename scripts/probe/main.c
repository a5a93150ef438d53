/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-probe: the facts behind scripts/spanprof-doctor that need our libraries, one per line as
 * "key value": the configuration a process has, what its server answers to a push without samples,
 * and its status file. Linked with what the exporter is made of, so it can load where that can.
 * Exit status 0, or 125 when it cannot tell.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/push/libcurl.h"
#include "sampler/base/compiler.h"
#include "sampler/config/config.h"
#include "scripts/probe/probe.h"
#include "scripts/run/line.h"
#include "scripts/run/process.h"

#define FAILED 125
static const char usage[] = "Usage: spanprof-probe [--pid PID] [--program PATH] [--push]\n"
			    "       spanprof-probe --status FILE\n"
			    "Prints facts for spanprof-doctor, one per line.\n";

/* What the profiler in the process would call itself: we are another program. */
static void fix_service(struct sp_config *cfg, const char *program)
{
	static char name[PATH_MAX + 32];
	const char *base = strrchr(program, '/');

	if (strncmp(cfg->service_name, "unknown_service", 15) != 0)
		return;
	(void)snprintf(name, sizeof(name), "unknown_service:%s", base != NULL ? base + 1 : program);
	cfg->service_name = name;
}

/* Whether profiles could be put there, by whom we are now. The last folder is made when it is missing. */
static void say_output(const char *folder)
{
	char parent[PATH_MAX];
	struct stat st;
	const char *where = folder;
	int err = stat(folder, &st) == 0 ? 0 : errno;

	sp_probe_say("output", folder);
	if (err == ENOENT) {
		(void)snprintf(parent, sizeof(parent), "%s", folder);
		for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/'; n--)
			parent[n - 1] = '\0';
		*(strrchr(parent, '/') + (strrchr(parent, '/') == parent)) = '\0';
		where = parent;
		err = stat(parent, &st) == 0 ? 0 : errno;
	}
	if (err == 0 && !S_ISDIR(st.st_mode))
		err = ENOTDIR;
	if (err == 0 && faccessat(AT_FDCWD, where, W_OK | X_OK, AT_EACCESS) != 0)
		err = errno;
	if (err == 0) {
		sp_line_say("output", "ok", "profiles can be written into %s", folder);
		return;
	}
	sp_line_say("output", "wrong",
		    "profiles cannot be written into %s by the program's user: %s: %s", folder,
		    where, strerror(err));
	sp_line_say("output", "change",
		    "give that user a folder to write to in SPANPROF_OUTPUT_DIR");
}

static void say_config(const struct sp_config *cfg, bool touch)
{
	char number[16];

	sp_probe_say("disabled", cfg->disabled ? "yes" : "no");
	sp_probe_say("when", cfg->profile == SP_PROFILE_ALWAYS ? "always" : "on-span");
	sp_probe_say("service", cfg->service_name);
	(void)snprintf(number, sizeof(number), "%d", cfg->signal_number);
	sp_probe_say("signal", cfg->signal_number != 0 ? number : "auto");
	(void)snprintf(number, sizeof(number), "%u", cfg->upload_interval_ms);
	sp_probe_say("interval_ms", number);
	if (cfg->output_dir != NULL && touch)
		say_output(cfg->output_dir);
}

struct wish {
	const char *pid; /* NULL = our own environment */
	const char *program;
	const char *status;
	bool push;
	const char *untried; /* why nothing may be sent; NULL = it may */
	bool touch;          /* what the environment names may be opened */
	unsigned inner_pid;  /* the process's number as it knows it */
};

/* Where the value of that option goes; NULL = there is no such option. */
static const char **value_of(struct wish *wish, const char *option)
{
	if (strcmp(option, "--pid") == 0)
		return &wish->pid;
	if (strcmp(option, "--program") == 0)
		return &wish->program;
	return strcmp(option, "--status") == 0 ? &wish->status : NULL;
}

static bool take_arguments(char *const *argv, struct wish *wish)
{
	for (argv++; *argv != NULL; argv++) {
		const char **value = value_of(wish, *argv);

		if (strcmp(*argv, "--push") == 0)
			wish->push = true;
		else if (value == NULL || argv[1] == NULL)
			return false;
		else
			*value = *++argv;
	}
	return true;
}

/* The environment of that process, whose rights are ours from then on. NULL = told why not. */
static char **enter(const char *pid, struct wish *wish)
{
	static struct sp_process p;
	const char *why = "it cannot be looked at";
	int err;

	/* Ours is nobody's business, and would change what libcurl and OpenSSL do. */
	(void)clearenv();
	/* Now: in the process's root a library of that name would be somebody else's code. */
	if (wish->push)
		(void)sp_libcurl_load();
	err = sp_process_open((pid_t)strtol(pid, NULL, 10), &p);
	if (err != 0 || (!sp_process_enter(&p, &why) && !p.secure)) {
		sp_line(stderr, "spanprof-probe: process %s: %s", pid,
			err != 0 ? strerror(-err) : why);
		return NULL;
	}
	wish->inner_pid = p.inner_pid;
	wish->touch = !p.secure;
	if (p.other_network)
		wish->untried =
			"the process has a network of its own; look from inside its container";
	if (p.secure)
		wish->untried = "its environment may be that of somebody with fewer rights";
	return p.environment;
}

static int probe(struct wish *wish)
{
	char **variables = wish->pid != NULL ? enter(wish->pid, wish) : environ;
	struct sp_config cfg;

	if (variables == NULL)
		return FAILED;
	sp_config_capture(variables);
	sp_config_parse(&cfg);
	cfg.disabled = sp_config_disabled();
	if (wish->program != NULL)
		fix_service(&cfg, wish->program);
	say_config(&cfg, wish->touch);
	if (wish->pid != NULL && cfg.status_file == NULL)
		sp_line_say("status", "note",
			    "set SPANPROF_STATUS_FILE to see how many samples were taken and lost");
	else if (wish->pid != NULL && wish->touch)
		sp_probe_status_of(cfg.status_file, wish->inner_pid);
	sp_probe_server(&cfg, wish->push, wish->untried);
	return fflush(stdout) == 0 ? 0 : FAILED;
}

int main(int argc, char **argv)
{
	struct wish wish = {.touch = true};

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("spanprof-probe " SP_VERSION);
		return fflush(stdout) == 0 ? 0 : FAILED;
	}
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(usage, stdout);
		return fflush(stdout) == 0 ? 0 : FAILED;
	}
	if (!take_arguments(argv, &wish)) {
		fputs(usage, stderr);
		return FAILED;
	}
	if (wish.status != NULL)
		return sp_probe_status(wish.status) ? 0 : FAILED;
	return probe(&wish);
}
