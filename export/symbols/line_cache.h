/* SPDX-License-Identifier: Apache-2.0 */
/* Lines and inlined functions by address, so that debug information is read once per address. */
#ifndef SP_LINE_CACHE_H
#define SP_LINE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/util/hash_index.h"
#include "export/util/strtab.h"

/* Ids of texts[]. 0 = unknown. */
struct sp_cached_line {
	uint32_t name;
	uint32_t system_name;
	uint32_t file;
	uint32_t line;
};

/* Zero it at first use and set limit. */
struct sp_line_cache {
	size_t limit;            /* bytes */
	struct sp_line_run *run; /* by address */
	size_t runs, run_cap;
	struct sp_hash_index by_address;
	struct sp_cached_line *line;
	uint32_t lines;
	size_t line_cap;
	struct sp_strtab texts;
	bool ready; /* texts is made */
};

/* What is known of the address, innermost first: *n lines, which may be none. False when it was
 * never asked for. */
bool sp_line_cache_get(const struct sp_line_cache *c, uint32_t serial, uint64_t vaddr,
		       const struct sp_cached_line **line, unsigned *n);

/* Id of a text for the lines of the next put, 0 for NULL and when out of memory. */
uint32_t sp_line_cache_text(struct sp_line_cache *c, const char *text);

/* Remembers an address; does nothing when out of memory. */
void sp_line_cache_put(struct sp_line_cache *c, uint32_t serial, uint64_t vaddr,
		       const struct sp_cached_line *line, unsigned n);

bool sp_line_cache_full(const struct sp_line_cache *c);
void sp_line_cache_clear(struct sp_line_cache *c);

#endif
