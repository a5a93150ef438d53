/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a request in OTLP from one profile, for a collector or for a file, and reads the answer. */
#ifndef SP_OTLP_H
#define SP_OTLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/profile/pprof.h"

/*
 * Makes an ExportProfilesServiceRequest from a profile of pprof.c or cut.c of that type, with that resource. It has one profile
 * of nanoseconds or bytes, and before it, for CPU time and memory, one of the number of samples or blocks. All sums
 * are right without the period. 0 or -ENOMEM; free out->data.
 */
int sp_otlp_make(const struct sp_bytes *pprof, enum sp_profile_type type,
		 const struct sp_bytes *resource, struct sp_bytes *out);

/* Packs a resource with those attributes, whose values are texts. 0 or -ENOMEM; free out->data. */
int sp_otlp_resource(const struct sp_label *attributes, size_t n, struct sp_bytes *out);

/*
 * Reads the body of an answer. text gets the server's error message, "" = none; rejected the number of profiles that
 * the server rejected from a request that it otherwise took. False: the body is no such answer.
 */
bool sp_otlp_answer(const void *body, size_t len, bool is_good, int64_t *rejected, char *text,
		    size_t cap);

#endif
