/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of spanprof-probe. Each prints lines "key value" to stdout. */
#ifndef SP_PROBE_H
#define SP_PROBE_H

#include <stdbool.h>

#include "sampler/config.h"
#include "scripts/run/line.h"

/* One line. */
static inline void sp_probe_say(const char *key, const char *value)
{
	sp_line(stdout, "%s %s", key, value);
}

/* Pushes a profile without samples: "push 200" or "push unreachable", then "answer ...". */
void sp_probe_push(const struct sp_config *config);

/* Flattens a status file: "loss.ring_full 3". False when it cannot be read. */
bool sp_probe_status(const char *path);

/* The same for SPANPROF_STATUS_FILE of the process with that number; or a line "status.problem". */
void sp_probe_status_of(const char *pattern, unsigned pid);

#endif
