/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of certificates and keys (tls_files.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/push/tls_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/user_file.h"

static const char begin[] = "-----BEGIN ";

static void wipe(struct sp_tls_text *text)
{
	if (text->data != NULL)
		explicit_bzero(text->data, text->len);
	free(text->data);
	*text = (struct sp_tls_text){NULL, 0};
}

static int read_text(const char *path, struct sp_tls_text *out, const char **why)
{
	char *data = malloc(SP_TLS_FILE_MAX + 1);
	ssize_t got = data != NULL ? sp_user_file_read(path, data, SP_TLS_FILE_MAX + 1) : -ENOMEM;

	*why = NULL;
	*out = (struct sp_tls_text){data, got > 0 ? (size_t)got : 0};
	if (got < 0)
		*why = sp_user_file_error((int)got);
	else if (out->len > SP_TLS_FILE_MAX)
		*why = "it is larger than 1 MiB";
	else if (out->len == 0 || memmem(data, out->len, begin, strlen(begin)) == NULL)
		*why = "there is no PEM in it";
	if (*why == NULL)
		return 0;
	wipe(out);
	return got < 0 ? (int)got : -EINVAL;
}

int sp_tls_files_read(struct sp_tls_files *out, const struct sp_config *config, char *why,
		      size_t cap)
{
	const char *cert = config->tls_cert_file;
	const char *key = config->tls_key_file != NULL ? config->tls_key_file : cert;
	const struct {
		const char *path;
		struct sp_tls_text *text;
		const char *variable;
	} files[] = {
		/* Without verification they are of no use. */
		{config->tls_insecure ? NULL : config->tls_ca_file, &out->ca,
		 "SPANPROF_TLS_CA_FILE or SSL_CERT_FILE"},
		{cert, &out->cert, "SPANPROF_TLS_CERT_FILE"},
		{cert != NULL ? key : NULL, &out->key,
		 config->tls_key_file != NULL ? "SPANPROF_TLS_KEY_FILE" : "SPANPROF_TLS_CERT_FILE"},
	};
	const char *reason;
	int err = 0;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; err == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		if (files[i].path == NULL)
			continue;
		err = read_text(files[i].path, files[i].text, &reason);
		if (err != 0)
			(void)snprintf(why, cap, "%s: the file cannot be used: %s",
				       files[i].variable, reason);
	}
	if (err != 0)
		sp_tls_files_wipe(out);
	return err;
}

void sp_tls_files_wipe(struct sp_tls_files *files)
{
	wipe(&files->ca);
	wipe(&files->cert);
	wipe(&files->key);
}
