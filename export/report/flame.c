/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws flame graphs: the root on top, as Pyroscope draws them, the largest callee on the left. In
 * a comparison the width of a frame is the mean of both shares, so that a frame that vanished is
 * still visible. Context: the report tool.
 */
#include "export/report/flame.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "export/report/frame.h"
#include "sampler/base/compiler.h"

/* Narrower frames can be neither seen nor clicked. */
#define SP_FLAME_MIN 0.1
#define SP_FLAME_CHAR 7.25 /* of the 12 px monospace font */
#define SP_FLAME_COLOURS 8U

struct page {
	FILE *out;
	const struct sp_tree *t;
	bool diff;
	double left[SP_TREE_DEPTH + 1]; /* where the next child of that depth begins */
	uint64_t hidden;
};

static const char *escape_of(const char *s)
{
	switch (*s) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	default:
		return NULL;
	}
}

static void put_escaped(FILE *out, const char *s)
{
	for (; *s != '\0'; s++) {
		const char *escape = escape_of(s);

		if (escape != NULL) {
			(void)fputs(escape, out);
		} else if (strncmp(s, "\xef\xbf", 2) == 0 && (unsigned char)s[2] >= 0xbe) {
			/* XML has no U+FFFE and no U+FFFF. */
			(void)fputs("\xef\xbf\xbd", out);
			s += 2;
		} else {
			(void)fputc(*s, out);
		}
	}
}

static void put_clean(FILE *out, const char *s)
{
	char clean[SP_REPORT_TEXT_MAX + 1];

	(void)sp_report_clean(s, clean);
	put_escaped(out, clean);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole != 0 ? (double)part / (double)whole : 0.0;
}

static double seconds(uint64_t ns)
{
	return (double)ns / (double)SP_NS_PER_S;
}

/* How many bytes of s fit into so many columns; all characters from U+1000 on count as wide. */
static size_t fitting(const char *s, double columns)
{
	size_t i = 0;

	while (s[i] != '\0') {
		size_t next = i + 1;

		columns -= (unsigned char)s[i] >= 0xe1 ? 2 : 1;
		if (columns < 0)
			break;
		while (((unsigned char)s[next] & 0xc0) == 0x80)
			next++;
		i = next;
	}
	return i;
}

static void put_label(const struct page *p, const char *text, double x, double y, double width)
{
	double columns = (width - 6) / SP_FLAME_CHAR;
	char cut[SP_REPORT_TEXT_MAX + 1];
	size_t len;

	if (columns < 3)
		return;
	len = fitting(text, columns);
	if (text[len] != '\0')
		len = fitting(text, columns - 1);
	memcpy(cut, text, len);
	cut[len] = '\0';
	(void)fprintf(p->out, "<text x=\"%.2f\" y=\"%.2f\">", x + 3, y + 13);
	put_escaped(p->out, cut);
	(void)fprintf(p->out, "%s</text>", text[len] != '\0' ? "\xe2\x80\xa6" : "");
}

/* Neighbours differ, and the same function looks the same in every picture. */
static unsigned colour_of(const char *s)
{
	uint32_t h = 2166136261U;

	if (*s == '[' || *s == '(')
		return SP_FLAME_COLOURS;
	for (; *s != '\0'; s++)
		h = (h ^ (unsigned char)*s) * 16777619U;
	return (h >> 16) % SP_FLAME_COLOURS;
}

/* Red: a larger share than in the baseline; blue: a smaller one. Paper is white. */
static void put_change_colour(const struct page *p, double now, double then)
{
	double sum = now + then;
	double change = sum > 0 ? (now - then) / sum : 0.0;
	int rest = (int)(235.5 - 100 * fabs(change));

	if (change >= 0)
		(void)fprintf(p->out, " fill=\"#eb%02x%02x\"", (unsigned)rest, (unsigned)rest);
	else
		(void)fprintf(p->out, " fill=\"#%02x%02xeb\"", (unsigned)rest,
			      (unsigned)(rest + 10));
}

