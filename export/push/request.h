/* SPDX-License-Identifier: Apache-2.0 */
/* One profile as it goes to the server, by either protocol. */
#ifndef SP_REQUEST_H
#define SP_REQUEST_H

#include <stdint.h>

#include "export/profile/interval.h"
#include "export/profile/pprof.h"
#include "export/push/series.h"
#include "sampler/config/config.h"

/* So many may be on their way to the server at a time. */
#define SP_TRANSFERS 16U

struct sp_message {
	enum sp_profile_type type;
	uint64_t samples; /* that the profile stands for */
	/* What it was encoded from, held: records from first to end - 1. NULL = it cannot be encoded again. */
	struct sp_interval *interval;
	uint32_t first;
	uint32_t end;
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

/* Without an interval. 0 or -ENOMEM; then sp_message_fini() is not needed, but harmless. */
int sp_request_make(const struct sp_request *r, const struct sp_bytes *profile,
		    struct sp_message *out);
void sp_message_fini(struct sp_message *m);

#endif
