/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the server takes a profile, and which parts of it the server cuts off. */
#ifndef PD_VALIDATE_H
#define PD_VALIDATE_H

#include "test/pyroscope/labels.h"
#include "test/pyroscope/losses.h"
#include "test/pyroscope/profile.h"

struct pd_candidate {
	struct pd_profile *profile;
	size_t bytes; /* uncompressed */
	struct pd_labels series;
	struct pd_losses *losses;
};

/*
 * As the server's ValidateProfile: the same checks, order, reasons and messages. Cuts stacks and
 * strings as the server does. 0, or -1 with the error set.
 */
int pd_validate_profile(const struct pd_limits *limits, const struct pd_candidate *c,
			int64_t now_ns, struct pd_error *e);

/*
 * Refuses mistakes that the server would accept without a message, or would not notice: they are
 * never right in profiles of this project. Call it after the server's checks. 0, or -1 with reason
 * "strict".
 */
int pd_validate_strict(const struct pd_profile *p, struct pd_error *e);

#endif
