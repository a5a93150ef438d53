/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of spanprof-probe. Each prints lines "key value" to stdout. */
#ifndef SP_PROBE_H
#define SP_PROBE_H

#include <stdbool.h>

#include "export/push/push.h"
#include "sampler/config/config.h"
#include "scripts/run/line.h"

/* One line. */
static inline void sp_probe_say(const char *key, const char *value)
{
	sp_line(stdout, "%s %s", key, value);
}

/* Pushes a profile without samples. False: there is no way to push to that address. */
bool sp_probe_push(const struct sp_config *config, struct sp_reply *reply);

/* "http" or "https" when the server of that address answers the one that it does not name, else NULL. */
const char *sp_probe_other_scheme(const struct sp_config *config);

/* Tells about "server"; untried: why nothing may be sent, NULL = it may. */
void sp_probe_server(const struct sp_config *config, bool push, const char *untried);

/* Flattens a status file: "loss.ring_full 3". False when it cannot be read. */
bool sp_probe_status(const char *path);

/* Tells about "status": SPANPROF_STATUS_FILE of the process with that number. */
void sp_probe_status_of(const char *pattern, unsigned pid);

#endif
