/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines functions with libcurl's names, which pass their arguments on to the loaded library. So
 * code that calls them is written, and checked against its headers, as if it were linked with
 * libcurl.
 */
#include "export/push/libcurl.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "sampler/base/compiler.h"

/* The version of its binary interface since 2006. */
#define LIBRARY "libcurl.so.4"

/* What we call; curl_easy_setopt and curl_easy_getinfo are macros, too. */
#define FOR_EACH(X)                                                                                \
	X(curl_easy_cleanup)                                                                       \
	X(curl_easy_getinfo)                                                                       \
	X(curl_easy_init)                                                                          \
	X(curl_easy_setopt)                                                                        \
	X(curl_easy_strerror)                                                                      \
	X(curl_free)                                                                               \
	X(curl_getdate)                                                                            \
	X(curl_global_init)                                                                        \
	X(curl_multi_add_handle)                                                                   \
	X(curl_multi_cleanup)                                                                      \
	X(curl_multi_info_read)                                                                    \
	X(curl_multi_init)                                                                         \
	X(curl_multi_perform)                                                                      \
	X(curl_multi_poll)                                                                         \
	X(curl_multi_remove_handle)                                                                \
	X(curl_slist_append)                                                                       \
	X(curl_slist_free_all)                                                                     \
	X(curl_url)                                                                                \
	X(curl_url_cleanup)                                                                        \
	X(curl_url_get)                                                                            \
	X(curl_url_set)

// NOLINTNEXTLINE(bugprone-macro-parentheses): a name of a member
#define MEMBER(name) __typeof__(&(name)) name;
static struct {
	FOR_EACH(MEMBER)
} real;

static bool loaded;

static const struct {
	const char *name;
	size_t at; /* in real */
} functions[] = {
#define ROW(name) {#name, offsetof(__typeof__(real), name)},
	FOR_EACH(ROW)};

/* dlsym gives an object pointer; POSIX promises that it may be called. */
static const char *find_functions(void *lib)
{
	for (size_t i = 0; i < SP_ARRAY_LEN(functions); i++) {
		void *at = dlsym(lib, functions[i].name);

		if (at == NULL)
			return functions[i].name;
		memcpy((char *)&real + functions[i].at, &at, sizeof(at));
	}
	return NULL;
}

/*
 * By its name alone, as for a program that is linked with it. That is safe: the exporter's
 * environment has no LD_LIBRARY_PATH, and a run path exists only in the carrier (scripts/carrier/).
 */
const char *sp_libcurl_load(void)
{
	static char why[160];
	const char *missing;
	void *lib;

	if (loaded)
		return NULL;
	lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL) {
		(void)snprintf(why, sizeof(why), "%s", dlerror());
		return why;
	}
	missing = find_functions(lib);
	if (missing == NULL && real.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) {
		loaded = true;
		return NULL;
	}
	(void)snprintf(why, sizeof(why), LIBRARY ": %s%s",
		       missing != NULL ? "no function " : "cannot be initialised",
		       missing != NULL ? missing : "");
	/*
	 * It stays loaded, because what its libraries have started may not survive its unloading.
	 */
	return why;
}

void curl_easy_cleanup(CURL *curl)
{
	real.curl_easy_cleanup(curl);
}

CURL *curl_easy_init(void)
{
	return real.curl_easy_init();
}

/*
 * One argument follows: a long, a pointer or a curl_off_t, which the calling conventions of the machines
 * that we run on pass alike.
 */
_Static_assert(sizeof(long) == sizeof(void *) && sizeof(curl_off_t) == sizeof(void *), "LP64");
#undef curl_easy_setopt
CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ...)
{
	va_list ap;
	void *value;

	va_start(ap, option);
	value = va_arg(ap, void *);
	va_end(ap);
	return real.curl_easy_setopt(curl, option, value);
}

#undef curl_easy_getinfo
CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...)
{
	va_list ap;
	void *value;

	va_start(ap, info);
	value = va_arg(ap, void *);
	va_end(ap);
	return real.curl_easy_getinfo(curl, info, value);
}

const char *curl_easy_strerror(CURLcode code)
{
	return real.curl_easy_strerror(code);
}

void curl_free(void *p)
{
	real.curl_free(p);
}

time_t curl_getdate(const char *p, const time_t *unused)
{
	return real.curl_getdate(p, unused);
}

CURLMcode curl_multi_add_handle(CURLM *multi_handle, CURL *curl_handle)
{
	return real.curl_multi_add_handle(multi_handle, curl_handle);
}

CURLMcode curl_multi_cleanup(CURLM *multi_handle)
{
	return real.curl_multi_cleanup(multi_handle);
}

CURLMsg *curl_multi_info_read(CURLM *multi_handle, int *msgs_in_queue)
{
	return real.curl_multi_info_read(multi_handle, msgs_in_queue);
}

CURLM *curl_multi_init(void)
{
	return real.curl_multi_init();
}

CURLMcode curl_multi_perform(CURLM *multi_handle, int *running_handles)
{
	return real.curl_multi_perform(multi_handle, running_handles);
}

CURLMcode curl_multi_poll(CURLM *multi_handle, struct curl_waitfd extra_fds[],
			  unsigned int extra_nfds, int timeout_ms, int *ret)
{
	return real.curl_multi_poll(multi_handle, extra_fds, extra_nfds, timeout_ms, ret);
}

CURLMcode curl_multi_remove_handle(CURLM *multi_handle, CURL *curl_handle)
{
	return real.curl_multi_remove_handle(multi_handle, curl_handle);
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *data)
{
	return real.curl_slist_append(list, data);
}

void curl_slist_free_all(struct curl_slist *list)
{
	real.curl_slist_free_all(list);
}

CURLU *curl_url(void)
{
	return real.curl_url();
}

void curl_url_cleanup(CURLU *handle)
{
	real.curl_url_cleanup(handle);
}

/*
 * Some releases declare the handle as const (8.5), others do not (7.88). A definition under another name in C, and
 * this one for the linker, fits both.
 */
CURLUcode url_get(CURLU *handle, CURLUPart what, char **part,
		  unsigned int flags) __asm__("curl_url_get");
CURLUcode url_get(CURLU *handle, CURLUPart what, char **part, unsigned int flags)
{
	return real.curl_url_get(handle, what, part, flags);
}

CURLUcode curl_url_set(CURLU *handle, CURLUPart what, const char *part, unsigned int flags)
{
	return real.curl_url_set(handle, what, part, flags);
}
