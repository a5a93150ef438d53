/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints folded stacks: one line for each stack, "root;caller;function nanoseconds". Context: the
 * report tool.
 */
#include <inttypes.h>

#include "export/report/print.h"

static void print_text(FILE *out, const char *s)
{
	for (; *s != '\0'; s++)
		(void)fputc(*s == ';' ? ':' : *s, out);
}

void sp_report_print_folded(FILE *out, const struct sp_tree *t, bool diff)
{
	uint32_t path[SP_TREE_DEPTH + 1];

	for (uint32_t i = sp_tree_after(t, 0, true); i != 0; i = sp_tree_after(t, i, true)) {
		const struct sp_tree_node *n = &t->node[i];

		path[n->depth] = i;
		if (n->self_ns == 0 && n->base_self_ns == 0)
			continue;
		for (uint32_t d = 1; d <= n->depth; d++) {
			if (d != 1)
				(void)fputc(';', out);
			print_text(out, sp_tree_text(t, &t->node[path[d]]));
		}
		if (diff)
			(void)fprintf(out, " %" PRIu64, n->base_self_ns);
		(void)fprintf(out, " %" PRIu64 "\n", n->self_ns);
	}
}