static void put_tip(const struct page *p, const struct sp_tree_node *n, const char *text)
{
	const struct sp_tree_node *root = &p->t->node[0];
	double now = 100 * share(n->ns, root->ns);
	double then = 100 * share(n->base_ns, root->base_ns);

	(void)fputs("<title>", p->out);
	put_escaped(p->out, text);
	if (p->diff)
		(void)fprintf(p->out, "\n%.2f %% here, %.2f %% in the baseline (%+.2f points)", now,
			      then, now - then);
	else
		(void)fprintf(p->out, "\n%.2f %%, %.3f s; itself %.3f s", now, seconds(n->ns),
			      seconds(n->self_ns));
	(void)fputs("</title>", p->out);
}

static void put_frame(const struct page *p, const struct sp_tree_node *n, double x, double width)
{
	const struct sp_tree_node *root = &p->t->node[0];
	const char *text = n->depth != 0 ? sp_tree_text(p->t, n) : "all";
	double y = SP_FLAME_HEAD + SP_FLAME_ROW * n->depth;

	(void)fputs("<g class=\"f", p->out);
	if (!p->diff)
		(void)fprintf(p->out, " c%u", n->depth != 0 ? colour_of(text) : SP_FLAME_COLOURS);
	(void)fputs("\">", p->out);
	put_tip(p, n, text);
	(void)fprintf(p->out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.0f\"", x, y,
		      width, SP_FLAME_ROW - 1);
	if (p->diff)
		put_change_colour(p, share(n->ns, root->ns), share(n->base_ns, root->base_ns));
	(void)fputs("/>", p->out);
	put_label(p, text, x, y, width);
	(void)fputs("</g>\n", p->out);
}

static void put_frames(struct page *p)
{
	const double whole = SP_FLAME_WIDTH - 2 * SP_FLAME_MARGIN;
	uint32_t i = 0;
	bool draw;

	p->left[0] = SP_FLAME_MARGIN;
	do {
		const struct sp_tree_node *n = &p->t->node[i];
		double width = whole * sp_tree_share(p->t, n);
		double x = p->left[n->depth];

		p->left[n->depth] = x + width;
		if (n->depth < SP_TREE_DEPTH)
			p->left[n->depth + 1] = x;
		draw = i == 0 || width >= SP_FLAME_MIN;
		if (draw)
			put_frame(p, n, x, width);
		else
			p->hidden++;
		i = sp_tree_after(p->t, i, draw);
	} while (i != 0);
}

static void put_head(const struct page *p, const struct sp_flame_head *head, double height)
{
	(void)fprintf(p->out,
		      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		      "viewBox=\"0 0 %.0f %.0f\">\n",
		      SP_FLAME_WIDTH, height, SP_FLAME_WIDTH, height);
	(void)fputs(sp_flame_style, p->out);
	(void)fprintf(p->out, "<rect class=\"paper\" width=\"%.0f\" height=\"%.0f\"/>\n",
		      SP_FLAME_WIDTH, height);
	(void)fputs("<text class=\"title\" x=\"10\" y=\"26\">", p->out);
	put_clean(p->out, head->title);
	(void)fputs("</text>\n<text class=\"note\" x=\"10\" y=\"45\">", p->out);
	put_clean(p->out, head->subtitle);
	(void)fputs("</text>\n", p->out);
	if (head->diff)
		(void)fputs("<text class=\"note\" x=\"10\" y=\"61\"><tspan fill=\"#c02020\">red"
			    "</tspan>: a larger share than in the baseline; <tspan "
			    "fill=\"#2040c0\">blue</tspan>: a smaller one; width: the mean of "
			    "both</text>\n",
			    p->out);
	(void)fputs(sp_flame_controls, p->out);
}

void sp_flame_print(FILE *out, const struct sp_tree *t, const struct sp_flame_head *head)
{
	struct page p = {.out = out, .t = t, .diff = head->diff};
	double frames_end = SP_FLAME_HEAD + SP_FLAME_ROW * (t->depth + 1);

	put_head(&p, head, frames_end + 30);
	(void)fputs("<g id=\"frames\">\n", out);
	put_frames(&p);
	(void)fprintf(out, "</g>\n<text class=\"note\" x=\"10\" y=\"%.0f\">", frames_end + 20);
	if (p.hidden != 0)
		(void)fprintf(out,
			      "Too narrow to be drawn, with all they call: %" PRIu64 " frames.",
			      p.hidden);
	(void)fputs("</text>\n", out);
	(void)fputs(sp_flame_script, out);
	(void)fputs("</svg>\n", out);
}
