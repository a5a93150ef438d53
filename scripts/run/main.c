/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-run: sets the profiler's environment and becomes the program. Static, so that it runs in
 * images without a shell or with another C library. Exit status as env(1): 125 own failure, 126 the
 * program cannot be run, 127 there is no such program.
 *
 * Under the name spanprof-entrypoint it is the ENTRYPOINT of an image: all its arguments are the
 * command, which becomes process 1 and gets the signals. Under this name it prints nothing about
 * static programs: images often have a static init, which cannot be profiled, but the server that
 * the init starts can. Under the name spanprof-preload it is the command in preload.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "sampler/base/compiler.h"
#include "sampler/base/text.h"
#include "sampler/config/config_table.h"
#include "scripts/run/run.h"
#include "scripts/run/target.h"

/*
 * All lines that spanprof-run prints pass through here: names of files and texts of environments
 * and servers could otherwise control the reader's terminal.
 */
static void put(FILE *out, char *text, size_t len)
{
	sp_text_printable(text, len);
	(void)fwrite(text, 1, len, out);
	(void)putc('\n', out);
}

void sp_line(FILE *out, const char *fmt, ...)
{
	char text[SP_LINE_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	put(out, text, sp_text_boundary(text, strlen(text)));
}

const char *sp_tool = "spanprof-run";

void sp_complain(const char *fmt, ...)
{
	char text[SP_LINE_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	sp_line(stderr, "%s: %s", sp_tool, text);
}

void sp_line_copy(FILE *in, FILE *out, size_t max)
{
	char text[SP_LINE_MAX];
	size_t len = 0;
	int c;

	while (max-- != 0 && (c = getc(in)) != EOF) {
		if (c != '\n')
			text[len++] = (char)c;
		if (c == '\n' || len == sizeof(text)) {
			put(out, text, len);
			len = 0;
		}
	}
	if (len != 0)
		put(out, text, len);
}

#define PRINTABLE_MAX ((size_t)64 << 20)

enum { FAILED = 125, NOT_RUNNABLE = 126, NOT_FOUND = 127 };

enum {
	OPT_ALLOC = 256,
	OPT_CHECK,
	OPT_PRINTABLE,
	OPT_WATCHED,
	OPT_HELP_ENV,
	OPT_VERSION,
	OPT_VERSION_OF,
	OPT_PID,
	OPT_HELP
};

static const char usage[] =
	"Usage: spanprof-run [OPTION]... [--] COMMAND [ARGUMENT]...\n"
	"       spanprof-run --check [--] COMMAND | --check --pid PID\n"
	"Runs COMMAND with libspanprof.so preloaded. A process that runs already cannot be "
	"attached\n"
	"to: start it again with this program, or with the variables set where it is started.\n"
	"\n"
	"  --service NAME   service name of the profiles; use the service.name of the spans\n"
	"  --server URL     push profiles to this server\n"
	"  --output DIR     write profiles into this folder\n"
	"  --label K=V      add a series label; may be repeated\n"
	"  --rate HZ        samples per second of CPU time\n"
	"  --alloc          profile allocations, too (libspanprof-alloc.so)\n"
	"  --check          run nothing, say whether COMMAND can be profiled. Exit status: 0 its\n"
	"                   spans can be seen, 1 it has no SDK that can be hooked, 2 it cannot\n"
	"                   be profiled\n"
	"  --pid PID        with --check: examine a running process\n"
	"  --help-env       print the environment variables of the profiler\n"
	"  --version, --help\n"
	"\n"
	"Exit status: that of COMMAND; 125 spanprof-run failed or was used wrongly, 126 COMMAND\n"
	"cannot be run, 127 there is no such command.\n";

static const char preload[] = "spanprof-preload";
static const char entrypoint[] = "spanprof-entrypoint";
static const char entrypoint_usage[] =
	"Usage: spanprof-entrypoint COMMAND [ARGUMENT]...\n"
	"Runs COMMAND with libspanprof.so preloaded. Meant as ENTRYPOINT of an image.\n"
	"\n"
	"  --version, --help\n"
	"\n"
	"SPANPROF_DEBUG=true logs each decision. Exit status: that of COMMAND; 125 no command was\n"
	"given, 126 COMMAND cannot be run, 127 there is no such command.\n";

static const char no_attach[] =
	"cannot attach to a running process: the loader reads LD_PRELOAD only when a program "
	"starts. "
	"Start it again: spanprof-run -- COMMAND (man spanprof, STARTING, has systemd, Kubernetes "
	"and compose). --check --pid %d examines it";

/* Whether each decision is printed. */
static bool debugs(void)
{
	const char *wish = getenv("SPANPROF_DEBUG");

	return wish != NULL && (strcasecmp(wish, "true") == 0 || strcmp(wish, "1") == 0);
}

static __attribute__((noreturn)) void out_of_memory(void)
{
	sp_complain("out of memory");
	exit(FAILED);
}

static void set(const char *name, const char *value)
{
	if (setenv(name, value, 1) != 0)
		out_of_memory();
}

static void print_row(const struct sp_config_help *h, void *arg)
{
	(void)arg;
	printf("%s%s%s\n    %s Type: %s. Default: %s.\n", h->name,
	       h->aliases[0] != '\0' ? ", or " : "", h->aliases, h->help, h->type, h->fallback);
}

/* The exporter needs an absolute path; a user may type a relative one. */
static void set_output(const char *dir)
{
	char cwd[PATH_MAX];
	char *path = NULL;

	if (dir[0] == '/') {
		set("SPANPROF_OUTPUT_DIR", dir);
		return;
	}
	if (getcwd(cwd, sizeof(cwd)) == NULL) {
		sp_complain("--output %s: cannot find the current folder: %s", dir,
			    strerror(errno));
		exit(FAILED);
	}
	if (asprintf(&path, "%s/%s", cwd, dir) < 0)
		out_of_memory();
	set("SPANPROF_OUTPUT_DIR", path);
	free(path);
}

/* Adds a label to SPANPROF_LABELS; a new value alone would hide the labels of the environment. */
static void add_label(const char *pair)
{
	const char *have = getenv("SPANPROF_LABELS");
	char *all = NULL;

	if (strchr(pair, '=') == NULL || pair[0] == '=' || strchr(pair, ',') != NULL) {
		sp_complain("--label %s: not of the form k=v", pair);
		exit(FAILED);
	}
	if (have == NULL || have[0] == '\0')
		have = getenv("PYROSCOPE_LABELS");
	if (have == NULL || have[0] == '\0') {
		set("SPANPROF_LABELS", pair);
		return;
	}
	if (asprintf(&all, "%s,%s", have, pair) < 0)
		out_of_memory();
	set("SPANPROF_LABELS", all);
	free(all);
}

static void set_rate(const char *hz)
{
	char *end;
	long n = strtol(hz, &end, 10);

	if (*hz == '\0' || *end != '\0' || n < 1 || n > 1000) {
		sp_complain("--rate %s: not a number from 1 to 1000", hz);
		exit(FAILED);
	}
	set("SPANPROF_SAMPLE_RATE", hz);
}

struct choice {
	bool check;
	pid_t pid;          /* 0 = none */
	const char *folder; /* NULL = it becomes the command */
};

static void take_pid(struct choice *choice, const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end != '\0' || n < 1 || n > INT_MAX) {
		sp_complain("--pid %s: not a process id", text);
		exit(FAILED);
	}
	choice->pid = (pid_t)n;
}

static void finish(const char *text)
{
	fputs(text, stdout);
	exit(fflush(stdout) == 0 ? 0 : FAILED);
}

static void take_option(int option, const char *value, struct choice *choice)
{
	switch (option) {
	case 's':
		set("SPANPROF_APPLICATION_NAME", value);
		break;
	case 'u':
		set("SPANPROF_SERVER_ADDRESS", value);
		break;
	case 'o':
		set_output(value);
		break;
	case 'l':
		add_label(value);
		break;
	case 'r':
		set_rate(value);
		break;
	case OPT_ALLOC:
		set("SPANPROF_ALLOC", "true");
		break;
	case OPT_CHECK:
		choice->check = true;
		break;
	case OPT_PRINTABLE:
		sp_line_copy(stdin, stdout, PRINTABLE_MAX);
		finish("");
		break;
	case OPT_WATCHED:
		choice->folder = value;
		break;
	case OPT_PID:
		take_pid(choice, value);
		break;
	case OPT_HELP_ENV:
		sp_config_each(print_row, NULL);
		finish("");
		break;
	case OPT_VERSION:
		finish("spanprof-run " SP_VERSION "\n");
		break;
	case OPT_VERSION_OF:
		printf("%s " SP_VERSION "\n", value);
		finish("");
		break;
	case OPT_HELP:
		finish(usage);
		break;
	default: /* getopt() has printed the fault */
		exit(FAILED);
	}
}

static void take_options(int argc, char **argv, struct choice *choice)
{
	static const struct option options[] = {
		{"service", required_argument, NULL, 's'},
		{"server", required_argument, NULL, 'u'},
		{"output", required_argument, NULL, 'o'},
		{"label", required_argument, NULL, 'l'},
		{"rate", required_argument, NULL, 'r'},
		{"alloc", no_argument, NULL, OPT_ALLOC},
		{"check", no_argument, NULL, OPT_CHECK},
		/* For spanprof-doctor, which has no other tool that runs everywhere. */
		{"printable", no_argument, NULL, OPT_PRINTABLE},
		{"watched", required_argument, NULL, OPT_WATCHED},
		{"pid", required_argument, NULL, OPT_PID},
		{"help-env", no_argument, NULL, OPT_HELP_ENV},
		{"version", no_argument, NULL, OPT_VERSION},
		/* For our scripts: only the program knows the version. */
		{"version-of", required_argument, NULL, OPT_VERSION_OF},
		{"help", no_argument, NULL, OPT_HELP},
		{NULL, 0, NULL, 0},
	};
	int option;

	/* The plus: options after the command belong to the command. */
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1)
		take_option(option, optarg, choice);
}

