/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-report: reads the profiles of a folder or the files named and says where the CPU time
 * of which span went. Context: a program of its own, no host around it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "export/report/load.h"
#include "export/report/print.h"
#include "export/report/status.h"
#include "export/report/tally.h"
#include "sampler/compiler.h"

/* Exit status, also in the help. */
#define SP_EXIT_USAGE 1
#define SP_EXIT_DAMAGED 2

struct options {
	struct sp_filter filter;
	size_t top;
	bool top_given;
	bool json;
};

struct report {
	struct sp_tally tally;
	size_t files;
};

static const char help[] =
	"usage: spanprof-report [options] FOLDER|FILE...\n"
	"       spanprof-report --status FILE\n"
	"\n"
	"Sums the CPU time of pprof profiles per span. A folder stands for its *.pb.gz,\n"
	"*.pb and *.pprof files.\n"
	"\n"
	"  --top N          print N functions (default 20; with --json: all)\n"
	"  --span ID        only samples of the span with this id (16 hex digits)\n"
	"  --span-name NAME only samples of spans with this name\n"
	"  --trace ID       only samples of the trace with this id (32 hex digits)\n"
	"  --json           print JSON: profiles, total, labelled, span_names, spans, functions\n"
	"  --status FILE    say in words what a file of SPANPROF_STATUS_FILE tells\n"
	"  --help           print this text\n"
	"  --version        print the version\n"
	"\n"
	"Exit status: 0 done, 1 wrong usage or nothing to read, 2 a file could not be read.\n";

static int add_file(struct report *r, const char *path)
{
	const struct sp_report_sink sink = {sp_tally_add, &r->tally};
	char why[SP_REPORT_ERROR] = "";

	if (sp_report_load(path, &sink, why) != 0) {
		(void)fprintf(stderr, "spanprof-report: %s: %s\n", path, why);
		return SP_EXIT_DAMAGED;
	}
	if (r->tally.nomem) {
		(void)fprintf(stderr, "spanprof-report: out of memory\n");
		return SP_EXIT_DAMAGED;
	}
	r->files++;
	return 0;
}

static bool is_profile(const char *path)
{
	static const char *const suffix[] = {".pb.gz", ".pb", ".pprof"};
	size_t len = strlen(path);

	for (size_t i = 0; i < sizeof(suffix) / sizeof(suffix[0]); i++) {
		size_t n = strlen(suffix[i]);

		if (len > n && strcmp(path + len - n, suffix[i]) == 0)
			return true;
	}
	return false;
}

static int add_folder(struct report *r, const char *path)
{
	char *pattern = malloc(strlen(path) * 2 + 3);
	char *at = pattern;
	glob_t g = {0};
	int err = 0;

	if (pattern == NULL)
		return SP_EXIT_DAMAGED;
	/* The folder's own name is no pattern. */
	for (const char *s = path; *s != '\0'; s++) {
		if (strchr("*?[]\\", *s) != NULL)
			*at++ = '\\';
		*at++ = *s;
	}
	*at++ = '/';
	*at++ = '*';
	*at = '\0';
	if (glob(pattern, 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc && err == 0; i++)
			if (is_profile(g.gl_pathv[i]))
				err = add_file(r, g.gl_pathv[i]);
	globfree(&g);
	free(pattern);
	return err;
}

static int add_path(struct report *r, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0) {
		(void)fprintf(stderr, "spanprof-report: %s: %s\n", path, strerror(errno));
		return SP_EXIT_DAMAGED;
	}
	return S_ISDIR(st.st_mode) ? add_folder(r, path) : add_file(r, path);
}

static bool parse_top(const char *arg, size_t *top)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(arg, &end, 10);
	*top = n;
	return errno == 0 && *end == '\0' && arg[0] >= '0' && arg[0] <= '9' && n != 0;
}

static int explain(const char *path)
{
	char why[160];

	if (sp_report_status(stdout, path, time(NULL), why) == 0 && fflush(stdout) == 0)
		return 0;
	(void)fprintf(stderr, "spanprof-report: %s: %s\n", path, why);
	return SP_EXIT_DAMAGED;
}

/* -1 = go on, else the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option options[] = {
		{"top", required_argument, NULL, 't'},
		{"span", required_argument, NULL, 's'},
		{"span-name", required_argument, NULL, 'n'},
		{"trace", required_argument, NULL, 'r'},
		{"json", no_argument, NULL, 'j'},
		{"status", required_argument, NULL, 'S'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 't':
			if (!parse_top(optarg, &o->top)) {
				(void)fprintf(stderr, "spanprof-report: --top needs a number\n");
				return SP_EXIT_USAGE;
			}
			o->top_given = true;
			break;
		case 's':
			o->filter.span_id = optarg;
			break;
		case 'n':
			o->filter.span_name = optarg;
			break;
		case 'r':
			o->filter.trace_id = optarg;
			break;
		case 'j':
			o->json = true;
			break;
		case 'S':
			return explain(optarg);
		case 'h':
			(void)fputs(help, stdout);
			return 0;
		case 'v':
			(void)puts("spanprof-report " SP_VERSION);
			return 0;
		default:
			(void)fputs("Try \"spanprof-report --help\".\n", stderr);
			return SP_EXIT_USAGE;
		}
	}
	if (optind < argc)
		return -1;
	(void)fputs("spanprof-report: name a folder or a file; --help says more\n", stderr);
	return SP_EXIT_USAGE;
}

static int print(struct report *r, const struct options *o)
{
	int err = 0;

	if (r->files == 0) {
		(void)fprintf(stderr, "spanprof-report: no profiles found\n");
		return SP_EXIT_USAGE;
	}
	sp_tally_sort(&r->tally);
	if (o->json)
		err = sp_report_print_json(stdout, &r->tally, r->files, o->top_given ? o->top : 0);
	else
		sp_report_print_table(stdout, &r->tally, r->files, o->top);
	if (err != 0 || fflush(stdout) != 0) {
		(void)fprintf(stderr, "spanprof-report: cannot write the report\n");
		return SP_EXIT_DAMAGED;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = {.top = 20};
	struct report r = {.files = 0};
	int err = parse_options(argc, argv, &o);

	if (err >= 0)
		return err;
	err = sp_tally_init(&r.tally, &o.filter) != 0 ? SP_EXIT_DAMAGED : 0;
	for (int i = optind; i < argc && err == 0; i++)
		err = add_path(&r, argv[i]);
	if (err == 0)
		err = print(&r, &o);
	sp_tally_fini(&r.tally);
	return err;
}
