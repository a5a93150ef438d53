/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads libcurl. For each function of libcurl that we call, this file defines a function of the
 * same name. It jumps to the loaded function and leaves all arguments unchanged, whatever their
 * types. Callers are written, and checked against libcurl's headers, as if they were linked with
 * libcurl.
 */
#include "export/push/libcurl.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "sampler/base/compiler.h"

/* The version of libcurl's binary interface since 2006. */
#define LIBRARY "libcurl.so.4"

#define FOR_EACH(X)                                                                                \
	X(curl_easy_cleanup)                                                                       \
	X(curl_easy_getinfo)                                                                       \
	X(curl_easy_init)                                                                          \
	X(curl_easy_pause)                                                                         \
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

#if defined(__x86_64__)
#define JUMP(name) "jmp *loaded_" #name "(%rip)\n"
#elif defined(__aarch64__)
/* x16 is reserved for linkers and stubs such as this. */
#define JUMP(name)                                                                                 \
	"adrp x16, loaded_" #name "\n"                                                             \
	"ldr x16, [x16, :lo12:loaded_" #name "]\n"                                                 \
	"br x16\n"
#else
#error "no stand-ins for the functions of libcurl on this processor"
#endif

// clang-format off
#define STAND_IN(name)                                                                             \
	extern void *loaded_##name __attribute__((visibility("hidden")));                          \
	void *loaded_##name;                                                                       \
	__asm__(".text\n"                                                                          \
		".globl " #name "\n"                                                               \
		".hidden " #name "\n"                                                              \
		".type " #name ", %function\n" #name ":\n" JUMP(name)                              \
		".size " #name ", . - " #name "\n");
FOR_EACH(STAND_IN)
// clang-format on

static const struct {
	const char *name;
	void **loaded;
} functions[] = {
#define ROW(name) {#name, &loaded_##name},
	FOR_EACH(ROW)};

/*
 * dlopen() gets the bare name, as the loader does for a program that is linked with libcurl. That
 * is safe: the exporter's environment has no LD_LIBRARY_PATH, and a run path exists only in the
 * carrier (scripts/carrier/).
 */
const char *sp_libcurl_load(void)
{
	static char why[160];
	static bool is_loaded;
	const char *trouble = NULL;
	void *lib;

	if (is_loaded)
		return NULL;
	lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL) {
		(void)snprintf(why, sizeof(why), "%s", dlerror());
		return why;
	}
	for (size_t i = 0; trouble == NULL && i < SP_ARRAY_LEN(functions); i++) {
		*functions[i].loaded = dlsym(lib, functions[i].name);
		if (*functions[i].loaded == NULL)
			trouble = functions[i].name;
	}
	is_loaded = trouble == NULL && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
	if (is_loaded)
		return NULL;
	(void)snprintf(why, sizeof(why), LIBRARY ": %s%s",
		       trouble != NULL ? "no function " : "cannot be initialised",
		       trouble != NULL ? trouble : "");
	/*
	 * libcurl stays loaded: threads or handlers that its libraries have started may not survive
	 * its unloading.
	 */
	return why;
}
