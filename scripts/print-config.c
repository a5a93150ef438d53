/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the table of variables as Markdown, for README.md. A build tool, linked with the sampler
 * objects; runs in no host.
 */
#include <stdio.h>

#include "sampler/config.h"

/* A bar would end the cell, an angle bracket would open a tag. */
static void print_text(const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '|')
			fputs("\\|", stdout);
		else if (*text == '<')
			fputs("&lt;", stdout);
		else
			putchar(*text);
	}
}

static void print_names(const char *list)
{
	for (; *list != '\0'; list++) {
		if (*list == ',')
			fputs("`, `", stdout);
		else
			putchar(*list);
	}
}

static void print_row(const struct sp_config_help *h, void *arg)
{
	(void)arg;
	printf("| `%s`", h->name);
	if (h->aliases[0] != '\0') {
		fputs("<br>`", stdout);
		print_names(h->aliases);
		putchar('`');
	}
	fputs(" | ", stdout);
	print_text(h->type);
	fputs(" | ", stdout);
	print_text(h->fallback);
	fputs(" | ", stdout);
	print_text(h->help);
	puts(" |");
}

int main(void)
{
	puts("| Variable, then other names in the order they are asked | Type | Default | Meaning "
	     "|");
	puts("|---|---|---|---|");
	sp_config_each(print_row, NULL);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
