/* SPDX-License-Identifier: Apache-2.0 */
/* Our credentials: basic or bearer authentication, tenant, extra headers, certificates. */
#ifndef SP_CREDENTIALS_H
#define SP_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>

#include "sampler/config/config.h"

#define SP_SECRET_MAX 16384U

/* A secret that is kept in a file, which may be replaced at any time. */
struct sp_secret {
	const char *path;   /* NULL = there is no file */
	const char *latest; /* the last good content, or the value before; NULL = none */
	char *content;      /* memory of latest, if that came from the file */
	bool failed;        /* the last read failed */
};

/* before: the value until the file was read, or NULL; it must outlive the secret. */
void sp_secret_init(struct sp_secret *s, const char *path, const char *before);
void sp_secret_fini(struct sp_secret *s);

/*
 * Reads the file; nothing stays open. 1 = latest has changed, 0 = it has not, or a negative errno
 * with the reason in *why; then latest is as before. The content is never part of a reason.
 */
int sp_secret_read(struct sp_secret *s, const char **why);

/*
 * Calls each once per header of the JSON object, with a header that is safe to send ("Name: value",
 * no control characters). Refused ones are counted in *refused. 0, or -EINVAL when the text is not
 * a JSON object. The text is a secret: nothing of it is logged.
 */
int sp_headers_parse(const char *json, void (*each)(void *arg, const char *header), void *arg,
		     unsigned *refused);

/* As sp_headers_parse(), for OpenTelemetry's list k=v,k=v with percent-encoding. Always 0. */
int sp_headers_parse_list(const char *list, void (*each)(void *arg, const char *header), void *arg,
			  unsigned *refused);

/* The authorities of a distribution take a fifth of this. */
#define SP_TLS_FILE_MAX ((size_t)1 << 20)

struct sp_tls_text {
	char *data; /* PEM; NULL = none */
	size_t len;
};

/*
 * Certificates and keys from the files that variables name. They are read for each connection, and
 * wiped when it ends. Without such a file the TLS library's defaults apply.
 */
struct sp_tls_files {
	struct sp_tls_text ca;
	struct sp_tls_text cert;
	struct sp_tls_text key; /* from the certificate's file if no file is named for it */
};

/*
 * 0, or a negative errno, with nothing read and a sentence in why that names the variable. The
 * sentence contains neither the content nor the path, where some users write the secret itself.
 */
int sp_tls_files_read(struct sp_tls_files *out, const struct sp_config *config, char *why,
		      size_t cap);

/* Overwrites the texts and frees them. Idempotent. */
void sp_tls_files_wipe(struct sp_tls_files *files);

/* Logs a sentence. */
typedef void (*sp_credentials_warn)(void *arg, const char *text);

struct sp_credentials {
	const struct sp_config *config;
	sp_credentials_warn warn;
	void *arg;
	struct sp_secret user, password, token, tenant, headers;
	bool looked; /* a message was logged about the present values */
};

/* The configuration must outlive it. */
void sp_credentials_init(struct sp_credentials *c, const struct sp_config *config,
			 sp_credentials_warn warn, void *arg);
void sp_credentials_fini(struct sp_credentials *c);

/* Reads the files again. Each problem is logged once, until it is over. */
void sp_credentials_refresh(struct sp_credentials *c);

/* NULL = no basic authentication. */
const char *sp_credentials_user(const struct sp_credentials *c);
const char *sp_credentials_password(const struct sp_credentials *c);

/*
 * Whether secrets are sent, which need a safe connection. A tenant is no secret. A file of headers
 * counts as one, because what it will contain is unknown.
 */
bool sp_credentials_secret(const struct sp_credentials *c);

/*
 * Calls each with one line per header, the user's own last. Headers that cannot be sent are left
 * out.
 */
void sp_credentials_headers(struct sp_credentials *c, void (*each)(void *arg, const char *header),
			    void *arg);

#endif
