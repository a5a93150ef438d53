/* SPDX-License-Identifier: Apache-2.0 */
/* The labels of the series that all profiles of this process belong to. */
#ifndef SP_SERIES_H
#define SP_SERIES_H

#include <stddef.h>
#include <stdint.h>

#include "export/profile/pprof_request.h"
#include "sampler/config/config.h"

/* The server allows 30 label names per series; some are left for the labels of samples. */
#define SP_SERIES_MAX 25U

struct sp_series {
	struct sp_label label[SP_SERIES_MAX];
	size_t n;
	char *text; /* of all labels */
	size_t used;
	size_t cap;
};

/* Called for a label that cannot be taken; name is not NUL-terminated. */
typedef void (*sp_series_refused)(void *arg, const char *name, size_t len, const char *reason);

/*
 * __name__, service_name, pid, hostname, what SPANPROF_LABELS adds, and the attributes of the resource
 * that are to be labels; of two labels of one name the user's own counts. Names are made safe for every server
 * version, values are cleaned and cut. 0 or -ENOMEM; sp_series_fini() is right after either.
 */
int sp_series_init(struct sp_series *s, const struct sp_config *config, uint32_t pid,
		   sp_series_refused refused, void *arg);
void sp_series_fini(struct sp_series *s);

#endif
