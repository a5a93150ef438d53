/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whose code a frame is by the name of the function, its object and its source file
 * (frame_kind.h). Context: the report tool.
 */
#include "export/report/frame_kind.h"

#include <stddef.h>
#include <string.h>

#include "export/report/tally.h"

const char *const sp_frame_kind_words[SP_FRAME_KIND_N] = {
	[SP_FRAME_OWN] = "own",
	[SP_FRAME_LIBRARY] = "library",
	[SP_FRAME_KERNEL] = "kernel",
	[SP_FRAME_WAITING] = "waiting",
	[SP_FRAME_UNSAMPLED] = "unsampled",
	[SP_FRAME_MARKER] = "marker",
	[SP_FRAME_SPAN] = "span",
};

static bool starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool starts_as(const char *s, const char *const *prefix, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (starts(s, prefix[i]))
			return true;
	return false;
}

#define STARTS_AS(s, table) starts_as(s, table, sizeof(table) / sizeof((table)[0]))

static bool is_kernel(const char *object)
{
	static const char *const names[] = {"[vdso]", "[kernel", "[vmlinux", "/proc/kcore"};

	return STARTS_AS(object, names) || strstr(object, "vmlinux") != NULL;
}

/* A shared object elsewhere is most often a part of the program, delivered beside it. */
static bool is_installed(const char *object)
{
	static const char *const folders[] = {"/lib",        "/usr/",       "/opt/",
					      "/nix/store/", "/gnu/store/", "/snap/"};
	const char *slash = strrchr(object, '/');

	return strstr(slash != NULL ? slash : object, ".so") != NULL && STARTS_AS(object, folders);
}

/* Templates and inlined functions are compiled into the program. */
static bool is_of_header(const char *name, const char *source)
{
	static const char *const names[] = {"std::", "__gnu_cxx::"};
	static const char *const folders[] = {"/usr/include/", "/usr/lib/", "/rustc/"};

	return STARTS_AS(name, names) || STARTS_AS(source, folders);
}

/*
 * What a thread waits for is no code. The exporter puts it, as all of its markers, into an object of this
 * name; other writers put it into none. The markers that say that a stack is not known may be leaves
 * as well, and say nothing of a wait.
 */
static bool is_wait(const char *name, const struct sp_frame_place *place)
{
	static const char *const missing[] = {"(other)", "[unknown]", "[truncated]",
					      "[incomplete]"};

	if (!place->is_leaf_of_wait ||
	    (place->object[0] != '\0' && strcmp(place->object, "[spanprof]") != 0))
		return false;
	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
		if (strcmp(name, missing[i]) == 0)
			return false;
	return true;
}

enum sp_frame_kind sp_frame_kind_of(const char *name, const struct sp_frame_place *place)
{
	if (strcmp(name, SP_REPORT_UNSAMPLED) == 0)
		return SP_FRAME_UNSAMPLED;
	if (is_wait(name, place))
		return SP_FRAME_WAITING;
	if (is_kernel(place->object))
		return SP_FRAME_KERNEL;
	if (name[0] == '[' || name[0] == '(')
		return SP_FRAME_MARKER;
	return is_installed(place->object) || is_of_header(name, place->source) ? SP_FRAME_LIBRARY
										: SP_FRAME_OWN;
}
