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
#include <unistd.h>

#include "sampler/compiler.h"
#include "sampler/config.h"
#include "scripts/probe/probe.h"

#define FAILED 125
#define ENVIRON_MAX ((size_t)4 << 20)
#define VARIABLES_MAX 16384U

static const char usage[] = "Usage: spanprof-probe [--pid PID] [--program PATH] [--push]\n"
			    "       spanprof-probe --status FILE\n";

/* What the process was started with, which is what our constructor saw. NULL = cannot be read. */
static char **environ_of(const char *pid)
{
	static char *variable[VARIABLES_MAX + 1];
	char path[64];
	char *data = malloc(ENVIRON_MAX + 1);
	size_t len = 0;
	size_t n = 0;
	ssize_t got = -1;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && data != NULL && len < ENVIRON_MAX &&
	       (got = read(fd, data + len, ENVIRON_MAX - len)) > 0)
		len += (size_t)got;
	if (fd >= 0)
		(void)close(fd);
	if (data == NULL || got < 0) {
		free(data);
		return NULL;
	}
	data[len] = '\0';
	/* Kept until the end: the list points into it. */
	for (size_t at = 0; at < len && n < VARIABLES_MAX; at += strlen(data + at) + 1)
		variable[n++] = data + at;
	return variable;
}

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

/* Whoever reads this may not be meant to know the password in the address. */
static void say_address(const char *address)
{
	const char *host = strstr(address, "://");
	const char *at;
	char shown[512];

	host = host != NULL ? host + 3 : address;
	at = strrchr(host, '@');
	(void)snprintf(shown, sizeof(shown), "%.*s%s", (int)(at != NULL ? host - address : 0),
		       address, at != NULL ? at + 1 : address);
	sp_probe_say("server", shown);
}

static void say_config(const struct sp_config *cfg)
{
	char number[16];

	sp_probe_say("disabled", cfg->disabled ? "yes" : "no");
	sp_probe_say("when", cfg->profile == SP_PROFILE_ALWAYS ? "always" : "on-span");
	sp_probe_say("service", cfg->service_name);
	(void)snprintf(number, sizeof(number), "%d", cfg->signal_number);
	sp_probe_say("signal", cfg->signal_number != 0 ? number : "auto");
	(void)snprintf(number, sizeof(number), "%u", cfg->upload_interval_ms);
	sp_probe_say("interval_ms", number);
	if (cfg->output_dir != NULL)
		sp_probe_say("output", cfg->output_dir);
	if (cfg->server_address != NULL)
		say_address(cfg->server_address);
}

struct wish {
	const char *pid; /* NULL = our own environment */
	const char *program;
	const char *status;
	bool push;
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

static int probe(const struct wish *wish)
{
	char **variables = wish->pid != NULL ? environ_of(wish->pid) : environ;
	struct sp_config cfg;

	if (variables == NULL) {
		fprintf(stderr, "spanprof-probe: the environment of %s cannot be read\n",
			wish->pid);
		return FAILED;
	}
	sp_config_capture(variables);
	sp_config_parse(&cfg);
	cfg.disabled = sp_config_disabled();
	if (wish->program != NULL)
		fix_service(&cfg, wish->program);
	say_config(&cfg);
	if (wish->push && cfg.server_address != NULL)
		sp_probe_push(&cfg);
	return fflush(stdout) == 0 ? 0 : FAILED;
}

int main(int argc SP_UNUSED, char **argv)
{
	struct wish wish = {.push = false};

	if (!take_arguments(argv, &wish)) {
		fputs(usage, stderr);
		return FAILED;
	}
	if (wish.status != NULL)
		return sp_probe_status(wish.status) ? 0 : FAILED;
	return probe(&wish);
}
