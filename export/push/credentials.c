/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the headers and options that identify us to the server, and reads the files that hold them.
 * Files may be replaced at any time (Kubernetes rotates them), so they are read again before each
 * push. No value is ever shown. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/push/credentials.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/push/headers_json.h"
#include "sampler/config/config_table.h"

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
	/* Not the path: some write the secret itself there. */
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
		const char *name =
			sp_config_copy_name(SP_VAR_HTTP_HEADERS_FILE, SP_VAR_HTTP_HEADERS);
		char text[160];

		text[0] = '\0';
		if (sp_headers_parse(c->headers.latest, each, arg, &refused) != 0)
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
