/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that a profile belongs to: its labels, its counters and its losses, for whoever
 * handles the profile after it was encoded. It lives as long as one of its profiles is queued.
 */
#ifndef SP_ORIGIN_H
#define SP_ORIGIN_H

#include <stdint.h>

#include "export/export.h"
#include "export/push/file_sink.h"
#include "export/push/series.h"
#include "export/util/losses.h"

struct sp_origin {
	const struct sp_core_ops *ops;
	struct sp_series series;
	struct sp_losses losses;
	struct sp_file_sink *files; /* NULL = no folder */
	uint32_t requests;          /* made so far */
	uint32_t unnamed;           /* intervals that no profile was made of yet */
	uint32_t queued;            /* profiles that wait for the server or are being sent */
	uint32_t pushing;           /* of these, those that are being sent */
};

#endif
