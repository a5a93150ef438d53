/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which releases of haproxytech/opentelemetry-c-wrapper the adapter knows. The library's version
 * identifies its binary interface exactly: HAProxy itself refuses any but the one that it was built
 * for. APP context.
 */
#ifndef SP_HAPROXY_VERSIONS_H
#define SP_HAPROXY_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_haproxy_layout {
	unsigned ops_offset;   /* of the pointer to its functions in a tracer, in bytes */
	unsigned tracer_slots; /* functions in that table */
};

/* A longer text is not a version. */
#define SP_HAPROXY_VERSION_MAX 32U

/*
 * The layout of the release with this version text, "MAJOR.MINOR.PATCH-BUILD". False for every
 * release that is not known, and for build 0, the stub that HAProxy's own tests link instead.
 */
bool sp_haproxy_layout_of(const char *version, struct sp_haproxy_layout *out);

/* The table lies in the object that defines function, and so does the code of all its functions. */
bool sp_haproxy_table_ok(const void *function, const void *table, size_t slots);

#endif
