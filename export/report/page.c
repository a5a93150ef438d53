/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the files of pages (page.h). Context: the report tool. */
#include "export/report/page.h"

#include <string.h>

#include "export/report/frame.h"

/* The assembler reads the file, by its path from the top of the repository, where everything is compiled. */
#define SP_PAGE_FILE(symbol, file)                                                                 \
	extern const char symbol[]; /* NOLINT(bugprone-macro-parentheses): a declaration */        \
	__asm__(".pushsection .rodata\n"                                                           \
		".globl " #symbol "\n"                                                             \
		".hidden " #symbol "\n" #symbol ":\n"                                              \
		".incbin \"export/report/page/" file "\"\n"                                        \
		".byte 0\n"                                                                        \
		".popsection\n")

SP_PAGE_FILE(sp_page_css, "page.css");
SP_PAGE_FILE(sp_page_body_html, "body.html");
SP_PAGE_FILE(sp_page_names_js, "names.js");
SP_PAGE_FILE(sp_page_tree_js, "tree.js");
SP_PAGE_FILE(sp_page_change_js, "change.js");
SP_PAGE_FILE(sp_page_draw_js, "draw.js");
SP_PAGE_FILE(sp_page_search_js, "search.js");
SP_PAGE_FILE(sp_page_lists_js, "lists.js");
SP_PAGE_FILE(sp_page_page_js, "page.js");
SP_PAGE_FILE(sp_page_live_js, "live.js");

#define SP_PAGE_SCRIPT "text/javascript; charset=utf-8"

const struct sp_page_file sp_page_style = {"/page.css", "text/css; charset=utf-8", sp_page_css};
const struct sp_page_file sp_page_body = {"/", "text/html; charset=utf-8", sp_page_body_html};

/* Asks for profiles. */
static const struct sp_page_file live = {"/live.js", SP_PAGE_SCRIPT, sp_page_live_js};

static const struct sp_page_file names = {"/names.js", SP_PAGE_SCRIPT, sp_page_names_js};
static const struct sp_page_file tree = {"/tree.js", SP_PAGE_SCRIPT, sp_page_tree_js};
static const struct sp_page_file change = {"/change.js", SP_PAGE_SCRIPT, sp_page_change_js};
static const struct sp_page_file draw = {"/draw.js", SP_PAGE_SCRIPT, sp_page_draw_js};
static const struct sp_page_file search = {"/search.js", SP_PAGE_SCRIPT, sp_page_search_js};
static const struct sp_page_file lists = {"/lists.js", SP_PAGE_SCRIPT, sp_page_lists_js};
static const struct sp_page_file page = {"/page.js", SP_PAGE_SCRIPT, sp_page_page_js};

const struct sp_page_file *const sp_page_script[] = {&names,  &tree,  &change, &draw,
						     &search, &lists, &page};
const size_t sp_page_scripts = sizeof(sp_page_script) / sizeof(sp_page_script[0]);

const struct sp_page_file *sp_page_find(const char *path)
{
	const struct sp_page_file *const others[] = {&sp_page_body, &sp_page_style, &live};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(path, others[i]->name) == 0)
			return others[i];
	for (size_t i = 0; i < sp_page_scripts; i++)
		if (strcmp(path, sp_page_script[i]->name) == 0)
			return sp_page_script[i];
	return NULL;
}

/* What is inline in a file that is written is loaded by a page that is served. */
void sp_page_print(FILE *out, const struct sp_page_file *file)
{
	if (file != &sp_page_body) {
		(void)fputs(file->text, out);
		return;
	}
	(void)fprintf(out,
		      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		      "<meta name=\"viewport\" content=\"width=device-width\">\n"
		      "<title>spanprof</title>\n<link rel=\"stylesheet\" href=\"%s\">\n</head>\n%s",
		      sp_page_style.name, file->text);
	for (size_t i = 0; i < sp_page_scripts; i++)
		(void)fprintf(out, "<script src=\"%s\"></script>\n", sp_page_script[i]->name);
	(void)fprintf(out, "<script src=\"%s\"></script>\n</body>\n</html>\n", live.name);
}

/* In HTML a script ends at "</script" wherever that stands, and "<!--" changes what ends it. */
void sp_page_put_json(FILE *out, const char *s)
{
	char clean[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(s, clean);
	(void)fputc('"', out);
	for (s = clean; *s != '\0'; s++) {
		if (strchr("\"\\<>&", *s) != NULL)
			(void)fprintf(out, "\\u%04x", (unsigned)*s);
		else
			(void)fputc(*s, out);
	}
	(void)fputc('"', out);
}

void sp_page_put_html(FILE *out, const char *s)
{
	char clean[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(s, clean);
	for (s = clean; *s != '\0'; s++) {
		if (strchr("\"'<>&", *s) != NULL)
			(void)fprintf(out, "&#%u;", (unsigned)*s);
		else
			(void)fputc(*s, out);
	}
}
