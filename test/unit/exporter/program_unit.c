/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "program_unit.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/exporter/family.h"
#include "export/util/clock.h"

struct program_unit program;

void program_set_up(const char *status_name)
{
	strcpy(program.dir, "/tmp/spanprof-test-XXXXXX");
	cr_assert_not_null(mkdtemp(program.dir));
	(void)snprintf(program.status_file, sizeof(program.status_file), "%s/%s", program.dir,
		       status_name);
	program.config = (struct sp_config){
		.sample_rate_hz = 100,
		.upload_interval_ms = 60000,
		.flush_timeout_ms = 5000,
		.push_queue_capacity = 8,
		.push_timeout_ms = 20000,
		.stack_depth = 128,
		.log_level = SP_LOG_WARN,
		.service_name = "shop",
		.output_dir = program.dir,
		.status_file = program.status_file,
	};
	host_make();
}

void program_tear_down(void)
{
	char cmd[128];

	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", program.dir);
	cr_assert_eq(system(cmd), 0);
}

const struct sp_config *program_configure(void)
{
	return &program.config;
}

void program_start(int listener)
{
	const struct rlimit limit = {program.descriptors, program.descriptors};

	program.pid = fork();
	if (program.pid == 0) {
		const struct sp_host_descriptors fds = {
			.region = dup(host.fd), .folder = -1, .maps = -1};

		(void)signal(SIGTERM, SIG_IGN);
		if (program.descriptors != 0 && setrlimit(RLIMIT_NOFILE, &limit) != 0)
			_exit(1);
		_exit(sp_family_serve(&fds, listener, program_configure) == 0 ? 0 : 1);
	}
}

int program_status(void)
{
	int status = -1;

	cr_assert_eq(waitpid(program.pid, &status, 0), program.pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

unsigned program_profiles(const char *pattern)
{
	char path[128];
	unsigned n;
	glob_t g;

	(void)snprintf(path, sizeof(path), "%s/%s", program.dir, pattern);
	n = glob(path, 0, NULL, &g) == 0 ? (unsigned)g.gl_pathc : 0;
	globfree(&g);
	return n;
}

const char *program_file(const char *path)
{
	static char text[32768];
	int fd = open(path, O_RDONLY);
	ssize_t got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd >= 0)
		(void)close(fd);
	text[got > 0 ? got : 0] = '\0';
	return text;
}

void program_flush(struct host_double *of)
{
	struct sp_region *r = of->region;

	r->flush_deadline_ns = sp_clock_mono_ns() + 5 * SP_NS_PER_S;
	atomic_fetch_add(&r->flush_asked, 1);
	atomic_fetch_add(&r->wake, 1);
	sp_view_wake(&r->wake);
}
