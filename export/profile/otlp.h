/* SPDX-License-Identifier: Apache-2.0 */
/* One profile in OTLP, as it goes to a collector and into files, and what comes back for it. */
#ifndef SP_OTLP_H
#define SP_OTLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/profile/pprof.h"

/*
 * Makes an ExportProfilesServiceRequest of a profile of pprof.c, with profiles of the resource in the times: one in
 * nanoseconds, but for memory two, of blocks and of bytes, and for CPU time two, of samples and of the time between them,
 * each with a period, which is the form that servers know it in. 0 or -ENOMEM; free out->data.
 */
int sp_otlp_make(const struct sp_bytes *pprof, const struct sp_pprof_times *times,
		 struct sp_bytes *out);

/* A resource with those attributes, which have texts. 0 or -ENOMEM; free out->data. */
int sp_otlp_resource(const struct sp_label *attributes, size_t n, struct sp_bytes *out);

/*
 * Reads the body of an answer: the message of what is wrong, if there is one, becomes a text, "" = none, and rejected
 * is how many profiles the server has not taken of a request that it took otherwise. False: it is no such body.
 */
bool sp_otlp_answer(const void *body, size_t len, bool is_good, int64_t *rejected, char *text,
		    size_t cap);

#endif
