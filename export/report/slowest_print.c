/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what made requests slow (slowest.h), as tables and sentences. Context: the report tool. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "export/report/short_name.h"
#include "export/report/slowest.h"
#include "export/util/log.h"
#include "sampler/base/compiler.h"

#define SENTENCE_TEXT (4 * SP_REPORT_TEXT_MAX)

const char *sp_slowest_put_time(char out[SP_SLOWEST_TIME], double ns)
{
	static const struct {
		double below_ns, unit_ns;
		int digits;
		const char *unit;
	} forms[] = {
		{999.5e3, 1e3, 0, "us"},
		{9.995e6, 1e6, 1, "ms"},
		{999.5e6, 1e6, 0, "ms"},
		{99.995e9, 1e9, 2, "s"},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (ns < forms[i].below_ns) {
			(void)snprintf(out, SP_SLOWEST_TIME, "%.*f %s", forms[i].digits,
				       ns / forms[i].unit_ns, forms[i].unit);
			return out;
		}
	(void)snprintf(out, SP_SLOWEST_TIME, "%.0f s", ns / 1e9);
	return out;
}

const char *sp_slowest_put_part(char out[SP_SLOWEST_TIME], const struct sp_slowest_time *time)
{
	if (!time->is_known)
		return "-";
	out[0] = '~';
	(void)sp_slowest_put_time(time->of_exact ? out : out + 1, time->ns);
	return out;
}

static const char *put_number(char out[SP_SLOWEST_TIME], uint64_t ns)
{
	return ns != SP_ROOT_VALUE_UNKNOWN ? sp_slowest_put_time(out, (double)ns) : "-";
}

const char *sp_slowest_put_when(char out[SP_SLOWEST_TIME], uint64_t ns, bool days)
{
	time_t seconds = (time_t)(ns / SP_NS_PER_S);
	char text[24];
	struct tm tm;

	if (gmtime_r(&seconds, &tm) == NULL ||
	    strftime(text, sizeof(text), days ? "%Y-%m-%d %H:%M:%S" : "%H:%M:%S", &tm) == 0)
		return "?";
	(void)snprintf(out, SP_SLOWEST_TIME, "%.23s.%03u", text,
		       (unsigned)(ns % SP_NS_PER_S / (SP_NS_PER_S / 1000)));
	return out;
}

static bool is_of_several_days(const struct sp_slowest *x)
{
	const uint64_t day = 86400 * SP_NS_PER_S;

	return x->from_ns / day != x->to_ns / day;
}

/* Writes "checkout", or "shop: checkout" if there are several services. */
static void put_name(struct sp_text_out *t, const struct sp_slowest *x, uint32_t group)
{
	const struct sp_slowest_group *g = &x->group[group];
	const char *name = sp_report_roots_text(&x->roots, g->name);

	if (x->several_services)
		sp_text_out_put(t, "%s: ", sp_report_roots_text(&x->roots, g->service));
	sp_text_out_put(t, "%s", name[0] != '\0' ? name : "(no name)");
}

/*
 * The length of a leaf without the kind of wait, "recvfrom (socket)": the sentence has the kind
 * already.
 */
static int length_of_call(const char *leaf)
{
	const char *blank = strstr(leaf, " (");

	return (int)(blank != NULL ? (size_t)(blank - leaf) : strlen(leaf));
}

static const char *const words[SP_PARTS] = {
	[SP_PART_CPU] = "on a CPU",
	[SP_PART_RUNNABLE] = "waiting for a CPU",
	[SP_PART_LOCK] = "waiting for a lock",
	[SP_PART_CONDITION] = "waiting for a condition variable",
	[SP_PART_FUTEX] = "waiting for a lock or a condition variable",
	[SP_PART_SLEEP] = "sleeping",
	[SP_PART_CHILD] = "waiting for a child process",
	[SP_PART_EVENTS] = "waiting for events",
	[SP_PART_SIGNAL] = "waiting for a signal",
	[SP_PART_SOCKET] = "waiting for a socket",
	[SP_PART_PIPE] = "waiting for a pipe",
	[SP_PART_FILE] = "waiting for a file",
	[SP_PART_TERMINAL] = "waiting for a terminal",
	[SP_PART_KERNEL] = "blocked in the kernel",
	[SP_PART_OTHER] = "waiting",
	[SP_PART_OFF_CPU] = "off the CPU",
	[SP_PART_INACTIVE] = "in which no thread worked on it",
};

/*
 * Writes what a thread waits for: "waiting for a lock held by POST /refund in shop::reserve",
 * "waiting for a socket (recvfrom)".
 */
static void put_wait(struct sp_text_out *t, enum sp_part part, const char *leaf)
{
	sp_text_out_put(t, "%s", words[part]);
	if (sp_slowest_has_holder(leaf))
		sp_text_out_put(t, " %s", leaf);
	else if (leaf[0] != '\0' && leaf[0] != '[' && part > SP_PART_SLEEP)
		sp_text_out_put(t, " (%.*s)", length_of_call(leaf), leaf);
}

/* Writes a cause: "350 ms waiting for a lock in shop::reserve", "22 ms in shop::parse". */
static void put_cause(struct sp_text_out *t, const struct sp_slowest *x,
		      const struct sp_slowest_request *q, const struct sp_slowest_cause *c,
		      bool is_short)
{
	uint64_t faults = x->roots.root[q->root].major_faults;
	const char *function = sp_slowest_text(x, c->function);
	const char *leaf = sp_slowest_text(x, c->leaf);
	struct sp_short_name name;
	char time[SP_SLOWEST_TIME];

	sp_text_out_put(t, "%s%s", c->time.of_exact ? "" : "about ",
			sp_slowest_put_time(time, c->time.ns));
	if (c->part != SP_PART_CPU || function[0] == '\0') {
		sp_text_out_put(t, " ");
		put_wait(t, c->part, leaf);
	}
	if (c->part == SP_PART_KERNEL && faults != 0 && faults != SP_ROOT_VALUE_UNKNOWN)
		sp_text_out_put(t, " (%" PRIu64 " major page faults)", faults);
	if (function[0] == '\0' || sp_slowest_has_holder(leaf))
		return;
	sp_short_name(function, &name);
	sp_text_out_put(t, " in %s", is_short ? name.with_namespaces : function);
}

static void put_causes(struct sp_text_out *t, const struct sp_slowest *x,
		       const struct sp_slowest_request *q, const struct sp_slowest_causes *causes,
		       bool is_short)
{
	for (unsigned i = 0; i < causes->n; i++) {
		sp_text_out_put(t, "%s", i == 0 ? "" : ", ");
		put_cause(t, x, q, &causes->cause[i], is_short);
	}
}

void sp_slowest_put_where(char out[SP_REPORT_TEXT_MAX + 1], const struct sp_slowest *x,
			  const struct sp_slowest_request *q, bool is_short)
{
	char text[SENTENCE_TEXT] = "";
	struct sp_text_out t = {text, sizeof(text), 0};
	struct sp_slowest_causes where;

	sp_slowest_where(x, q, &where);
	put_causes(&t, x, q, &where, is_short);
	(void)sp_report_clean(text, out);
}

/* Of a request that is no slow root there is no median. */
static void put_added(struct sp_text_out *t, const struct sp_slowest *x,
		      const struct sp_slowest_request *q, bool is_short)
{
	char time[SP_SLOWEST_TIME];
	struct sp_slowest_causes where;

	sp_slowest_where(x, q, &where);
	sp_text_out_put(t, "%s, %s", sp_slowest_put_time(time, (double)q->duration_ns),
			where.n != 0 ? "of which " : "and no profile says more");
	put_causes(t, x, q, &where, is_short);
}

static void put_parts(struct sp_text_out *t, const struct sp_slowest *x,
		      const struct sp_slowest_request *q, bool is_short)
{
	const struct sp_slowest_group *g = &x->group[q->group];
	char time[SP_SLOWEST_TIME];

	sp_text_out_put(t, "%s, ", sp_slowest_put_time(time, (double)q->duration_ns));
	if (g->p50_ns == SP_ROOT_VALUE_UNKNOWN)
		sp_text_out_put(t, "the median of ");
	else if (q->slower_by_ns != 0)
		sp_text_out_put(t, "%s more than the median of ",
				sp_slowest_put_time(time, (double)q->slower_by_ns));
	else
		sp_text_out_put(t, "no more than the median of ");
	put_name(t, x, q->group);
	if (g->p50_ns == SP_ROOT_VALUE_UNKNOWN)
		sp_text_out_put(t, " is not known");
	if (q->slower_by_ns == 0)
		return;
	sp_text_out_put(t, "%s", q->causes.n != 0 ? ": " : "");
	put_causes(t, x, q, &q->causes, is_short);
	if (q->why_not != NULL)
		sp_text_out_put(t, "%s: %s",
				q->causes.n == 0 ? ": the profiles do not say why"
						 : "; the profiles do not say what it waited for",
				q->why_not);
}

/* Names are untrusted. A sentence with long ones is cut between two characters. */
void sp_slowest_sentence(char out[SP_REPORT_TEXT_MAX + 1], const struct sp_slowest *x,
			 const struct sp_slowest_request *q, bool is_short)
{
	char text[SENTENCE_TEXT];
	struct sp_text_out t = {text, sizeof(text), 0};

	if (q->is_added)
		put_added(&t, x, q, is_short);
	else
		put_parts(&t, x, q, is_short);
	(void)sp_report_clean(text, out);
}

/* The kind of waiting that took most of the request's time. SP_PARTS: none. */
static enum sp_part most_waited(const struct sp_slowest *x, const struct sp_slowest_request *q)
{
	enum sp_part most = SP_PARTS;
	double ns = 0;

	for (unsigned part = SP_PART_LOCK; part < SP_PART_SAMPLED; part++) {
		struct sp_slowest_time time = sp_slowest_part(x, q, (enum sp_part)part);

		if (time.is_known && time.ns > ns) {
			ns = time.ns;
			most = (enum sp_part)part;
		}
	}
	return most;
}

static struct sp_slowest_time waiting(const struct sp_slowest_request *q)
{
	struct sp_slowest_time time = q->off_cpu;

	if (q->runnable.is_known)
		time.ns -= q->runnable.ns;
	/*
	 * A negative difference becomes 0, because the clocks of the two times are not read at the
	 * same instant.
	 */
	time.ns = (time.ns + fabs(time.ns)) / 2;
	return time;
}

static void print_request(FILE *out, const struct sp_slowest *x, const struct sp_print *p,
			  size_t number)
{
	const struct sp_slowest_request *q = &x->request[number];
	bool is_known = x->group[q->group].p50_ns != SP_ROOT_VALUE_UNKNOWN;
	char text[SENTENCE_TEXT], time[6][SP_SLOWEST_TIME], memory[SP_SLOWEST_TIME] = "-";
	enum sp_part part = most_waited(x, q);
	struct sp_slowest_time wait = waiting(q);
	struct sp_text_out t = {text, sizeof(text), 0};
	uint64_t samples;
	uint32_t leaf;
	int taken;

	if (q->allocated_bytes != SP_ROOT_VALUE_UNKNOWN)
		(void)snprintf(memory, sizeof(memory), "%.1f",
			       sp_report_amount(true, q->allocated_bytes));
	taken = fprintf(out, "%3zu  %s %9s %9s %9s %9s %9s %9s  ", number + 1,
			sp_slowest_put_when(time[0], x->roots.root[q->root].start_ns,
					    is_of_several_days(x)),
			sp_slowest_put_time(time[1], (double)q->duration_ns),
			is_known ? sp_slowest_put_time(time[2], (double)q->slower_by_ns) : "-",
			sp_slowest_put_part(time[3], &q->cpu),
			sp_slowest_put_part(time[4], &q->runnable),
			sp_slowest_put_part(time[5], &wait), memory);
	put_name(&t, x, q->group);
	if (part != SP_PARTS) {
		leaf = sp_slowest_leaf(x, q->node[part], &samples);
		if (samples * 3 < x->r.tree.node[q->node[part]].samples * 2)
			leaf = 0;
		sp_text_out_put(&t, ": ");
		put_wait(&t, part, sp_slowest_text(x, leaf));
	}
	sp_print_last(out, p, text, taken);
}

static const char *put_mean(char out[SP_SLOWEST_TIME], const struct sp_slowest *x,
			    const struct sp_slowest_group *g, enum sp_part part)
{
	double ns;

	return sp_slowest_mean(x, g, part, &ns) ? sp_slowest_put_time(out, ns) : "-";
}

static void print_names(FILE *out, const struct sp_slowest *x, const struct sp_print *p)
{
	(void)fputc('\n', out);
	sp_print_heading(
		out, p,
		" requests  a second      slow    median       p90       p99  on a CPU off a CPU  "
		"span_name, and the time of a request");
	for (uint32_t i = 0; i < x->groups; i++) {
		const struct sp_slowest_group *g = &x->group[i];
		char name[SENTENCE_TEXT], count[SP_SLOWEST_TIME] = "-", time[5][SP_SLOWEST_TIME];
		char rate[SP_SLOWEST_TIME] = "-";
		struct sp_text_out t = {name, sizeof(name), 0};
		int taken;

		if (g->count != SP_ROOT_VALUE_UNKNOWN)
			(void)snprintf(count, sizeof(count), "%" PRIu64, g->count);
		if (g->rate > 0)
			(void)snprintf(rate, sizeof(rate), "%.*f", g->rate < 100 ? 2 : 0, g->rate);
		taken = fprintf(out, "%9s %9s %9" PRIu64 " %9s %9s %9s %9s %9s  ", count, rate,
				g->slow, put_number(time[0], g->p50_ns),
				put_number(time[1], g->p90_ns), put_number(time[2], g->p99_ns),
				put_mean(time[3], x, g, SP_PART_CPU),
				put_mean(time[4], x, g, SP_PART_OFF_CPU));
		put_name(&t, x, i);
		sp_print_last(out, p, name, taken);
	}
}

void sp_slowest_print(FILE *out, const struct sp_slowest *x, const struct sp_print *p)
{
	char sentence[SP_REPORT_TEXT_MAX + 1];
	char text[256], from[SP_SLOWEST_TIME], to[SP_SLOWEST_TIME];

	(void)snprintf(text, sizeof(text), "%zu slow %s of %zu %s, %zu %s, %s to %s UTC",
		       x->all_requests, x->all_requests == 1 ? "request" : "requests", x->groups,
		       x->groups == 1 ? "name" : "names", x->r.files,
		       x->r.files == 1 ? "profile" : "profiles",
		       sp_slowest_put_when(from, x->from_ns, true),
		       sp_slowest_put_when(to, x->to_ns, true));
	sp_print_heading(out, p, text);
	if (p->passed != 0)
		(void)fprintf(out, "passed over: %zu %s\n", p->passed,
			      p->passed == 1 ? "file" : "files");
	(void)fputc('\n', out);
	(void)snprintf(text, sizeof(text), "%3s  %*s %9s %9s %9s %9s %9s %9s  %s", "",
		       is_of_several_days(x) ? 23 : 12, "began (UTC)", "took", "slower by",
		       "on a CPU", "for a CPU", "waiting", "alloc MiB",
		       "span_name: what it waited for most");
	sp_print_heading(out, p, text);
	for (size_t i = 0; i < x->requests; i++)
		print_request(out, x, p, i);
	if (x->requests < x->all_requests)
		(void)fprintf(out, "%5s%zu requests more\n", "", x->all_requests - x->requests);
	(void)fputc('\n', out);
	for (size_t i = 0; i < x->requests; i++) {
		const struct sp_slowest_request *q = &x->request[i];
		const struct sp_report_root *root = &x->roots.root[q->root];

		sp_slowest_sentence(sentence, x, q, p->width != 0);
		(void)fprintf(out, "%3zu  %s\n     span %s, trace %s\n", i + 1, sentence,
			      root->span_id, root->trace_id);
	}
	print_names(out, x, p);
}
