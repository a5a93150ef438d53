/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-report --traces: reads, and prints waterfalls, JSON or a page. Context: the report tool. */
#include <stdio.h>

#include "export/report/load.h"
#include "export/report/page.h"
#include "export/report/traces.h"

static int draw(const struct sp_traces *t)
{
	char passed[SP_DESCRIBE_TEXT];
	int err = sp_page_write(t->o->page, sp_traces_print_page, t);

	if (err != 0)
		return err;
	(void)printf("%zu %s\n", t->n, t->n == 1 ? "trace" : "traces");
	if (sp_traces_put_passed(t, passed))
		(void)printf("passed over: %s\n", passed);
	return 0;
}

static int print(const struct sp_traces *t, const struct sp_print *p)
{
	int err = 0;

	if (t->o->page != NULL)
		return draw(t);
	if (t->o->form == SP_FORM_JSON)
		err = sp_traces_print_json(stdout, t);
	else
		sp_traces_print(stdout, t, p);
	return sp_report_flush(err);
}

/* What was passed over may be why there is nothing to show. */
static void complain(const struct sp_traces *t)
{
	char passed[SP_DESCRIBE_TEXT], why[SP_DESCRIBE_TEXT + 32];

	if (t->x.r.is_told)
		return;
	sp_report_complain("", t->x.r.why);
	if (!sp_traces_put_passed(t, passed))
		return;
	(void)snprintf(why, sizeof(why), "passed over: %s", passed);
	sp_report_complain("", why);
}

int sp_traces(const struct sp_report_options *o, char *const *path, struct sp_print *p)
{
	struct sp_traces t;
	int err = sp_traces_read(&t, o, path);

	if (err != 0)
		complain(&t);
	if (err == 0)
		err = print(&t, p);
	if (err == 0 && sp_traces_has_passed(&t))
		err = SP_EXIT_DAMAGED;
	sp_traces_fini(&t);
	return err;
}
