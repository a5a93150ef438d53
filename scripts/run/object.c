/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and chaining the object. Runs in spanprof-run only. Callers: main.c, check.c. */
#define _GNU_SOURCE
#include "scripts/run/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* ld.so(8): the items of LD_PRELOAD are separated by spaces or colons, and nothing is quoted. */
#define SEPARATORS " :"

/* Without /proc, the path that the kernel was given. */
static bool own_path(char out[PATH_MAX])
{
	const char *given = (const char *)getauxval(AT_EXECFN);
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

	if (n > 0 && out[0] == '/') {
		out[n] = '\0';
		return true;
	}
	return given != NULL && realpath(given, out) != NULL;
}

bool sp_object_find(char path[PATH_MAX], const char **why)
{
	static const char *const places[] = {"", "../lib/spanprof/", "../../lib/spanprof/"};
	char own[PATH_MAX];
	char candidate[PATH_MAX + 64];
	const char *slash = own_path(own) ? strrchr(own, '/') : NULL;

	*why = "it is not there";
	(void)snprintf(path, PATH_MAX, "%s", SP_OBJECT_NAME);
	if (slash == NULL) {
		*why = "cannot tell where this program is";
		return false;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		(void)snprintf(candidate, sizeof(candidate), "%.*s/%s" SP_OBJECT_NAME,
			       (int)(slash - own), own, places[i]);
		if (realpath(candidate, path) == NULL)
			continue;
		if (access(path, R_OK) != 0)
			*why = "it cannot be read";
		else if (strpbrk(path, SEPARATORS "\t\n") != NULL)
			*why = "LD_PRELOAD cannot hold a path with spaces or colons";
		else
			return true;
		return false;
	}
	(void)snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - own), own, SP_OBJECT_NAME);
	return false;
}

static bool lists_object(const char *list)
{
	size_t name = sizeof(SP_OBJECT_NAME) - 1;

	for (; *list != '\0'; list += strspn(list, SEPARATORS)) {
		size_t len = strcspn(list, SEPARATORS);

		if (len >= name && strncmp(list + len - name, SP_OBJECT_NAME, name) == 0 &&
		    (len == name || list[len - name - 1] == '/'))
			return true;
		list += len;
	}
	return false;
}

/* The end of the first item if that is the runtime of gcc's AddressSanitizer, which insists on being first. */
static size_t sanitizer_len(const char *list)
{
	size_t skip = strspn(list, SEPARATORS);
	size_t len = strcspn(list + skip, SEPARATORS);
	size_t name = skip + len;

	while (name > skip && list[name - 1] != '/')
		name--;
	return strncmp(list + name, "libasan.so", 10) == 0 ? skip + len : 0;
}

char *sp_object_chain(const char *path, const char *list)
{
	char *chained = NULL;
	size_t first;

	if (list == NULL || list[0] == '\0')
		return strdup(path);
	if (lists_object(list))
		return strdup(list);
	first = sanitizer_len(list);
	if (first != 0)
		return asprintf(&chained, "%.*s:%s%s", (int)first, list, path, list + first) >= 0
			       ? chained
			       : NULL;
	return asprintf(&chained, "%s:%s", path, list) >= 0 ? chained : NULL;
}
