/* SPDX-License-Identifier: Apache-2.0 */
/* Names of modules. Context: BG. Caller: modules.c. */
#define _GNU_SOURCE
#include "export/module_name.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The program's own path; /proc/self/exe opens it even when it was replaced or deleted. */
static void name_main(char *text, char *shown)
{
	static const char deleted[] = " (deleted)";
	const size_t tail = sizeof(deleted) - 1;
	ssize_t n;

	(void)snprintf(text, SP_MODULE_PATH_BYTES, "/proc/self/exe");
	n = readlink(text, shown, SP_MODULE_PATH_BYTES - 1);
	if (n <= 0) {
		(void)snprintf(shown, SP_MODULE_PATH_BYTES, "[main]");
		return;
	}
	shown[n] = '\0';
	if ((size_t)n > tail && strcmp(shown + (size_t)n - tail, deleted) == 0)
		shown[(size_t)n - tail] = '\0';
}

/* A relative name means the working directory of dlopen: resolve it while it is likely still that
 * one. */
static void name_library(char *text, char *shown, const char *path)
{
	char resolved[PATH_MAX];

	if (path[0] != '/' && realpath(path, resolved) != NULL)
		path = resolved;
	memcpy(text, path, strnlen(path, SP_MODULE_PATH_BYTES - 1));
	memcpy(shown, text, SP_MODULE_PATH_BYTES);
}

void sp_module_name(struct sp_module *mod, const char *path, char text[2 * SP_MODULE_PATH_BYTES])
{
	char *shown = text + SP_MODULE_PATH_BYTES;

	if (mod->vdso)
		(void)snprintf(shown, SP_MODULE_PATH_BYTES, "[vdso]");
	else if (mod->main)
		name_main(text, shown);
	else
		name_library(text, shown, path);
	mod->path = text;
	mod->shown = shown;
	mod->name = strrchr(shown, '/') != NULL ? strrchr(shown, '/') + 1 : shown;
}
