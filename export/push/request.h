/* SPDX-License-Identifier: Apache-2.0 */
/* One profile as it goes to the server, by either protocol. */
#ifndef SP_REQUEST_H
#define SP_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "export/profile/interval.h"
#include "export/profile/pprof.h"
#include "sampler/config/config.h"

/* The server allows 30 label names per series; some are left for the labels of samples. */
#define SP_SERIES_MAX 25U

/* The labels of the series that all profiles of a process belong to. */
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

/*
 * The same for OTLP: the service, the whole resource of the program, what SPANPROF_LABELS adds, host and process,
 * packed. 0 or -ENOMEM; free out->data.
 */
int sp_resource_make(const struct sp_config *config, uint32_t pid, const char *version,
		     struct sp_bytes *out);

/* So many may be on their way to the server at a time. */
#define SP_TRANSFERS 16U

struct sp_message {
	enum sp_profile_type type;
	uint64_t samples; /* that the profile stands for */
	/* What it was encoded from, held: records from first to end - 1. NULL = it cannot be encoded again. */
	struct sp_interval *interval;
	uint32_t first;
	uint32_t end;
	uint32_t records; /* of these that are in it */
	struct sp_bytes body;
	char *query; /* behind the path, from '?' on; NULL = none */
	/* Begin and end of the profile, the latter when the first message with it was made. */
	int64_t from_ns;
	int64_t until_ns;
};

struct sp_request {
	enum sp_protocol protocol;
	enum sp_compression compression; /* of OTLP */
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

/* The query of POST /ingest, which carries the series labels: "?name=...", for the caller to free. 0 or -ENOMEM. */
int sp_ingest_query(const struct sp_request *r, char **out);

#endif
