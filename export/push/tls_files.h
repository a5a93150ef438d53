/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates and keys from the files that variables name. They rotate, so they are read for each
 * connection and forgotten with it. We read them, and not libcurl, so that the rules of user_file.h
 * apply. Without such a file the TLS library's defaults apply. Context: the exporter.
 */
#ifndef SP_TLS_FILES_H
#define SP_TLS_FILES_H

#include <stddef.h>

#include "sampler/config/config.h"

#define SP_TLS_FILE_MAX ((size_t)1 << 20) /* all authorities of a distribution take a fifth of it */

struct sp_tls_text {
	char *data; /* PEM; NULL = none is to be given */
	size_t len;
};

struct sp_tls_files {
	struct sp_tls_text ca;
	struct sp_tls_text cert;
	struct sp_tls_text key; /* of the certificate's file if it has no file of its own */
};

/*
 * 0, or a negative errno, with nothing read and a sentence in why that names the variable. The
 * sentence contains neither the content nor the path, where some users write the secret itself.
 */
int sp_tls_files_read(struct sp_tls_files *out, const struct sp_config *config, char *why,
		      size_t cap);

/* Overwrites what was read and gives the memory back. Idempotent. */
void sp_tls_files_wipe(struct sp_tls_files *files);

#endif
