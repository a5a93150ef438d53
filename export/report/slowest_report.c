/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-report --slowest: reads, and prints a table, JSON or a page. Context: the report tool. */
#include <stdio.h>

#include "export/report/load.h"
#include "export/report/page.h"
#include "export/report/slowest.h"

/* Number of sentences on the terminal when a page is written. */
#define SENTENCES 3U

static int draw(struct sp_slowest *x)
{
	char sentence[SP_REPORT_TEXT_MAX + 1];
	int err = sp_page_write(x->o->page, sp_slowest_print_page, x);

	if (err != 0)
		return err;
	(void)printf("%zu slow %s\n", x->requests, x->requests == 1 ? "request" : "requests");
	for (size_t i = 0; i < x->requests && i < SENTENCES; i++) {
		sp_slowest_sentence(sentence, x, &x->request[i], true);
		(void)printf("%zu. %s\n", i + 1, sentence);
	}
	return 0;
}

static int print(struct sp_slowest *x, const struct sp_print *p)
{
	int err = 0;

	if (x->o->page != NULL)
		return draw(x);
	if (x->o->form == SP_FORM_JSON)
		err = sp_slowest_print_json(stdout, x);
	else
		sp_slowest_print(stdout, x, p);
	return sp_report_flush(err);
}

int sp_slowest(const struct sp_report_options *o, char *const *path, struct sp_print *p)
{
	struct sp_strtab told = {.n = 0};
	struct sp_slowest x;
	int err = sp_slowest_read(&x, o, path, &told, NULL);

	if (err != 0 && !x.r.is_told)
		sp_report_complain("", x.r.why);
	p->passed = x.r.passed;
	if (err == 0)
		err = print(&x, p);
	if (err == 0 && x.r.passed != 0)
		err = SP_EXIT_DAMAGED;
	sp_slowest_fini(&x);
	sp_strtab_fini(&told);
	return err;
}
