/* SPDX-License-Identifier: Apache-2.0 */
/* The request that carries a profile to the server. */
#ifndef SP_PPROF_REQUEST_H
#define SP_PPROF_REQUEST_H

#include <stddef.h>

#include "export/profile/pprof.h"

struct sp_label {
	const char *name;
	const char *value;
};

/* A push request with one series and one profile. 0 or -ENOMEM. */
int sp_pprof_request(const struct sp_label *labels, size_t n, const char *id,
		     const struct sp_bytes *profile, struct sp_bytes *out);

#endif
