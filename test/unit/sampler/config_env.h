/* SPDX-License-Identifier: Apache-2.0 */
/* Parses an environment from a test, and counts its messages. */
#ifndef SP_TEST_CONFIG_ENV_H
#define SP_TEST_CONFIG_ENV_H

#include <stdlib.h>

#include "sampler/config/config.h"
#include "stderr_pipe.h"

#define ENV_MAX 64

static struct sp_config cfg;

/* Makes the entries up to a NULL the environment. Returns the number of lines on stderr. */
static inline unsigned parse_list(const char *const *entries)
{
	char *envp[ENV_MAX + 1] = {NULL};

	for (size_t i = 0; i < ENV_MAX && entries[i] != NULL; i++)
		envp[i] = strdup(entries[i]);
	sp_config_capture(envp);
	/* The host may clear its environment between the two steps. */
	for (size_t i = 0; envp[i] != NULL; i++) {
		memset(envp[i], '#', strlen(envp[i]));
		free(envp[i]);
	}
	stderr_begin();
	sp_config_parse(&cfg);
	return stderr_end();
}

#define PARSE(...) parse_list((const char *const[]){__VA_ARGS__, NULL})

#endif
