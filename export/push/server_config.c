/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "export/push/server_config.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Replaces a list by its element k. If that is empty or missing, the server has no such setting. */
static int take(const char **member, bool is_address, unsigned k, char **copy)
{
	const char *element = NULL;
	size_t len = 0;

	if (*member != NULL)
		element = sp_config_element(*member, is_address, k, &len);
	*member = NULL;
	if (element == NULL || len == 0)
		return 0;
	*copy = strndup(element, len);
	*member = *copy;
	return *copy != NULL ? 0 : -ENOMEM;
}

int sp_server_config_make(const struct sp_config *config, unsigned k, struct sp_server_config *out)
{
	struct sp_config *c = &out->config;
	const char **const member[SP_SERVER_TEXTS] = {
		&c->server_address,
		&c->basic_auth_user,
		&c->basic_auth_user_file,
		&c->basic_auth_password,
		&c->basic_auth_password_file,
		&c->auth_token,
		&c->auth_token_file,
		&c->tenant_id,
		&c->tenant_id_file,
		&c->http_headers_file,
		&c->tls_cert_file,
		&c->tls_key_file,
	};
	int err = 0;

	memset(out, 0, sizeof(*out));
	*c = *config;
	if (config->servers <= 1)
		return 0;
	c->servers = 1;
	c->http_headers = NULL;
	for (unsigned i = 0; i < SP_SERVER_TEXTS; i++)
		if (take(member[i], i == 0, k, &out->text[i]) != 0)
			err = -ENOMEM;
	return err == 0 && c->server_address == NULL ? -EINVAL : err;
}

void sp_server_config_fini(struct sp_server_config *s)
{
	for (unsigned i = 0; i < SP_SERVER_TEXTS; i++) {
		if (s->text[i] != NULL)
			explicit_bzero(s->text[i], strlen(s->text[i]));
		free(s->text[i]);
		s->text[i] = NULL;
	}
}
