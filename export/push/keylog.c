/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks the function of OpenSSL up in libcurl's own libraries: another OpenSSL in the global scope
 * would have another layout of SSL_CTX. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/push/keylog.h"

#include <dlfcn.h>
#include <string.h>

void sp_keylog_off(void *ssl_ctx, const void *in_libcurl)
{
	void (*set_callback)(void *ssl_ctx, void (*callback)(const void *ssl, const char *line));
	void *libcurl = NULL;
	void *at = NULL;
	Dl_info where;

	if (dladdr(in_libcurl, &where) != 0)
		libcurl = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (libcurl == NULL)
		return;
	at = dlsym(libcurl, "SSL_CTX_set_keylog_callback");
	memcpy(&set_callback, &at, sizeof(at));
	if (set_callback != NULL)
		set_callback(ssl_ctx, NULL);
	dlclose(libcurl);
}
