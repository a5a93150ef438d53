/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets from variables and from files. Files (Kubernetes secret mounts, systemd credentials) may
 * be replaced at any time, so they are read again for each push. Also extra headers, given as JSON,
 * and certificates and keys. We read the files, and not libcurl, so that the rules of user_file.h
 * apply. Nothing of a content is ever logged, and memory that held it is overwritten. Context: the
 * exporter.
 */
#define _GNU_SOURCE
#include "export/push/credentials.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/user_file.h"
#include "sampler/base/text.h"
#include "sampler/config/config_table.h"

void sp_secret_init(struct sp_secret *s, const char *path, const char *before)
{
	memset(s, 0, sizeof(*s));
	s->path = path;
	s->latest = before;
}

static void forget(char *content)
{
	if (content != NULL)
		explicit_bzero(content, strlen(content));
	free(content);
}

void sp_secret_fini(struct sp_secret *s)
{
	forget(s->content);
	s->content = NULL;
	s->latest = NULL;
}

/* The content of the file, without the line break that editors and echo add. */
static int content_of(const char *path, char *buf, const char **why)
{
	ssize_t got = sp_user_file_read(path, buf, SP_SECRET_MAX + 1);
	size_t len = got > 0 ? (size_t)got : 0;

	if (got < 0) {
		*why = sp_user_file_error((int)got);
		return (int)got;
	}
	while (len != 0 && (buf[len - 1] == '\n' || buf[len - 1] == '\r'))
		len--;
	*why = NULL;
	if (got > (ssize_t)SP_SECRET_MAX)
		*why = "it is larger than 16 KiB";
	else if (len == 0)
		*why = "it is empty";
	else if (memchr(buf, '\0', len) != NULL)
		*why = "it is not text";
	buf[len] = '\0';
	return *why != NULL ? -EINVAL : 0;
}

int sp_secret_read(struct sp_secret *s, const char **why)
{
	char buf[SP_SECRET_MAX + 2];
	char *content = NULL;
	int rc;

	if (s->path == NULL)
		return 0;
	rc = content_of(s->path, buf, why);
	if (rc == 0 && (s->latest == NULL || strcmp(s->latest, buf) != 0)) {
		content = strdup(buf);
		rc = content != NULL ? 1 : -ENOMEM;
		*why = "out of memory";
	}
	explicit_bzero(buf, sizeof(buf));
	if (rc == 1) {
		forget(s->content);
		s->content = content;
		s->latest = content;
	}
	return rc;
}

#define SP_HEADER_MAX 8192

/* RFC 9110 tokens. */
static bool name_ok(const char *name)
{
	return name[0] != '\0' &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "!#$%&'*+-.^_`|~")] == '\0';
}

/* A line break in a value would begin another header, or the body. */
static bool value_ok(const char *value)
{
	for (; *value != '\0'; value++)
		if (sp_text_is_control(*value) && *value != '\t')
			return false;
	return true;
}

int sp_headers_parse(const char *json, void (*each)(void *arg, const char *header), void *arg,
		     unsigned *refused)
{
	json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
	const char *name;
	json_t *item;

	*refused = 0;
	if (!json_is_object(root)) {
		json_decref(root);
		return -EINVAL;
	}
	json_object_foreach(root, name, item)
	{
		const char *value = json_string_value(item);
		char header[SP_HEADER_MAX];
		int n = -1;

		/* libcurl sends a header without value only when it is written with ';'. */
		if (value != NULL && name_ok(name) && value_ok(value))
			n = snprintf(header, sizeof(header), "%s%s%s", name,
				     value[0] != '\0' ? ": " : ";", value);
		if (n < 0 || (size_t)n >= sizeof(header))
			(*refused)++;
		else
			each(arg, header);
	}
	json_decref(root);
	return 0;
}

int sp_headers_parse_list(const char *list, void (*each)(void *arg, const char *header), void *arg,
			  unsigned *refused)
{
	struct sp_text_pair pair;

	*refused = 0;
	while (sp_text_next_pair(&list, &pair)) {
		char header[SP_HEADER_MAX];
		size_t name = 0;
		size_t end = 0;

		if (pair.separator == '=' && pair.key_len + pair.value_len + 3 < sizeof(header)) {
			name = sp_text_unescape(header, pair.key, pair.key_len);
			header[name] = '\0';
			/* libcurl sends a header without value only when it is written with ';'. */
			end = name + 1 +
			      sp_text_unescape(header + name + 1, pair.value, pair.value_len);
			header[end] = '\0';
		}
		if (end == 0 || !name_ok(header) || strlen(header) != name ||
		    strlen(header + name + 1) != end - name - 1 || !value_ok(header + name + 1)) {
			(*refused)++;
			continue;
		}
		header[name] = end == name + 1 ? ';' : ':';
		each(arg, header);
	}
	return 0;
}

static const char pem_begin[] = "-----BEGIN ";

static void wipe_text(struct sp_tls_text *text)
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
	else if (out->len == 0 || memmem(data, out->len, pem_begin, strlen(pem_begin)) == NULL)
		*why = "there is no PEM in it";
	if (*why == NULL)
		return 0;
	wipe_text(out);
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
		/* Without verification no authority is needed. */
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
	wipe_text(&files->ca);
	wipe_text(&files->cert);
	wipe_text(&files->key);
}

