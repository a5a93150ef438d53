/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of spans went, by their name: on a processor, runnable and waiting for one, or blocked; and in
 * which stacks most of it. From profiles of CPU time and, beside them, of waiting time (SPANPROF_OFF_CPU) or of
 * both (SPANPROF_WALL). Where both are there, those of waiting time count.
 */
#ifndef SP_REPORT_SPAN_WAITS_H
#define SP_REPORT_SPAN_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/report/load.h"
#include "export/util/hash_index.h"
#include "export/util/strtab.h"

/* Types of profiles. */
enum sp_waits_source { SP_WAITS_CPU, SP_WAITS_OFF_CPU, SP_WAITS_WALL, SP_WAITS_SOURCES };

enum sp_waits_state { SP_WAITS_ON_CPU, SP_WAITS_RUNNABLE, SP_WAITS_BLOCKED, SP_WAITS_STATES };

struct sp_waits_name {
	uint32_t name;                     /* in text */
	uint32_t spans;                    /* distinct ids */
	uint64_t all_ns[SP_WAITS_SOURCES]; /* in profiles of that type */
	uint64_t runnable_ns[SP_WAITS_SOURCES];
	uint64_t ns[SP_WAITS_STATES]; /* sp_span_waits_sort() */
	uint32_t order;               /* among the names, the same */
};

/*
 * Frames of a stack that tell it from others of its name: more would not fit a line. Stacks are kept as
 * numbers of their frames, as an hour of a busy program has hundreds of thousands that differ.
 */
#define SP_WAITS_FRAMES 8U

struct sp_waits_stack {
	uint32_t name;                   /* its row */
	uint32_t frame[SP_WAITS_FRAMES]; /* in text, leaf first; 0 = there are no more */
	uint8_t state;                   /* enum sp_waits_state */
	uint8_t source;                  /* enum sp_waits_source */
	uint64_t ns;
};

struct sp_span_waits {
	enum sp_waits_source source; /* of the profile that is being read */
	bool seen[SP_WAITS_SOURCES];
	struct sp_strtab text;
	uint32_t *row; /* by text: the number of its row, plus 1 */
	size_t row_cap;
	struct sp_waits_name *name;
	size_t names, name_cap;
	struct sp_waits_stack *stack;
	size_t stacks, stack_cap;
	struct sp_hash_index by_frames; /* while it adds up */
	bool nomem;
};

/* 0 or -1 when out of memory; sp_span_waits_fini() is right after either. */
int sp_span_waits_init(struct sp_span_waits *w);
void sp_span_waits_fini(struct sp_span_waits *w);

/* What follows is of a profile of that type. */
void sp_span_waits_begin(struct sp_span_waits *w, const char *type);

/* A sample of it. When memory runs out, nomem is set. */
void sp_span_waits_add(struct sp_span_waits *w, const struct sp_report_sample *s);

/* Memory in use. */
size_t sp_span_waits_bytes(const struct sp_span_waits *w);

/* Adds up: names with the most time first, and the stacks of each, largest first. */
void sp_span_waits_sort(struct sp_span_waits *w);

/* There is waiting time to show. */
bool sp_span_waits_any(const struct sp_span_waits *w);

/* Only after sorting. So many stacks of a name from *at on, which is 0 at first; NULL = that was the last. */
const struct sp_waits_stack *sp_span_waits_next(const struct sp_span_waits *w, uint32_t name_row,
						size_t *at);

const char *sp_span_waits_text(const struct sp_span_waits *w, uint32_t id);

/* Leaf first, "read (pipe) < fill < parse", each name cut to 256 bytes. */
#define SP_WAITS_STACK_TEXT ((size_t)SP_WAITS_FRAMES * 260)
void sp_span_waits_describe(const struct sp_span_waits *w, const struct sp_waits_stack *s,
			    char out[SP_WAITS_STACK_TEXT]);

/* A word for each state. */
extern const char *const sp_waits_state_words[SP_WAITS_STATES];

#endif
