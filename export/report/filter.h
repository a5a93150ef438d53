/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options --focus, --ignore and --hide: POSIX extended regular expressions of frame names,
 * which select samples and frames. "go tool pprof" has options of these names with the same effect.
 * Names of spans are not compared.
 */
#ifndef SP_REPORT_FILTER_H
#define SP_REPORT_FILTER_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "export/report/load.h"

enum sp_filter_by {
	SP_FILTER_FOCUS,  /* selects samples with a matching frame */
	SP_FILTER_IGNORE, /* removes samples with a matching frame */
	SP_FILTER_HIDE,   /* removes matching frames, and samples without other frames */
	SP_FILTER_N,
};

/* Initially zero: everything is shown. */
struct sp_filter {
	const char *text[SP_FILTER_N]; /* as given; owned by the caller; NULL = not given */
	regex_t pattern[SP_FILTER_N];
	bool lines; /* names are compared with their files and lines, as the report shows them */
};

#define SP_FILTER_WHY 128

/* Sets an expression, or replaces it. 0, or -1 with the reason in why. */
int sp_filter_set(struct sp_filter *f, enum sp_filter_by by, const char *text,
		  char why[SP_FILTER_WHY]);
void sp_filter_fini(struct sp_filter *f);

bool sp_filter_is_set(const struct sp_filter *f);

/* The name of the option: "focus". */
const char *sp_filter_word(enum sp_filter_by by);

/* The data of one reading. Initially zero. */
struct sp_filter_use {
	bool matched[SP_FILTER_N]; /* a frame has matched */
	struct sp_report_frame *frame;
	size_t cap;
};

/*
 * Whether the sample is shown. If so, *s has only the frames that are shown, in memory that is
 * valid until the next call. When out of memory, sets nomem and returns false.
 */
bool sp_filter_sample(const struct sp_filter *f, struct sp_filter_use *use,
		      struct sp_report_sample *s, bool *nomem);
void sp_filter_use_fini(struct sp_filter_use *use);

#endif