static bool is_set(const char *s)
{
	return s != NULL && s[0] != '\0';
}

void sp_credentials_init(struct sp_credentials *c, const struct sp_config *config,
			 sp_credentials_warn warn, void *arg)
{
	memset(c, 0, sizeof(*c));
	c->config = config;
	c->warn = warn;
	c->arg = arg;
	sp_secret_init(&c->user, config->basic_auth_user_file, config->basic_auth_user);
	sp_secret_init(&c->tenant, config->tenant_id_file, config->tenant_id);
	sp_secret_init(&c->password, config->basic_auth_password_file, config->basic_auth_password);
	sp_secret_init(&c->token, config->auth_token_file, config->auth_token);
	sp_secret_init(&c->headers, config->http_headers_file, config->http_headers);
}

void sp_credentials_fini(struct sp_credentials *c)
{
	sp_secret_fini(&c->user);
	sp_secret_fini(&c->tenant);
	sp_secret_fini(&c->password);
	sp_secret_fini(&c->token);
	sp_secret_fini(&c->headers);
}

static void refresh(struct sp_credentials *c, struct sp_secret *s, const char *variable)
{
	const char *why = NULL;
	char text[256];
	int rc = sp_secret_read(s, &why);

	if (rc > 0)
		c->looked = false;
	/* The message does not show the path: some users write the secret itself there. */
	if (rc < 0 && !s->failed) {
		(void)snprintf(text, sizeof(text), "%s: the file cannot be used: %s%s", variable,
			       why, s->latest != NULL ? "; the last value is still sent" : "");
		c->warn(c->arg, text);
	}
	s->failed = rc < 0;
}

void sp_credentials_refresh(struct sp_credentials *c)
{
	refresh(c, &c->user, "SPANPROF_BASIC_AUTH_USER_FILE");
	refresh(c, &c->tenant, "SPANPROF_TENANT_ID_FILE");
	refresh(c, &c->password, "SPANPROF_BASIC_AUTH_PASSWORD_FILE");
	refresh(c, &c->token, "SPANPROF_AUTH_TOKEN_FILE");
	refresh(c, &c->headers, "SPANPROF_HTTP_HEADERS_FILE");
}

const char *sp_credentials_user(const struct sp_credentials *c)
{
	return is_set(c->user.latest) ? c->user.latest : NULL;
}

const char *sp_credentials_password(const struct sp_credentials *c)
{
	return c->password.latest != NULL ? c->password.latest : "";
}

bool sp_credentials_secret(const struct sp_credentials *c)
{
	const struct sp_config *config = c->config;

	return is_set(c->user.latest) || config->basic_auth_user_file != NULL ||
	       is_set(c->token.latest) || config->auth_token_file != NULL ||
	       (is_set(c->headers.latest) &&
		strcasestr(c->headers.latest, "authorization") != NULL);
}

static void complain(const struct sp_credentials *c, const char *text)
{
	if (!c->looked)
		c->warn(c->arg, text);
}

/* A line break in a value would begin another header, or the body. */
static void add_named(const struct sp_credentials *c, const char *name, const char *value,
		      void (*each)(void *arg, const char *header), void *arg)
{
	char *header = NULL;

	if (strpbrk(value, "\r\n") != NULL) {
		complain(c, "a header value with a line break was left out");
	} else if (asprintf(&header, "%s%s", name, value) >= 0) {
		each(arg, header);
		explicit_bzero(header, strlen(header));
		free(header);
	}
}

void sp_credentials_headers(struct sp_credentials *c, void (*each)(void *arg, const char *header),
			    void *arg)
{
	unsigned refused = 0;

	if (is_set(c->token.latest) && sp_credentials_user(c) == NULL)
		add_named(c, "Authorization: Bearer ", c->token.latest, each, arg);
	if (is_set(c->tenant.latest))
		add_named(c, "X-Scope-OrgID: ", c->tenant.latest, each, arg);
	if (is_set(c->headers.latest)) {
		/* Until the first successful read of the file, the headers are the variable's. */
		const char *name = sp_config_copy_name(
			c->headers.content != NULL ? SP_VAR_HTTP_HEADERS_FILE : SP_VAR_HTTP_HEADERS,
			SP_VAR_HTTP_HEADERS);
		char text[160];

		bool is_list = strncmp(name, SP_OTLP_PREFIX, strlen(SP_OTLP_PREFIX)) == 0;

		text[0] = '\0';
		if ((is_list ? sp_headers_parse_list : sp_headers_parse)(c->headers.latest, each,
									 arg, &refused) != 0)
			(void)snprintf(text, sizeof(text),
				       "%s is not a JSON object of strings: none of the headers is "
				       "sent",
				       name);
		else if (refused != 0)
			(void)snprintf(text, sizeof(text),
				       "some headers of %s cannot be sent and were left out", name);
		if (text[0] != '\0')
			complain(c, text);
	}
	c->looked = true;
}
