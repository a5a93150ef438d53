/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads libraries and queries the loader in ways whose answers depend on the caller, prints the answers, and makes
 * spans through functions that dlsym() returned. The plugins are in its RUNPATH. Usage: loading [flags: deepbind]
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>

#include "test/hosts/host.h"
#include "test/otelc/otelc.h"

#define SPAN_MS 60

static const char *file_of(const void *address)
{
	Dl_info info;
	const char *slash;

	if (address == NULL || dladdr(address, &info) == 0)
		return "nowhere";
	slash = strrchr(info.dli_fname, '/');
	return slash != NULL ? slash + 1 : info.dli_fname;
}

static void say_error(const char *what)
{
	const char *error = dlerror();

	printf("%s: %s\n", what, error != NULL ? error : "no error");
}

static void questions(void *handle)
{
	printf("next: %s\n", file_of(dlsym(RTLD_NEXT, "getpagesize")));
	printf("default: %s\n", file_of(dlsym(RTLD_DEFAULT, "getpagesize")));
	printf("in the plugin: %s\n", file_of(dlsym(handle, "copy_start")));
	printf("version: %s\n", file_of(dlvsym(RTLD_NEXT, "getpagesize",
#if defined(__x86_64__)
					       "GLIBC_2.2.5"
#else
					       "GLIBC_2.17"
#endif
					       )));
	say_error("after answers");
	printf("missing: %p\n", dlsym(handle, "otelc_of_nobody"));
	say_error("missing");
	printf("missing next: %p\n", dlsym(RTLD_NEXT, "no_such_function"));
	say_error("missing next");
	printf("missing version: %p\n", dlvsym(handle, "otelc_start_span", "OTELC_9"));
	say_error("missing version");
	printf("missing file: %p\n", dlopen("/nonexistent/lib.so", RTLD_NOW));
	say_error("missing file");
	errno = 4711;
	(void)dlsym(handle, "otelc_start_span");
	printf("errno %d\n", errno);
}

/* The permissions of the file's mappings, in order. */
static void print_protections(const char *file)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	char last[8] = "";
	char now[8];

	HOST_CHECK(maps != NULL);
	printf("%s:", file);
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (strstr(line, file) == NULL || sscanf(line, "%*s %7s", now) != 1 ||
		    strcmp(now, last) == 0)
			continue;
		strcpy(last, now);
		printf(" %s", now);
	}
	printf("\n");
	fclose(maps);
}

static void *load(const char *name, int mode)
{
	void *handle = dlopen(name, mode);

	if (handle == NULL)
		fprintf(stderr, "%s\n", dlerror());
	HOST_CHECK(handle != NULL);
	return handle;
}

static void span_by_pointer(void *handle)
{
	__typeof__(&otel_tracer_start_span) start =
		(__typeof__(&otel_tracer_start_span))dlsym(handle, "otel_tracer_start_span");
	__typeof__(&otel_span_end) end = (__typeof__(&otel_span_end))dlsym(handle, "otel_span_end");
	otel_string_view_t name = {"by pointer", strlen("by pointer")};
	otel_span_t *span;

	HOST_CHECK(start != NULL && end != NULL);
	span = start(NULL, name, NULL);
	host_burn_ms(SPAN_MS);
	(void)end(span);
}

static void span_by_plugin(void *handle)
{
	void *(*start)(const char *) = (void *(*)(const char *))dlsym(handle, "copy_start");
	void (*end)(void *) = (void (*)(void *))dlsym(handle, "copy_end");
	void *span;

	HOST_CHECK(start != NULL && end != NULL);
	span = start("by plugin");
	host_burn_ms(SPAN_MS);
	end(span);
}

int main(int argc, char **argv)
{
	int mode = RTLD_NOW | RTLD_LOCAL;
	void *by_name;
	void *by_origin;

	/* C guarantees 0 at the start */
	printf("errno at first: %d\n", errno);
	if (argc > 1 && strcmp(argv[1], "deepbind") == 0)
		mode = RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND;
	/* only this program's RUNPATH leads there */
	by_name = load("libcopy_a.so", mode);
	by_origin = load("$ORIGIN/../libcopy_b.so", mode);
	printf("handle of the program: %s\n", dlopen(NULL, RTLD_NOW) != NULL ? "yes" : "no");
	questions(by_name);
	span_by_pointer(by_name);
	span_by_plugin(by_name);
	span_by_plugin(by_origin);
	print_protections("libcopy_a.so");
	print_protections("libcopy_b.so");
	return 23;
}
