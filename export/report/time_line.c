/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a time line from samples (time_line.h). A thread's timer counts its CPU time, so between
 * two samples of CPU time the thread has used exactly the time of the second one. For the rest of
 * the time between them it was off the processor. The samples do not show when it waited in
 * between. So half of the CPU time is put before the wait and half behind it: with 100 samples a
 * second an edge is wrong by at most 5 ms. A look at the waiting thread must be within the wait, so
 * the wait is moved there. If looks in one wait found different places, the line changes half-way
 * between these looks. Context: the report tool.
 */
#include "export/report/time_line.h"

struct line {
	struct sp_segment *out;
	size_t n;
	uint64_t at_ns; /* the end of the last segment */
};

/* Extends the line to to_ns. If the thread does the same as before, the last segment grows. */
static void go_on(struct line *l, uint64_t to_ns, uint32_t node, enum sp_part part)
{
	struct sp_segment *last = l->n != 0 ? &l->out[l->n - 1] : NULL;

	if (to_ns <= l->at_ns)
		return;
	if (last != NULL && last->node == node && last->part == part)
		last->to_ns = to_ns;
	else
		l->out[l->n++] = (struct sp_segment){l->at_ns, to_ns, node, part};
	l->at_ns = to_ns;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Adds a wait up to to_ns, in which these looks were made. */
static void wait(struct line *l, const struct sp_moment *look, size_t looks, uint64_t to_ns)
{
	for (size_t i = 0; i + 1 < looks; i++)
		if (look[i].node != look[i + 1].node)
			go_on(l, look[i].at_ns + (look[i + 1].at_ns - look[i].at_ns) / 2,
			      look[i].node, look[i].part);
	if (looks != 0)
		go_on(l, to_ns, look[looks - 1].node, look[looks - 1].part);
	else
		go_on(l, to_ns, 0, SP_PART_OFF_CPU);
}

/* Adds a time without a wait: the samples before and after it get half each. */
static void go_on_running(struct line *l, const struct sp_moment *before,
			  const struct sp_moment *next, uint64_t to_ns)
{
	uint64_t half_ns = l->at_ns + minus(to_ns, l->at_ns) / 2;

	if (before != NULL)
		go_on(l, next != NULL ? half_ns : to_ns, before->node, SP_PART_CPU);
	if (next != NULL)
		go_on(l, to_ns, next->node, SP_PART_CPU);
}

/* Consecutive looks at a waiting thread. */
struct looks {
	const struct sp_moment *at;
	size_t n;
};

/*
 * Adds the time up to a sample of CPU time; next = NULL: up to the end of the line. before: the
 * former sample of CPU time, or NULL. period: the usual time of a sample.
 */
static void stretch(struct line *l, const struct sp_moment *before, struct looks in,
		    const struct sp_moment *next, uint64_t to_ns, uint64_t period)
{
	const struct sp_moment *look = in.at;
	size_t looks = in.n;
	uint64_t all = minus(to_ns, l->at_ns);
	uint64_t cpu = next != NULL ? less(next->ns, all) : 0;
	uint64_t off = all - cpu;
	uint64_t from, until;

	/*
	 * A shorter time off the processor may be a timer of the kernel that was some milliseconds
	 * late.
	 */
	if (looks == 0 && off < (next != NULL ? period / 2 : period + period / 2)) {
		go_on_running(l, before, next, to_ns);
		return;
	}
	if (next == NULL)
		cpu = before != NULL ? less(period, all) : 0;
	from = l->at_ns + (before != NULL ? less(cpu, period) / 2 : 0);
	until = next != NULL
			? minus(to_ns, (before != NULL ? cpu - less(cpu, period) / 2 : cpu / 2))
			: to_ns;
	if (looks != 0 && look[0].at_ns < from) {
		until = next != NULL ? minus(until, from - look[0].at_ns) : until;
		from = look[0].at_ns;
	}
	if (looks != 0 && look[looks - 1].at_ns > until) {
		from = less(look[0].at_ns, from + (look[looks - 1].at_ns - until));
		until = look[looks - 1].at_ns;
	}
	if (before != NULL)
		go_on(l, from, before->node, SP_PART_CPU);
	wait(l, look, looks, until);
	if (next != NULL)
		go_on(l, to_ns, next->node, SP_PART_CPU);
}

size_t sp_time_line_make(const struct sp_moment *moment, size_t n, uint64_t begin_ns,
			 uint64_t end_ns, bool is_main, struct sp_segment *out)
{
	const struct sp_moment *before = NULL;
	uint64_t period = UINT64_MAX;
	struct line l = {.out = out};
	size_t first_look = 0;

	for (size_t i = 0; i < n; i++)
		if (moment[i].part == SP_PART_CPU && moment[i].ns < period)
			period = moment[i].ns;
	if (period == UINT64_MAX)
		period = 0;
	/* Child spans of the request may have samples after its end. */
	if (n != 0 && (!is_main || moment[n - 1].at_ns > end_ns))
		end_ns = moment[n - 1].at_ns;
	l.at_ns = is_main || n == 0 ? begin_ns
				    : minus(moment[0].at_ns, less(moment[0].ns, 2 * period));
	if (l.at_ns < begin_ns)
		l.at_ns = begin_ns;
	for (size_t i = 0; i < n; i++) {
		if (moment[i].part != SP_PART_CPU)
			continue;
		stretch(&l, before, (struct looks){moment + first_look, i - first_look}, &moment[i],
			moment[i].at_ns, period);
		before = &moment[i];
		first_look = i + 1;
	}
	stretch(&l, before, (struct looks){moment + first_look, n - first_look}, NULL, end_ns,
		period);
	return l.n;
}
