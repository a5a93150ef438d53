/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of one of several servers. In each list of config.h it has only that server's
 * element, so it contains no credentials of other servers.
 */
#ifndef SP_SERVER_CONFIG_H
#define SP_SERVER_CONFIG_H

#include "sampler/config/config.h"

/* Members of struct sp_config that are lists. */
#define SP_SERVER_TEXTS 12U

struct sp_server_config {
	struct sp_config config;
	char *text[SP_SERVER_TEXTS];
};

/*
 * Makes the configuration of server k. If there is only one server, it equals *config. 0, -ENOMEM,
 * or -EINVAL if there is no server k; call sp_server_config_fini() after each. The other strings of
 * the configuration must outlive the result.
 */
int sp_server_config_make(const struct sp_config *config, unsigned k, struct sp_server_config *out);

/* Overwrites the texts and frees them. */
void sp_server_config_fini(struct sp_server_config *s);

#endif