/*
 * Adds the object with the allocator's hooks, which lies beside our object, to the list; both
 * orders work.
 */
static char *chain_alloc(const char *so, const char *list)
{
	char alloc[PATH_MAX + sizeof(SP_OBJECT_ALLOC_NAME)];

	(void)snprintf(alloc, sizeof(alloc), "%.*s" SP_OBJECT_ALLOC_NAME,
		       (int)(strrchr(so, '/') + 1 - so), so);
	if (access(alloc, R_OK) == 0)
		return sp_object_chain(alloc, list);
	sp_complain("%s: %s; running without a profile of allocations", alloc, strerror(errno));
	return strdup(list != NULL ? list : "");
}

/*
 * Sets LD_PRELOAD. If the program cannot be profiled it runs without the profiler, and one line
 * says why.
 */
static void preload_for(const char *path)
{
	static struct sp_target t;
	struct sp_elf object;
	char so[PATH_MAX];
	char buf[SP_ELF_INTERP_MAX + 128];
	bool tells = sp_tool != entrypoint || debugs();
	const char *why;
	char *list;
	char *with_alloc = NULL;

	sp_target_read(path, &t);
	if (!sp_object_find(so, &why)) {
		sp_complain("%s: %s; running %s without the profiler", so, why, path);
		return;
	}
	if (sp_elf_open(so, &object) != 0) {
		sp_complain("%s: not an ELF file; running %s without the profiler", so, path);
		return;
	}
	why = sp_target_obstacle(&t, &object, buf, sizeof(buf));
	sp_elf_close(&object);
	if (why != NULL) {
		sp_complain("%s: %s; running it without the profiler", t.path, why);
		return;
	}
	/* These programs may start others that can be profiled. */
	if (t.error == 0 && t.is_static && tells)
		sp_complain(
			"%s is statically linked and cannot be profiled; programs that it starts "
			"can",
			t.path);
	else if (t.secure != NULL && tells)
		sp_complain("%s cannot be profiled: %s", t.path, t.secure);
	list = getenv("LD_PRELOAD");
	if (sp_config_says(SP_VAR_ALLOC, "true"))
		list = with_alloc = chain_alloc(so, list);
	list = sp_object_chain(so, list);
	free(with_alloc);
	if (list == NULL)
		out_of_memory();
	if (debugs())
		sp_complain("running %s with LD_PRELOAD=%s", t.path, list);
	set("LD_PRELOAD", list);
	free(list);
}

