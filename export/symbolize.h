/* SPDX-License-Identifier: Apache-2.0 */
/* Program counters to function names. Every address gets a name: a frame never vanishes. */
#ifndef SP_SYMBOLIZE_H
#define SP_SYMBOLIZE_H

#include <stddef.h>
#include <stdint.h>

#include "export/modules.h"

/* A mapped file, as the mapping of a profile. */
struct sp_place {
	uint64_t key; /* equal for equal places within one profile; never 0 */
	uint64_t start;
	uint64_t limit;
	uint64_t offset;
	const char *file;
	const uint8_t *build_id;
	size_t build_id_len;
};

struct sp_frame {
	struct sp_place place;
	uint64_t address;        /* runtime address; 0 = this frame is no code */
	const char *name;        /* for people */
	const char *system_name; /* as in the symbol table */
};

struct sp_symbolizer_limits {
	size_t symtab_bytes; /* of all symbol tables kept between uploads */
	size_t name_bytes;   /* of all names kept */
};

extern const struct sp_symbolizer_limits sp_symbolizer_limits_default;

struct sp_symbolizer;

/* NULL when out of memory. The modules must outlive it. */
struct sp_symbolizer *sp_symbolizer_new(struct sp_modules *modules,
					const struct sp_symbolizer_limits *limits);
void sp_symbolizer_free(struct sp_symbolizer *s);

/* Call before each profile: what was read of /proc/self/maps is out of date. */
void sp_symbolizer_begin(struct sp_symbolizer *s);

/* Names one address. Pointers in *out live until the next call on s. */
void sp_symbolize(struct sp_symbolizer *s, uint64_t pc, uint32_t epoch, struct sp_frame *out);

/* The mapping of the program itself: it goes first. False when it is unknown. */
bool sp_symbolize_main(const struct sp_symbolizer *s, struct sp_place *out);

/* A frame that stands for no code, such as "(other)". text must be static. */
void sp_symbolize_marker(const char *text, struct sp_frame *out);

/* Symbol tables read from files so far. */
unsigned sp_symbolizer_loads(const struct sp_symbolizer *s);

#endif
