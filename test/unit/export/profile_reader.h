/* SPDX-License-Identifier: Apache-2.0 */
/* Reads profiles for tests, and is strict where the server is strict. */
#ifndef SP_PROFILE_READER_H
#define SP_PROFILE_READER_H

#include <stddef.h>
#include <stdint.h>

#include "profile.pb-c.h"

typedef Spanprof__Pprof__Profile profile;
typedef Spanprof__Pprof__Sample profile_sample;
typedef Spanprof__Pprof__Location profile_location;

/* Unpacks a profile and asserts everything that the server would check. Damage fails the test. */
profile *profile_read(const uint8_t *data, size_t len);
void profile_done(profile *p);

const char *profile_string(const profile *p, int64_t id);
/* Name of the i-th frame of a sample, leaf first; "" past the end. */
const char *profile_frame(const profile *p, const profile_sample *s, size_t i);
/* The text of a label, or NULL. */
const char *profile_label(const profile *p, const profile_sample *s, const char *key);
/* The number of strings in the table that equal s. */
unsigned profile_count_string(const profile *p, const char *s);
/* Sum of value[i] over all samples. */
int64_t profile_total(const profile *p, size_t i);

#endif
