/* SPDX-License-Identifier: Apache-2.0 */
/* The process that a profile belongs to, as far as delivery needs it. */
#ifndef SP_ORIGIN_H
#define SP_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/profile/missing.h"
#include "export/profile/pprof.h"
#include "export/profile/recent.h"
#include "export/profile/series_labels.h"
#include "export/push/request.h"
#include "export/util/losses.h"

struct sp_file_sink;

/* Samples and waits of a process that one server has taken, or lost. */
struct sp_delivery {
	uint64_t samples_sent, samples_lost;
	uint64_t waits_sent, waits_lost;
};

/*
 * The labels, counters and losses of a process. It lives as long as one of its profiles is queued.
 */
struct sp_origin {
	const struct sp_core_ops *ops;
	struct sp_series series;
	struct sp_bytes resource;        /* the labels as an OTLP resource; NULL = not needed */
	struct sp_series_labels *labels; /* labels of samples for servers; NULL = no server */
	bool is_at_server;               /* a profile of this process was made for a server */
	struct sp_losses losses;
	struct sp_file_sink *files; /* NULL = no folder */
	struct sp_recent recent;    /* recent intervals with samples of roots that may be slow */
	struct sp_missing missing;  /* of intervals whose addresses were looked up */
	uint32_t requests;          /* number of requests made so far */
	uint32_t unnamed;           /* intervals without a profile so far */
	/* profiles that wait for a server or are being sent, once per server */
	uint32_t queued;
	uint32_t pushing; /* how many of them are being sent */
	struct sp_delivery delivery[SP_SERVERS_MAX];
};

#endif
