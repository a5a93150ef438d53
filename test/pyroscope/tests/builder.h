/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes profiles and push requests for the double's tests, good ones and, on purpose, bad ones:
 * nothing is checked. Written apart from the project's encoder and from the double's decoder.
 */
#ifndef PD_BUILDER_H
#define PD_BUILDER_H

#include "test/pyroscope/base.h"

struct pb_profile {
	struct pd_text body;
	struct pd_text strings; /* the table's fields, for the end of the body */
	char *known[64];        /* those pb_string() gave out */
	int64_t known_index[64];
	size_t knowns;
	int64_t string_count;
};

/* Wire format. */
void pb_varint(struct pd_text *t, uint64_t value);
void pb_number(struct pd_text *t, uint32_t field, uint64_t value);
void pb_bytes(struct pd_text *t, uint32_t field, const void *data, size_t len);
void pb_text(struct pd_text *t, uint32_t field, const char *text);
void pb_message(struct pd_text *t, uint32_t field, struct pd_text *m); /* frees m */

/* Strings: the first returns an index again for an equal text, the second never does. */
int64_t pb_string(struct pb_profile *p, const char *text);
int64_t pb_new_string(struct pb_profile *p, const void *data, size_t len);

void pb_value_type(struct pb_profile *p, uint32_t field, const char *type, const char *unit);
void pb_mapping(struct pb_profile *p, uint64_t id, int64_t filename, bool has_functions);
void pb_function(struct pb_profile *p, uint64_t id, int64_t name);
void pb_location(struct pb_profile *p, uint64_t id, uint64_t mapping, uint64_t function);
void pb_label(struct pd_text *labels, int64_t key, int64_t str, int64_t num);
void pb_sample(struct pb_profile *p, const uint64_t *location, size_t locations,
	       const int64_t *value, size_t values, struct pd_text *labels); /* frees labels */

/*
 * The frame of a good CPU profile: samples/count and cpu/nanoseconds, one mapping, functions and
 * locations 1 main, 2 work, 3 leaf. Samples are missing.
 */
void pb_start(struct pb_profile *p, int64_t time_nanos);
/* The same with this sample type alone. */
void pb_start_type(struct pb_profile *p, int64_t time_nanos, const char *type, const char *unit);

/* count samples of 10 ms in main > work > leaf; NULL = without that label. */
void pb_span(struct pb_profile *p, int64_t count, const char *span_id, const char *span_name,
	     const char *trace_id);

/* The finished pprof; the builder is empty afterwards. */
struct pd_text pb_finish(struct pb_profile *p);
struct pd_text pb_gzip(const struct pd_text *plain);

/* A PushRequest of one sample; labels are name, value, ..., NULL. */
struct pd_text pb_request(const char *const *labels, struct pd_bytes raw);

#endif
