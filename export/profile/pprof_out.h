/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a profile that are final already. */
#ifndef SP_PPROF_OUT_H
#define SP_PPROF_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "profile.pb-c.h"

/* Zero it at first use. */
struct sp_pprof_out {
	uint8_t *data; /* malloc'ed */
	size_t len;
	size_t cap;
};

/* Bytes of a field of n bytes whose number is below 16. */
size_t sp_pprof_out_framed(size_t n);

/* Appends the fields that are set. 0 or -ENOMEM. */
int sp_pprof_out_part(struct sp_pprof_out *out, const Spanprof__Pprof__Profile *part);

/* Appends one sample. Its labels are indexes, without numbers. 0 or -ENOMEM. */
int sp_pprof_out_sample(struct sp_pprof_out *out, const Spanprof__Pprof__Sample *sample);

#endif
