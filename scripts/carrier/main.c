/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in the carrier for each of our programs that needs libraries: starts the program of its own
 * name out of the folder "bundle", by the loader and with the C library that are there, which no image
 * has to have. A loader is named in a program by an absolute path, and the carrier is copied to any
 * place; therefore this, which is static. Keeps arguments, environment and descriptors.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* As seen from where the exporter lies, and from where the tools do. */
static const char *const places[] = {"bundle", "../lib/spanprof/bundle"};

/* ld.so --argv0 NAME PROGRAM */
#define MORE_ARGUMENTS 3

static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

static void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)vfprintf(stderr, fmt, args);
	va_end(args);
	(void)fputc('\n', stderr);
	exit(127);
}

/* Where we lie: by /proc, or without one by what the kernel was asked to execute, which may be a link. */
static void own_path(char out[PATH_MAX])
{
	ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
	/* The kernel gives the address as a number. */
	const char *asked = (const char *)getauxval(AT_EXECFN);

	if (len > 0 && out[0] == '/')
		out[len] = '\0';
	else if (asked == NULL || realpath(asked, out) == NULL)
		out[0] = '\0';
	if (strchr(out, '/') == NULL)
		die("spanprof: cannot tell where this program lies");
}

int main(int argc, char **argv)
{
	char own[PATH_MAX];
	char loader[2 * PATH_MAX];
	char program[2 * PATH_MAX];
	char **arguments = calloc((size_t)argc + MORE_ARGUMENTS + 2, sizeof(*arguments));
	const char *name;

	own_path(own);
	name = strrchr(own, '/') + 1;
	if (arguments == NULL)
		die("%s: out of memory", name);
	arguments[0] = loader;
	arguments[1] = (char[]){"--argv0"};
	arguments[2] = argc > 0 ? argv[0] : own;
	arguments[3] = program;
	for (int i = 1; i < argc; i++)
		arguments[MORE_ARGUMENTS + i] = argv[i];
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int folder = (int)(name - own);

		(void)snprintf(loader, sizeof(loader), "%.*s%s/ld.so", folder, own, places[i]);
		(void)snprintf(program, sizeof(program), "%.*s%s/%s", folder, own, places[i], name);
		(void)execv(loader, arguments);
		if (errno != ENOENT)
			break;
	}
	die("%s: %s: %s", name, loader, strerror(errno));
}
