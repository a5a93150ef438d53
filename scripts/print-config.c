/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the variables as a Markdown table with their first sentences, for
 * sampler/config/README.md; with --man their whole texts as roff, for spanprof(7). A build tool,
 * linked with the sampler's objects; it runs in no host.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sampler/config/config.h"

/* A bar would end the cell, and an angle bracket would open a tag. */
static void print_text(const char *text, size_t len)
{
	for (const char *end = text + len; text < end; text++) {
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

static size_t first_sentence(const char *text)
{
	const char *end = strstr(text, ". ");

	return end != NULL ? (size_t)(end - text) + 1 : strlen(text);
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
	print_text(h->type, strlen(h->type));
	fputs(" | ", stdout);
	print_text(h->fallback, strlen(h->fallback));
	fputs(" | ", stdout);
	print_text(h->help, first_sentence(h->help));
	puts(" |");
}

/*
 * Backquotes become bold; a backslash, a hyphen and a dot at the start of a line have a meaning in
 * roff.
 */
static void print_roff(const char *text)
{
	bool bold = false;

	for (; *text != '\0'; text++) {
		if (*text == '`') {
			bold = !bold;
			fputs(bold ? "\\fB" : "\\fR", stdout);
		} else if (*text == '\\') {
			fputs("\\e", stdout);
		} else if (*text == '-') {
			fputs("\\-", stdout);
		} else {
			putchar(*text);
		}
	}
}

static void print_man_entry(const struct sp_config_help *h, void *arg)
{
	(void)arg;
	printf(".TP\n.B %s\n\\&", h->name);
	print_roff(h->help);
	fputs("\n\\&Type: ", stdout);
	print_roff(h->type);
	fputs(". Default: ", stdout);
	print_roff(h->fallback);
	puts(".");
	if (h->aliases[0] != '\0') {
		fputs("\\&Other names, in the order they are asked: ", stdout);
		print_roff(h->aliases);
		puts(".");
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--man") == 0) {
		sp_config_each(print_man_entry, NULL);
		return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
	}
	puts("| Variable, then other names in the order they are asked | Type | Default | Meaning "
	     "|");
	puts("|---|---|---|---|");
	sp_config_each(print_row, NULL);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
