/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart/form-data as Go reads it: a part without a file name is a value, not a file.
 */
#ifndef PD_MULTIPART_H
#define PD_MULTIPART_H

#include "test/pyroscope/base.h"

struct pd_part {
	struct pd_bytes name;
	bool is_file;
	struct pd_bytes data;
};

/* The boundary of a Content-Type, empty when it is none of multipart/form-data. */
struct pd_bytes pd_multipart_boundary(const char *content_type);

/* 1 and advances in past the part; 0 after the last; -EBADMSG. */
int pd_multipart_next(struct pd_bytes *in, struct pd_bytes boundary, struct pd_part *part);

#endif
