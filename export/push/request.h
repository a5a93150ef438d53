/* SPDX-License-Identifier: Apache-2.0 */
/* One profile as it goes to the server, by either protocol. */
#ifndef SP_REQUEST_H
#define SP_REQUEST_H

#include <stdint.h>

#include "export/profile/pprof.h"
#include "export/push/series.h"
#include "sampler/config/config.h"

/* So many may be on their way to the server at a time. */
#define SP_TRANSFERS 16U

struct sp_message {
	enum sp_profile_type type;
	struct sp_bytes body;
	char *query; /* behind the path, from '?' on; NULL = none */
	/* Begin and end of the profile, the latter when the first message with it was made. */
	int64_t from_ns;
	int64_t until_ns;
};

struct sp_request {
	enum sp_protocol protocol;
	const struct sp_series *series;
	enum sp_profile_type type; /* which gives the series its name */
	const char *id;            /* for the server's log */
	int64_t from_ns;
	int64_t until_ns;
	uint32_t rate_hz;
};

/* 0 or -ENOMEM; then sp_message_fini() is not needed, but harmless. */
int sp_request_make(const struct sp_request *r, const struct sp_bytes *profile,
		    struct sp_message *out);
void sp_message_fini(struct sp_message *m);

/* The profile that a message carries. 0, -ENOMEM or -EINVAL. */
int sp_message_profile(enum sp_protocol protocol, const struct sp_message *m, struct sp_bytes *out);

#endif
