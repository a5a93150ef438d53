/* SPDX-License-Identifier: Apache-2.0 */
/* Our credentials: basic or bearer authentication, tenant, extra headers. */
#ifndef SP_CREDENTIALS_H
#define SP_CREDENTIALS_H

#include <stdbool.h>

#include "export/push/secret.h"
#include "sampler/config/config.h"

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

/* Calls each with one line per header, the user's own last. What cannot be sent is left out. */
void sp_credentials_headers(struct sp_credentials *c, void (*each)(void *arg, const char *header),
			    void *arg);

#endif
