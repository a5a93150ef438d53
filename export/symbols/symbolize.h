/* SPDX-License-Identifier: Apache-2.0 */
/* Maps program counters to function names. Every address gets a name: no frame ever vanishes. */
#ifndef SP_SYMBOLIZE_H
#define SP_SYMBOLIZE_H

#include <stddef.h>
#include <stdint.h>

#include "export/objects/modules.h"
#include "export/symbols/builds.h"
#include "sampler/config/config.h"

/* A mapped file, as the mapping of a profile. */
struct sp_place {
	uint64_t key; /* equal for equal mappings within one profile; never 0 */
	uint64_t start;
	uint64_t limit;
	uint64_t offset;
	const char *file;
	const uint8_t *build_id;
	size_t build_id_len;
	bool raw;   /* the server will look up names: frames have an ELF address and no name */
	bool lines; /* the debug information is known */
	bool own;   /* the profiler's own object: not shown */
	enum sp_lack lack;
};

/* One function at an address. */
struct sp_line {
	const char *name;
	const char *system_name;
	const char *file; /* "" = unknown */
	uint32_t line;    /* 0 = unknown */
};

struct sp_frame {
	struct sp_place place;
	uint64_t address;        /* runtime address, or ELF address if place.raw; 0 = no code */
	const char *name;        /* readable name of the function that is not inlined */
	const char *system_name; /* the name in the symbol table */
	/* innermost first; the last one is the function that is not inlined */
	const struct sp_line *line;
	unsigned lines;  /* at least 1 */
	bool is_unnamed; /* its name is an object and an address */
};

struct sp_symbolizer_options {
	enum sp_symbolize_mode mode;
	const char *debug_root; /* SP_DEBUG_ROOT, or a test's */
	/* As in builds.h; called by sp_symbolizer_step() or sp_symbolize(). */
	int (*fetch)(void *arg, const uint8_t *id, size_t id_len, char *path, size_t cap);
	void *fetch_arg;
};

extern const struct sp_symbolizer_options sp_symbolizer_options_default;

/* What could not be looked up so far. */
struct sp_symbolizer_losses {
	unsigned changed;    /* objects whose file was changed while it was read */
	unsigned over_limit; /* objects whose debug information needs too much memory */
	unsigned unreadable; /* as in builds.h */
	unsigned late;       /* addresses whose lines were not found in time */
};

struct sp_symbolizer;

/*
 * NULL when out of memory. The modules belong to the process of the addresses, see sp_symbolizer_turn_to(); NULL =
 * set later.
 */
struct sp_symbolizer *sp_symbolizer_new(struct sp_modules *modules,
					const struct sp_symbolizer_options *options);
void sp_symbolizer_free(struct sp_symbolizer *s);

/*
 * From now on addresses belong to the process of these modules. The modules must outlive the symbolizer, or the next
 * call. Objects that were read for one process serve all processes.
 */
void sp_symbolizer_turn_to(struct sp_symbolizer *s, struct sp_modules *modules);

/*
 * To prepare a profile, call sp_symbolizer_begin(), want() for every address, step() until it returns false or time
 * is over, end(). An address that was not prepared is named by its symbol alone. step() works for about ns and
 * returns true if there is more to do; descriptors may be open until end().
 */
void sp_symbolizer_want(struct sp_symbolizer *s, uint64_t pc, uint32_t epoch);
bool sp_symbolizer_step(struct sp_symbolizer *s, uint64_t ns);
void sp_symbolizer_end(struct sp_symbolizer *s);

/* Call before each profile, after the modules were refreshed. */
void sp_symbolizer_begin(struct sp_symbolizer *s);
/* See sp_builds_hurry(). */
void sp_symbolizer_hurry(struct sp_symbolizer *s, bool is_hurried);

/* Names one address. Pointers in *out live until the next call on s. */
void sp_symbolize(struct sp_symbolizer *s, uint64_t pc, uint32_t epoch, struct sp_frame *out);

/*
 * The mapping of the program itself, which is the first one of a profile. False if it is unknown.
 */
bool sp_symbolize_main(struct sp_symbolizer *s, struct sp_place *out);

/* A frame that stands for no code, such as "(other)". text must be static; *line becomes part of
 * the frame. */
void sp_symbolize_marker(const char *text, struct sp_line *line, struct sp_frame *out);

void sp_symbolizer_losses(const struct sp_symbolizer *s, struct sp_symbolizer_losses *out);

/*
 * The number of builds whose files were read so far. Only tests use this, to check that each is
 * read once.
 */
unsigned sp_symbolizer_loads(const struct sp_symbolizer *s);

#endif
