/* SPDX-License-Identifier: Apache-2.0 */
/* Writes flame graphs, and holds the files of pages (page.h). Context: the report tool. */
#include "export/report/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/load.h"
#include "export/report/options.h"

/*
 * Includes a file at assembly time, by its path from the top of the repository, where the compiler
 * runs.
 */
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
SP_PAGE_FILE(sp_page_page_js, "page.js");
SP_PAGE_FILE(sp_page_live_js, "live.js");
SP_PAGE_FILE(sp_page_slow_css, "slow.css");
SP_PAGE_FILE(sp_page_slow_html, "slow.html");
SP_PAGE_FILE(sp_page_slow_js, "slow.js");
SP_PAGE_FILE(sp_page_traces_js, "traces.js");

#define SP_PAGE_SCRIPT "text/javascript; charset=utf-8"

static const struct sp_page_file style = {"/page.css", "text/css; charset=utf-8", sp_page_css};
/* The elements that the scripts fill; begins with <body> and does not end it. */
static const struct sp_page_file body = {"/", "text/html; charset=utf-8", sp_page_body_html};
static const struct sp_page_file script = {"/page.js", SP_PAGE_SCRIPT, sp_page_page_js};
/* The script of served pages, which asks for profiles. */
static const struct sp_page_file live = {"/live.js", SP_PAGE_SCRIPT, sp_page_live_js};

/* The page of slow requests. If it has no requests inline, its script asks the server for them. */
static const struct sp_page_file slow_body = {"/slow", "text/html; charset=utf-8",
					      sp_page_slow_html};
static const struct sp_page_file slow_style = {"/slow.css", "text/css; charset=utf-8",
					       sp_page_slow_css};
static const struct sp_page_file slow_script = {"/slow.js", SP_PAGE_SCRIPT, sp_page_slow_js};

const struct sp_page_file *sp_page_find(const char *path)
{
	const struct sp_page_file *const file[] = {&body,      &style,      &script,     &live,
						   &slow_body, &slow_style, &slow_script};

	for (size_t i = 0; i < sizeof(file) / sizeof(file[0]); i++)
		if (strcmp(path, file[i]->name) == 0)
			return file[i];
	return NULL;
}

/* The served page of "/" loads style and scripts by URL; a page in a file has them inline. */
void sp_page_print(FILE *out, const struct sp_page_file *file)
{
	const bool is_slow = file == &slow_body;

	if (file == &script || file == &slow_script)
		(void)fputs(sp_page_names_js, out);
	if (file != &body && !is_slow) {
		(void)fputs(file->text, out);
		return;
	}
	(void)fprintf(out,
		      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		      "<meta name=\"viewport\" content=\"width=device-width\">\n"
		      "<title>spanprof</title>\n<link rel=\"stylesheet\" href=\"%s\">\n</head>\n%s"
		      "<script src=\"%s\"></script>\n",
		      is_slow ? slow_style.name : style.name, file->text,
		      is_slow ? slow_script.name : script.name);
	if (!is_slow)
		(void)fprintf(out, "<script src=\"%s\"></script>\n", live.name);
	(void)fputs("</body>\n</html>\n", out);
}

/*
 * Characters that could end a script element are escaped: in HTML a script ends at "</script", even
 * in a string, and "<!--" changes what ends it.
 */
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

/* Writes a text as HTML, or for an attribute in double quotes. */
static void put_html(FILE *out, const char *s)
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

/*
 * Frames with a smaller share are not written: they can be neither seen nor clicked, even if their
 * caller is as wide as the page.
 */
#define SP_FLAME_SHARE_MIN (1.0 / 20000)

/*
 * Limits that a browser can handle: the callers of all nodes, because in an inverted graph each may
 * be a separate frame, and the bytes of all names. A hostile profile could have thousands of times
 * as many; then narrow frames are left out until the rest is within the limits.
 */
#define SP_FLAME_CALLERS_MAX 2000000U
#define SP_FLAME_NAMES_MAX ((size_t)16 << 20)

/*
 * The name of the frame that replaces siblings which are too narrow. It comes behind the other
 * siblings.
 */
#define SP_FLAME_NARROW "[too narrow to draw]"

void sp_flame_head_of(const struct sp_reading *r, struct sp_flame_head *head)
{
	sp_describe_title(r, head->title);
	sp_describe_sums(r, head->sums);
	sp_describe_hint(r, head->hint);
	head->time = sp_reading_time_of(r);
	head->in_bytes = r->in_bytes;
	head->diff = r->tally.diff;
	head->label = r->o->label;
	head->by_span = r->o->by == SP_BY_SPAN || r->o->by == SP_BY_LABEL ||
			(r->o->by == SP_BY_DEFAULT && r->tally.name.n > 1);
}

