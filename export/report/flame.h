/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call tree as a picture: one SVG file that needs no other file, and is readable without its
 * script.
 */
#ifndef SP_REPORT_FLAME_H
#define SP_REPORT_FLAME_H

#include <stdbool.h>
#include <stdio.h>

#include "export/report/tree.h"

/* Untrusted texts; they are cleaned and escaped here. */
struct sp_flame_head {
	const char *title;
	const char *subtitle;
	bool diff; /* colours tell the difference to the baseline */
};

/* Expects a sorted tree. Equal trees give equal bytes. */
void sp_flame_print(FILE *out, const struct sp_tree *t, const struct sp_flame_head *head);

/* The parts of the file that do not depend on the profile. Complete elements. */
extern const char sp_flame_style[];
extern const char sp_flame_controls[];
extern const char sp_flame_script[];

/* A picture's width, and what surrounds it, in pixels; the script gets them from the frames. */
#define SP_FLAME_WIDTH 1200.0
#define SP_FLAME_MARGIN 10.0
#define SP_FLAME_HEAD 70.0
#define SP_FLAME_ROW 18.0

#endif
