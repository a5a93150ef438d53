/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the carrier, this program replaces each of our programs that needs libraries. It starts the
 * program of the same name in the folder "bundle", with the loader and the C library of that
 * folder, so the image needs neither. Without this program the kernel would not find the loader: a
 * program names its loader by an absolute path, and the carrier can be copied to any folder. This
 * program is static, and hands on arguments, environment and descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The folder, relative to the exporter, and relative to the tools. */
static const char *const places[] = {"bundle", "../lib/spanprof/bundle"};

/* ld.so --argv0 NAME PROGRAM */
#define MORE_ARGUMENTS 3
/* Linux 6.3; headers may be older. */
#define EXECUTABLE 0x10U
#define COPY_BYTES ((size_t)1 << 30) /* a call copies no more than 2 GiB */

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

/*
 * The path of this program: from /proc, or without one the path that the kernel was asked to
 * execute, which may be a link. If this program was started from a copy in memory, its first
 * argument has the path.
 */
static void own_path(const char *first, char out[PATH_MAX])
{
	static const char memory[] = "/memfd:";
	ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
	/* The kernel passes the address as a number. */
	const char *asked = (const char *)getauxval(AT_EXECFN);

	out[len > 0 ? len : 0] = '\0';
	if (strncmp(out, memory, sizeof(memory) - 1) == 0) {
		asked = first;
		out[0] = '\0';
	}
	if (out[0] != '/' && (asked == NULL || realpath(asked, out) == NULL))
		out[0] = '\0';
	if (strchr(out, '/') == NULL)
		die("spanprof: cannot find where this program is");
}

/*
 * The host has made sure that no other process of its user may read this process
 * (preload/exporter/exporter_process.c). An execve() would end that, unless the process may not
 * read the file that it executes: a copy in memory. After the execve() root may read the process
 * again. Returns if this is impossible.
 */
static void execute_unreadable(const char *path, char *const *arguments)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = 0}};
	char copy[32];
	int from = open(path, O_RDONLY | O_CLOEXEC);
	int to = from >= 0 ? memfd_create("ld.so", MFD_CLOEXEC | EXECUTABLE) : -1;
	ssize_t rc;

	if (to < 0 && from >= 0 && errno == EINVAL)
		to = memfd_create("ld.so", MFD_CLOEXEC);
	if (to < 0 || fchmod(to, S_IXUSR) != 0)
		return;
	while ((rc = sendfile(to, from, NULL, COPY_BYTES)) > 0)
		;
	if (rc != 0)
		return;
	if (syscall(SYS_capget, &head, data) == 0) {
		data[0].effective &=
			~(UINT32_C(1) << CAP_DAC_OVERRIDE) & ~(UINT32_C(1) << CAP_DAC_READ_SEARCH);
		(void)syscall(SYS_capset, &head, data);
	}
	(void)snprintf(copy, sizeof(copy), "/proc/self/fd/%d", to);
	(void)execv(copy, arguments);
	/* With "There is no such file" the caller would try another folder. */
	errno = EACCES;
}

int main(int argc, char **argv)
{
	char own[PATH_MAX];
	char loader[2 * PATH_MAX];
	char program[2 * PATH_MAX];
	char **arguments = calloc((size_t)argc + MORE_ARGUMENTS + 2, sizeof(*arguments));
	const char *name;

	own_path(argc > 0 ? argv[0] : NULL, own);
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
		if (prctl(PR_GET_DUMPABLE) == 1)
			(void)execv(loader, arguments);
		else
			execute_unreadable(loader, arguments);
		if (errno != ENOENT)
			break;
	}
	die("%s: %s: %s", name, loader, strerror(errno));
}