struct writer {
	FILE *out; /* NULL = nothing is written, only counted */
	const struct sp_tree *t;
	bool diff;
	double share_min;
	uint32_t *name; /* of each text: its number on the page; 0 = not on the page */
	size_t name_bytes;
	uint64_t callers;                   /* sum of the depths of all nodes */
	uint32_t nodes;                     /* written so far */
	uint32_t number[SP_TREE_DEPTH + 1]; /* number of the last node at each depth */
};

static void put_names(struct writer *w)
{
	const char *before = "";

	(void)fputs("\"kinds\":[", w->out);
	for (size_t i = 0; i < SP_FRAME_KIND_N; i++) {
		(void)fprintf(w->out, "%s\"%s\"", before, sp_frame_kind_words[i]);
		before = ",";
	}
	/* Name 0 is that of frames which are too narrow. */
	(void)fputs("],\n\"names\":[\"" SP_FLAME_NARROW "\"", w->out);
	for (uint32_t i = 1, n = 0; i < w->t->text.n; i++) {
		size_t len;

		if (w->name[i] == 0)
			continue;
		w->name[i] = ++n;
		(void)fputs(",\n", w->out);
		sp_page_put_json(w->out, sp_strtab_get(&w->t->text, i, &len));
	}
	(void)fputs("],\n", w->out);
}

struct sums {
	uint64_t ns, samples, base_ns, base_samples;
};

/* Writes one node: its caller's number, its name, kind, own time and own samples. text 0: frames too narrow to draw. */
static void put_node(struct writer *w, uint32_t depth, uint32_t text, enum sp_frame_kind kind,
		     const struct sums *self)
{
	if (w->out == NULL) {
		size_t len = 0;

		if (text != 0 && w->name[text] == 0)
			(void)sp_strtab_get(&w->t->text, text, &len);
		w->name_bytes += len;
		w->name[text] = 1;
		w->callers += depth;
		return;
	}
	(void)fprintf(w->out, "%s%" PRIu32 ",%" PRIu32 ",%d,%" PRIu64 ",%" PRIu64,
		      w->nodes != 0 ? ",\n" : "", w->number[depth - 1], w->name[text], (int)kind,
		      self->ns, self->samples);
	if (w->diff)
		(void)fprintf(w->out, ",%" PRIu64 ",%" PRIu64, self->base_ns, self->base_samples);
	w->number[depth] = ++w->nodes;
}

static void take_away(struct sums *sums, const struct sp_tree_node *child)
{
	sums->ns -= child->ns;
	sums->samples -= child->samples;
	sums->base_ns -= child->base_ns;
	sums->base_samples -= child->base_samples;
}

static struct sums self_of(const struct sp_tree *t, const struct sp_tree_node *n)
{
	struct sums self = {n->ns, n->samples, n->base_ns, n->base_samples};

	for (uint32_t i = n->first; i != 0; i = t->node[i].next)
		take_away(&self, &t->node[i]);
	return self;
}

/* Writes node i and all siblings after it, which are not wider, as one node. */
static void put_narrow(struct writer *w, uint32_t i)
{
	uint32_t depth = w->t->node[i].depth;
	struct sums sums = {0, 0, 0, 0};

	for (; i != 0; i = w->t->node[i].next) {
		const struct sp_tree_node *n = &w->t->node[i];

		sums.ns += n->ns;
		sums.samples += n->samples;
		sums.base_ns += n->base_ns;
		sums.base_samples += n->base_samples;
	}
	put_node(w, depth, 0, SP_FRAME_MARKER, &sums);
}

/* The node that follows when i and all siblings after it are written; 0 = none. */
static uint32_t after_siblings(const struct sp_tree *t, uint32_t i)
{
	uint32_t parent = t->node[i].parent;

	return parent != 0 ? sp_tree_after(t, parent, false) : 0;
}

static void put_nodes(struct writer *w)
{
	uint32_t i = w->t->node[0].first;

	while (i != 0) {
		const struct sp_tree_node *n = &w->t->node[i];
		struct sums self;

		if (sp_tree_share(w->t, n) < w->share_min) {
			put_narrow(w, i);
			i = after_siblings(w->t, i);
			continue;
		}
		self = self_of(w->t, n);
		put_node(w, n->depth, n->text, n->kind, &self);
		i = sp_tree_after(w->t, i, true);
	}
}

