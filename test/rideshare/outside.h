/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owners of the CPU time outside of spans, by its stacks: an ordinary server has some before and after the span
 * of a request. Caller: summary.c, for its table.
 */
#ifndef RIDESHARE_OUTSIDE_H
#define RIDESHARE_OUTSIDE_H

/*
 * Two files of folded stacks ("frame;frame nanoseconds"): of the whole profile, and of spans. Prints a line for each
 * owner of the rest. A file that cannot be read ends the program with a message.
 */
void outside_print(const char *all, const char *in_spans);

#endif
