/* SPDX-License-Identifier: Apache-2.0 */
/* Whose code a frame is: what the colours of a flame graph say. */
#ifndef SP_REPORT_FRAME_KIND_H
#define SP_REPORT_FRAME_KIND_H

#include <stdbool.h>

enum sp_frame_kind {
	SP_FRAME_OWN, /* the program, and shared objects that are not installed */
	SP_FRAME_LIBRARY, /* installed shared objects, and what their headers brought into the program */
	SP_FRAME_KERNEL,    /* the kernel, and the page of code that it lends (vdso) */
	SP_FRAME_WAITING,   /* no code: what a thread waits for */
	SP_FRAME_UNSAMPLED, /* no code: CPU time between samples */
	SP_FRAME_MARKER,    /* no code: where something is missing */
	SP_FRAME_SPAN,      /* no code: the name of a span, at the root */
	SP_FRAME_KIND_N,
};

/* What is known of a frame besides its name; texts are never NULL. */
struct sp_frame_place {
	const char *object;   /* the file that is mapped there, "" = none */
	const char *source;   /* "" = unknown */
	bool is_leaf_of_wait; /* the leaf of a sample in a profile of waiting time */
};

enum sp_frame_kind sp_frame_kind_of(const char *name, const struct sp_frame_place *place);

/* The word for it in the data of a flame graph. */
extern const char *const sp_frame_kind_words[SP_FRAME_KIND_N];

#endif
