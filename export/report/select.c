/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects samples by the options --span, --span-name, --trace and --diff. Context: the report tool.
 */
#define _GNU_SOURCE
#include "export/report/select.h"

#include <stdlib.h>
#include <string.h>

#include "export/util/containers.h"

#define SP_SELECTION_NAMES_MAX 4096U

static bool selected(const struct sp_selection *x, const struct sp_report_sample *s)
{
	return (x->span_id == NULL || strcasecmp(x->span_id, s->span_id) == 0) &&
	       (x->span_name == NULL || strcmp(x->span_name, s->span_name) == 0) &&
	       (x->trace_id == NULL || strcasecmp(x->trace_id, s->trace_id) == 0);
}

/* Often a trace is selected, so there may be several names, but few. */
static bool known(const struct sp_selection *x, const char *name)
{
	for (size_t i = 0; i < x->names; i++)
		if (strcmp(x->name[i], name) == 0)
			return true;
	return false;
}

void sp_selection_learn(void *arg, const struct sp_report_sample *s)
{
	struct sp_selection *x = arg;

	if (s->span_name[0] == '\0' || !selected(x, s) || known(x, s->span_name))
		return;
	if (x->names == SP_SELECTION_NAMES_MAX) {
		x->too_many = true;
		return;
	}
	if (!SP_GROW(x->name, x->cap, x->names + 1, SP_SELECTION_NAMES_MAX)) {
		x->nomem = true;
		return;
	}
	x->name[x->names] = strdup(s->span_name);
	if (x->name[x->names] == NULL)
		x->nomem = true;
	else
		x->names++;
}

void sp_selection_fini(struct sp_selection *x)
{
	for (size_t i = 0; i < x->names; i++)
		free(x->name[i]);
	free(x->name);
}

enum sp_side sp_selection_side(const struct sp_selection *x, const struct sp_report_sample *s)
{
	if (selected(x, s))
		return SP_SIDE_SELECTED;
	return x->diff && known(x, s->span_name) ? SP_SIDE_BASELINE : SP_SIDE_NONE;
}
