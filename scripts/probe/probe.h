/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of spanprof-probe. Each prints lines "key value" to stdout. */
#ifndef SP_PROBE_H
#define SP_PROBE_H

#include <stdbool.h>

#include "sampler/config.h"

/* One line; control characters of the value become spaces, those of the key underscores. */
void sp_probe_say(const char *key, const char *value);

/* Pushes a profile without samples: "push 200" or "push unreachable", then "answer ...". */
void sp_probe_push(const struct sp_config *config);

/* Flattens a status file: "loss.ring_full 3". False when it cannot be read. */
bool sp_probe_status(const char *path);

#endif
