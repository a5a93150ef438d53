/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose the CPU time outside of any span is, told by the stacks: an ordinary server has some, for
 * what comes before a request has a span and after it. Who calls: summary.c, for its table.
 */
#ifndef RIDESHARE_OUTSIDE_H
#define RIDESHARE_OUTSIDE_H

/*
 * Two files of folded stacks ("frame;frame nanoseconds"): all of the profile, and what belongs to
 * spans. Prints a line for each of those that have the rest. A file that cannot be read ends the
 * program with a message.
 */
void outside_print(const char *all, const char *in_spans);

#endif
