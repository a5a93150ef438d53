/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into emulated test programs: a program that executes itself again, as Criterion's workers do, must start
 * under the emulator again, which the kernel does not know. Programs of this machine are executed unchanged.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGS_MAX 128

int execve(const char *path, char *const argv[], char *const envp[]);

typedef int exec_function(const char *, char *const[], char *const[]);

static const char OWN[] = "LD_PRELOAD=";

/* The environment without the preloads of the emulated side, which the emulator must not load. */
static char **without_preload(char *const envp[])
{
	size_t n = 0;
	size_t kept = 0;
	char **copy;

	while (envp[n] != NULL)
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	if (copy == NULL)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (strncmp(envp[i], OWN, sizeof(OWN) - 1) != 0)
			copy[kept++] = envp[i];
	}
	return copy;
}

int execve(const char *path, char *const argv[], char *const envp[])
{
	exec_function *next = (exec_function *)dlsym(RTLD_NEXT, "execve");
	const char *root = getenv("TEST_EMULATOR_ROOT");
	const char *preload = getenv("LD_PRELOAD");
	char preloaded[PATH_MAX + sizeof(OWN)];
	char self[PATH_MAX];
	char *args[ARGS_MAX] = {"qemu-aarch64", "-L", (char *)root, "-E", preloaded};
	size_t n = 5;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char **kept = without_preload(envp);

	if (length < 0 || root == NULL || preload == NULL || kept == NULL) {
		errno = ENOMEM;
		return -1;
	}
	self[length] = '\0';
	if (strcmp(path, "/proc/self/exe") != 0 && strcmp(path, self) != 0)
		return next(path, argv, kept);
	snprintf(preloaded, sizeof(preloaded), "%s%s", OWN, preload);
	args[n++] = self;
	for (size_t i = 1; argv[i] != NULL && n < ARGS_MAX - 1; i++)
		args[n++] = argv[i];
	return next("/usr/bin/qemu-aarch64", args, kept);
}
