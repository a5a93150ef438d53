/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that a profile is of, for whoever carries the profile further: its labels, its counters,
 * and what is lost of its profiles. It lives as long as one of them is queued.
 */
#ifndef SP_ORIGIN_H
#define SP_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/file_sink.h"
#include "export/losses.h"
#include "export/series.h"

struct sp_origin {
	const struct sp_core_ops *ops;
	struct sp_series series;
	struct sp_losses losses;
	struct sp_file_sink *files; /* NULL = no folder */
	uint32_t requests;          /* made so far */
	uint32_t queued;            /* profiles that wait for the server, or are on their way */
	bool is_pushing; /* one is on its way: those of a process go one after the other */
};

#endif
