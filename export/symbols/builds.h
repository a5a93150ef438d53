/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a build say about its addresses: symbols, where functions begin, lines. */
#ifndef SP_BUILDS_H
#define SP_BUILDS_H

#include "export/objects/modules.h"
#include "export/symbols/lines.h"

#define SP_SYMBOL_MAX 4096U /* bytes of a name; longer ones are cut */
/* Builds whose files were changed while they were read, before no others are opened until the hour is over. */
#define SP_BUILDS_CHANGED_MAX 8U

struct sp_build_sources {
	const char *debug_root; /* SP_DEBUG_ROOT, or a test's */
	bool symbols;           /* symbols are wanted, not only where functions begin */
	bool dwarf;             /* debug information is wanted, not only names */
	/* Asks servers for the debug file of a build: a descriptor and its path, or a negative
	 * errno; but for -ENOENT and -ENOSYS it is asked again when the build is looked up next, so who
	 * must not be asked that often says -EAGAIN. NULL = nobody is asked. */
	int (*fetch)(void *arg, const uint8_t *id, size_t id_len, char *path, size_t cap);
	void *fetch_arg;
};

/* What is known of an address. Texts are copies in text. */
struct sp_answer {
	const char *symbol; /* that covers it; NULL = none */
	uint64_t start;     /* of its function; the address itself where that is unknown */
	bool has_lines;     /* the debug information of its object is known */
	bool is_final;      /* there will be no more to know of it */
	bool is_fileless;   /* unless its module has a file one day */
	unsigned lines;     /* innermost first */
	struct sp_source_line line[SP_LINES_DEPTH];
	size_t used;
	char text[(size_t)3 * (SP_LINES_DEPTH + 1) * SP_SYMBOL_MAX];
};

/* What could not be done so far. */
struct sp_build_losses {
	unsigned over_limit; /* builds whose debug information is too large */
	unsigned changed;    /* builds whose file was changed while it was read */
};

struct sp_builds;

/* NULL when out of memory. */
struct sp_builds *sp_builds_new(const struct sp_build_sources *sources);
void sp_builds_free(struct sp_builds *b);

/* Answers for an address of the file of that module; without lines if they are not wanted. */
void sp_builds_ask(struct sp_builds *b, const struct sp_module *mod, uint64_t vaddr, bool lines,
		   struct sp_answer *out);

/* From now on separate, packed debug files that are not open yet are left alone, unless they are small. */
void sp_builds_hurry(struct sp_builds *b, bool is_hurried);

/* There is nothing to be asked for a while: gives memory and descriptors back. */
void sp_builds_rest(struct sp_builds *b);

struct sp_build_losses sp_builds_losses(const struct sp_builds *b);

/* How often a build's files were opened, and how often for one that had been asked for without a file. */
unsigned sp_builds_loads(const struct sp_builds *b);
unsigned sp_builds_reopened(const struct sp_builds *b);

#endif
