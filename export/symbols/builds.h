/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers questions about addresses from the files of their build: symbols, starts of functions,
 * lines.
 */
#ifndef SP_BUILDS_H
#define SP_BUILDS_H

#include "export/objects/modules.h"
#include "export/symbols/lines.h"

#define SP_SOURCE_PATH_MAX 4096U /* bytes of the path of a source file; a longer one is cut */
/* After this many builds whose files changed while they were read, no others are opened until the hour is over. */
#define SP_BUILDS_CHANGED_MAX 8U

/* Bytes for the names and paths of one address. If they do not suffice, the address has no lines. */
#define SP_ANSWER_TEXT ((size_t)512 << 10)

struct sp_build_sources {
	const char *debug_root; /* SP_DEBUG_ROOT, or a folder of a test */
	bool symbols;           /* symbols are wanted; otherwise only the starts of functions */
	bool dwarf;             /* debug information is wanted as well */
	/*
	 * Asks servers for the debug file of a build. Returns a descriptor and its path, or a negative errno. After
	 * any error but -ENOENT and -ENOSYS it is called again when the build is looked up next, so it returns
	 * -EAGAIN if servers must not be asked that often. NULL = no server is asked.
	 */
	int (*fetch)(void *arg, const uint8_t *id, size_t id_len, char *path, size_t cap);
	void *fetch_arg;
};

/* Why functions of an object have no names or no lines. */
enum sp_lack {
	SP_LACK_NOTHING,
	SP_LACK_DEBUG_FILE, /* its debug information is in a separate file, which was not found */
	SP_LACK_DEBUG_INFO, /* it has none, and no build id to find one */
	SP_LACK_OVER_LIMIT, /* unpacked, its debug information would take too much memory */
	SP_LACK_PACKED,     /* it is packed in a way that libelf does not know */
	SP_LACK_PARTS, /* it is in a .dwp, which libdw does not read, or its .dwo files are gone */
	SP_LACK_DAMAGED,   /* libdw cannot read it for another reason */
	SP_LACK_FILE,      /* the file is gone, or is no ELF file */
	SP_LACK_RIGHTS,    /* the file may not be read by the user of the process */
	SP_LACK_SAME_FILE, /* the file was changed since it was mapped */
	/* code that was generated at run time, without a name from the program */
	SP_LACK_MAP,
	SP_LACKS
};

/* The answer about one address. Its strings are in `text`. */
struct sp_answer {
	const char *symbol; /* the symbol that covers it, at most SP_MANGLED_MAX bytes and "@plt";
                           * NULL = none */
	uint64_t start;     /* start of its function; the address itself if the start is unknown */
	bool has_lines;     /* the debug information of its object is known */
	bool is_final;      /* a later question has no better answer */
	bool is_fileless;   /* the module has no file so far; a later file may change the answer */
	enum sp_lack lack;
	unsigned lines; /* innermost first */
	struct sp_source_line line[SP_LINES_DEPTH];
	size_t used;
	char text[SP_ANSWER_TEXT];
};

/* Builds with incomplete answers so far. */
struct sp_build_losses {
	unsigned over_limit; /* builds whose debug information is too large */
	unsigned
		unreadable; /* builds whose debug information is in a form that libelf or libdw does not know */
	unsigned changed; /* builds whose file was changed while it was read */
};

struct sp_builds;

/* NULL when out of memory. */
struct sp_builds *sp_builds_new(const struct sp_build_sources *sources);
void sp_builds_free(struct sp_builds *b);

/* Answers for an address of the file of that module; without lines if they are not wanted. */
void sp_builds_ask(struct sp_builds *b, const struct sp_module *mod, uint64_t vaddr, bool lines,
		   struct sp_answer *out);

/*
 * is_hurried: separate packed debug files that are not open yet are skipped, unless they are small.
 */
void sp_builds_hurry(struct sp_builds *b, bool is_hurried);

/* Call it when no address will be looked up for a while: frees memory and descriptors. */
void sp_builds_rest(struct sp_builds *b);

struct sp_build_losses sp_builds_losses(const struct sp_builds *b);

/*
 * The number of times that files of builds were opened, and the number of times that this was for a build whose
 * module had no file before.
 */
unsigned sp_builds_loads(const struct sp_builds *b);
unsigned sp_builds_reopened(const struct sp_builds *b);

#endif