static int cannot_run(const char *name, int err)
{
	sp_complain("%s: %s", name, strerror(err));
	return err == ENOENT ? NOT_FOUND : NOT_RUNNABLE;
}

static bool is_elf(const char *path)
{
	struct sp_elf f;

	if (sp_elf_open(path, &f) != 0)
		return false;
	sp_elf_close(&f);
	return true;
}

/* Becomes the command. */
static int run(char **command)
{
	char path[PATH_MAX];
	int err = sp_target_find(command[0], path);

	if (err != 0)
		return cannot_run(command[0], -err);
	sp_config_capture(environ);
	if (!sp_config_disabled())
		preload_for(path);
	else if (debugs())
		sp_complain("profiling is switched off");
	(void)execv(path, command);
	/* Like a shell: runs a script without a first line. */
	if (errno == ENOEXEC && !is_elf(path))
		(void)execvp(command[0], command);
	return cannot_run(command[0], errno);
}

static int watch(const char *folder, char **command)
{
	int err = sp_watch(folder, command, run);

	if (err == 0)
		return 0;
	sp_complain("%s: %s", command[0], strerror(-err));
	return FAILED;
}

static int be_entrypoint(char **command)
{
	sp_tool = entrypoint;
	if (command[0] != NULL && strcmp(command[0], "--help") == 0)
		finish(entrypoint_usage);
	if (command[0] != NULL && strcmp(command[0], "--version") == 0)
		finish("spanprof-entrypoint " SP_VERSION "\n");
	command += command[0] != NULL && strcmp(command[0], "--") == 0;
	if (command[0] != NULL)
		return run(command);
	fputs(entrypoint_usage, stderr);
	return FAILED;
}

int main(int argc, char **argv)
{
	struct choice choice = {.check = false};
	char path[PATH_MAX];
	int err;

	if (argc > 0 && strcmp(program_invocation_short_name, entrypoint) == 0)
		return be_entrypoint(argv + 1);
	if (argc > 0 && strcmp(program_invocation_short_name, preload) == 0) {
		sp_tool = preload;
		return sp_preload(argc - 1, argv + 1);
	}
	take_options(argc, argv, &choice);
	if (choice.check && choice.pid != 0 && optind == argc)
		return sp_check_process(choice.pid);
	if (choice.pid != 0 && !choice.check) {
		sp_complain(no_attach, (int)choice.pid);
		return FAILED;
	}
	if (optind >= argc || choice.pid != 0) {
		fputs(usage, stderr);
		return FAILED;
	}
	if (choice.folder != NULL)
		return watch(choice.folder, argv + optind);
	if (!choice.check)
		return run(argv + optind);
	err = sp_target_find(argv[optind], path);
	return err == 0 ? (int)sp_check_program(path) : cannot_run(argv[optind], -err);
}