/* Decides which nodes and which names are written. */
static void choose_nodes(struct writer *w)
{
	w->share_min = SP_FLAME_SHARE_MIN / 2;
	do {
		memset(w->name, 0, w->t->text.n * sizeof(*w->name));
		w->share_min *= 2;
		w->callers = w->name_bytes = 0;
		put_nodes(w);
	} while (w->share_min <= 1 &&
		 (w->callers > SP_FLAME_CALLERS_MAX || w->name_bytes > SP_FLAME_NAMES_MAX));
	w->name[0] = 0;
}

int sp_flame_print_data(FILE *out, const struct sp_tree *t, const struct sp_flame_head *head)
{
	struct writer w = {.t = t, .diff = head->diff};

	w.name = calloc(t->text.n, sizeof(*w.name));
	if (w.name == NULL)
		return -1;
	choose_nodes(&w);
	w.out = out;
	(void)fputs("{\"title\":", out);
	sp_page_put_json(out, head->title);
	(void)fputs(",\n\"sums\":", out);
	sp_page_put_json(out, head->sums);
	(void)fputs(",\n\"hint\":", out);
	sp_page_put_json(out, head->hint);
	(void)fputs(",\n\"time\":", out);
	sp_page_put_json(out, head->time);
	if (head->label != NULL) {
		(void)fputs(",\n\"by\":", out);
		sp_page_put_json(out, head->label);
	}
	(void)fprintf(out, ",\n\"inBytes\":%s,\n\"diff\":%s,\n\"bySpan\":%s,\n",
		      head->in_bytes ? "true" : "false", head->diff ? "true" : "false",
		      head->by_span ? "true" : "false");
	put_names(&w);
	(void)fputs("\"nodes\":[", out);
	put_nodes(&w);
	(void)fputs("]}\n", out);
	free(w.name);
	return 0;
}

/* Writes the beginning of a page that loads nothing, up to its body. */
static void put_head(FILE *out, const char *title, const char *css)
{
	(void)fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
		    "form-action 'none'\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
		    out);
	put_html(out, title);
	(void)fputs("</title>\n<style>\n", out);
	(void)fputs(css, out);
	(void)fputs("</style>\n</head>\n", out);
}

int sp_page_write(const char *path, int (*print)(FILE *out, const void *arg), const void *arg)
{
	char clean[SP_REPORT_TEXT_MAX + 1];
	FILE *out = fopen(path, "we");
	bool failed;

	if (out == NULL) {
		sp_report_complain(path, strerror(errno));
		return SP_EXIT_DAMAGED;
	}
	failed = print(out, arg) != 0 || ferror(out) != 0;
	if (fclose(out) != 0 || failed) {
		sp_report_complain(path, "cannot be written");
		return SP_EXIT_DAMAGED;
	}
	(void)sp_report_clean(path, clean);
	(void)printf("wrote %s: ", clean);
	return 0;
}

int sp_flame_print(FILE *out, const struct sp_tree *t, const struct sp_flame_head *head)
{
	int err;

	put_head(out, head->title, style.text);
	(void)fputs(body.text, out);
	(void)fputs("<script type=\"application/json\" id=\"profile\">\n", out);
	err = sp_flame_print_data(out, t, head);
	(void)fputs("</script>\n<script>\n", out);
	(void)fputs(sp_page_names_js, out);
	(void)fputs(script.text, out);
	(void)fputs("</script>\n<script>spanprof.showInline();</script>\n</body>\n</html>\n", out);
	return err;
}

typedef int put_data(FILE *out, const void *arg);

static int put_element(FILE *out, const char *id, put_data *data, const void *arg)
{
	int err;

	(void)fprintf(out, "<script type=\"application/json\" id=\"%s\">\n", id);
	err = data(out, arg);
	(void)fputs("</script>\n", out);
	return err;
}

int sp_page_print_slow(FILE *out, const char *title, put_data *data, const void *arg)
{
	return sp_page_print_traces(out, title, data, NULL, arg);
}

int sp_page_print_traces(FILE *out, const char *title, put_data *requests, put_data *traces,
			 const void *arg)
{
	int err;

	put_head(out, title, sp_page_slow_css);
	(void)fputs(sp_page_slow_html, out);
	err = put_element(out, "requests", requests, arg);
	if (traces != NULL)
		err |= put_element(out, "traces", traces, arg);
	(void)fputs("<script>\n", out);
	(void)fputs(sp_page_names_js, out);
	(void)fputs(sp_page_slow_js, out);
	if (traces != NULL)
		(void)fputs(sp_page_traces_js, out);
	(void)fputs("</script>\n<script>slow.showInline();</script>\n</body>\n</html>\n", out);
	return err;
}
