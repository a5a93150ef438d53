/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of SPANPROF_SERVER_ADDRESS. */
#ifndef SP_ADDRESS_H
#define SP_ADDRESS_H

#include <stdbool.h>

struct sp_address {
	char *base;   /* http:// or https://, without slashes at its end; user information kept */
	char *socket; /* path of a Unix socket to connect to, or NULL */
	char *shown;  /* as it may be logged: without user information */
	bool tls;
};

/* 0, -ENOMEM, or -EINVAL with what is wrong with it in *why. */
int sp_address_parse(const char *text, struct sp_address *out, const char **why);

/* Whether the server is on this host. Loads libcurl; if that fails the answer is no. */
bool sp_address_is_local(const struct sp_address *a);

void sp_address_fini(struct sp_address *a);

#endif
