/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates the CPU time of span names, and corrects samples by it (name_times.h). Context: the exporter.
 *
 * Of a name with N parts of roots in the interval, of which m were measured with weights w and times x:
 *
 *   T = N * sum(w x) / sum(w)                      the number N is exact, so only the mean has an error
 *   v = (N / sum(w))^2 * s^2 * (sum(w^2) - sum(w)) its square; s^2 is the variance of x. 0 if all were measured
 *   L = sum(w x^2) / sum(w x)                      the length of the part that a random moment falls into
 *
 * To v comes 2 (1 + T / duration) L^2, for the parts that are open at the two ends of the interval.
 *
 * S is the sum of the name's samples. Its square error by chance is S * max(period, tick), because a
 * timer is noticed at ticks; it is not more than max(period, tick)^2 / 2 for each part. The bias of S is at
 * most about a third for parts as long as a tick, and less for longer ones. So it is taken to be tau * b
 * with b = 0.35 * min(1, tick / L) * max(S, T). For work between roots, b = S. tau^2 is the moment estimate
 * from all names of this interval and, with less and less weight, of former ones: the squares of T - S,
 * less what chance makes of them, are tau^2 b^2. Then
 *
 *   X = S + e / (e + v) * (T - S), with e = (error by chance) + tau^2 b^2, and the square error e v / (e + v)
 *
 * Work between roots has X = S. If all X together lack more than chance explains, its square error is at least the
 * square of what they lack.
 */
#include "export/profile/name_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "export/util/containers.h"
#include "export/util/log.h"
#include "sampler/region/root_durations.h"

/* Fewer measured parts than this say nothing of their variance. */
#define MEASURED_LEAST 4U
/* Samples are right for longer parts, which would be at the ends of an interval too often. In ticks. */
#define LENGTH_MOST 25.0
/* The largest bias of samples that was seen: a share of the time of a name. */
#define BIAS 0.35
/* Work between roots is often shorter than any root: samples miss most of it. */
#define BIAS_BETWEEN 1.0
/* tau^2 is 1 at first, as if this many names had said so. */
#define BELIEF 2.0
#define FORGET 0.8 /* of what former intervals say of tau^2, per interval */
#define BEYOND 9.0 /* a name that differs by more than three errors counts as this many squares */
#define TAU2_MOST 4.0
/* More than so many errors is not by chance. */
#define CHANCE 2.0
/*
 * The spans of a name run in step with the kernel's tick if the CPU time of its samples differs from that of its
 * measured roots by IN_STEP of the larger one, and by IN_STEP_ERRORS standard errors. Names below IN_STEP_NS are not
 * judged.
 */
#define IN_STEP (2 * BIAS)
#define IN_STEP_ERRORS 5.0
#define IN_STEP_NS (200.0 * SP_NS_PER_MS)
/* A name, or work between roots, without a sample gets no time below this. */
#define LEAST_NS (double)SP_NS_PER_MS
/* Names and integers: more than enough for ten thousand threads in an upload interval. */
#define TOTAL_MOST (UINT64_C(1) << 60)

/* The sums of a name in the region (struct sp_root_cpu). */
enum sum { PARTS, UNSURE, MEASURED, WEIGHTS, SQUARES, NS, SQUARED, SUMS };

struct sums {
	uint64_t sum[SUMS];
};

struct sp_name_times {
	const struct sp_core_ops *ops;
	struct sums *seen; /* by place, at the end of the last interval */
	size_t seen_cap;
	double tau2_b4; /* the moments of tau^2: sums of tau^2 b^4 / error^4 and of b^4 / error^4 */
	double b4;
	uint64_t period_ns;
	double tick_ns;
	bool has_logged; /* that a name is in step with the tick */
};

/* A name, or all entries that belong to no such name. */
struct group {
	uint32_t name_id;
	uint64_t sampled_ns;
	bool has_estimate;
	double estimate_ns, estimate_v; /* T and v */
	double chance_v;                /* of the samples */
	double bias;                    /* the largest one, as a share of the time */
	double bias_ns;                 /* b */
	double parts;                   /* of its roots; 0 = unknown */
	double ns, v;                   /* X and its square error */
	struct sp_share share;
};

/* The last two groups. */
enum { UNLABELLED, OTHER_NAMES, FURTHER };
#define GROUPS_MAX (SP_ROOT_NAMES + FURTHER)

struct sp_name_times *sp_name_times_new(const struct sp_core_ops *ops)
{
	struct sp_name_times *t = calloc(1, sizeof(*t));
	struct timespec tick = {0, 0};

	if (t == NULL)
		return NULL;
	(void)clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	t->ops = ops;
	t->period_ns = SP_NS_PER_S / ops->config->sample_rate_hz;
	t->tick_ns = (double)tick.tv_sec * SP_NS_PER_S + (double)tick.tv_nsec;
	t->tau2_b4 = BELIEF;
	t->b4 = BELIEF;
	return t;
}

void sp_name_times_free(struct sp_name_times *t)
{
	if (t == NULL)
		return;
	free(t->seen);
	free(t);
}

static void read_sums(const struct sp_root_cpu *c, struct sums *out)
{
	const _Atomic uint64_t *const from[SUMS] = {
		[PARTS] = &c->parts,     [UNSURE] = &c->unsure,   [MEASURED] = &c->measured,
		[WEIGHTS] = &c->weights, [SQUARES] = &c->squares, [NS] = &c->ns,
		[SQUARED] = &c->squared,
	};

	for (unsigned i = 0; i < SUMS; i++)
		out->sum[i] = atomic_load_explicit(from[i], memory_order_relaxed);
}

/* What the interval has added to the sums of that place. False when out of memory. */
static bool added_to(struct sp_name_times *t, const struct sp_root_durations *d, uint32_t place,
		     double added[SUMS])
{
	size_t had = t->seen_cap;
	struct sums now;

	if (!SP_GROW(t->seen, t->seen_cap, place + 1, SP_ROOT_PLACES))
		return false;
	if (t->seen_cap > had)
		memset(t->seen + had, 0, (t->seen_cap - had) * sizeof(*t->seen));
	read_sums(&d->cpu[place], &now);
	for (unsigned i = 0; i < SUMS; i++)
		added[i] = (double)(now.sum[i] - t->seen[place].sum[i]);
	t->seen[place] = now;
	return true;
}

/* T, v and L of a name, as far as there are enough roots, and numbers that a host may add up. */
static void estimate(const struct sp_name_times *t, const double added[SUMS], double duration_ns,
		     struct group *g)
{
	/* Squares are in units of 1,024 ns. */
	double squared = added[SQUARED] * 1024 * 1024;
	double mean, variance, length, per_weight;

	if (added[MEASURED] < 1 || added[WEIGHTS] < added[MEASURED] ||
	    added[SQUARES] < added[WEIGHTS] || added[NS] <= 0)
		return;
	mean = added[NS] / added[WEIGHTS];
	length = fmax(mean, squared / added[NS]);
	g->bias = BIAS * fmin(1, t->tick_ns / length);
	g->parts = added[PARTS];
	if (added[MEASURED] < MEASURED_LEAST || added[UNSURE] != 0 ||
	    length > LENGTH_MOST * t->tick_ns)
		return;
	variance = fmax(0, squared / added[WEIGHTS] - mean * mean) * added[MEASURED] /
		   (added[MEASURED] - 1);
	per_weight = added[PARTS] / added[WEIGHTS];
	g->estimate_ns = added[PARTS] * mean;
	g->estimate_v = per_weight * per_weight * variance * (added[SQUARES] - added[WEIGHTS]) +
			2 * (1 + g->estimate_ns / duration_ns) * length * length;
	g->has_estimate = isfinite(g->estimate_ns) && isfinite(g->estimate_v) &&
			  g->estimate_ns < (double)TOTAL_MOST && g->estimate_v > 0;
}

static int by_name(const void *a, const void *b)
{
	const struct group *one = a;
	const struct group *other = b;

	return one->name_id < other->name_id ? -1 : one->name_id > other->name_id;
}

/*
 * A group for each name of which roots were measured, by name. Reads only the pages of the region that the host has
 * written.
 */
static unsigned find_groups(struct sp_name_times *t, const struct sp_root_durations *d,
			    double duration_ns, struct group *group)
{
	unsigned n = 0;
	unsigned kept = 0;

	for (uint32_t place = 0; place < SP_ROOT_NAMES; place++) {
		uint32_t name_id =
			atomic_load_explicit(&d->name[place].name_id, memory_order_relaxed);
		double added[SUMS];

		if (name_id == 0 || !added_to(t, d, place, added))
			continue;
		group[n] = (struct group){.name_id = name_id, .bias = BIAS};
		estimate(t, added, duration_ns, &group[n]);
		n++;
	}
	qsort(group, n, sizeof(*group), by_name);
	/* No host has two places for a name. */
	for (unsigned i = 0; i < n; i++)
		if (kept == 0 || group[kept - 1].name_id != group[i].name_id)
			group[kept++] = group[i];
	memset(group + kept, 0, (n - kept) * sizeof(*group));
	return kept;
}

/* The group of an entry; the groups of names are followed by the others. */
static unsigned group_of(const struct group *group, unsigned names, uint32_t name_id)
{
	const struct group wanted = {.name_id = name_id};
	const struct group *found =
		name_id != 0 && names != 0 ? bsearch(&wanted, group, names, sizeof(*group), by_name)
					   : NULL;

	if (found != NULL)
		return (unsigned)(found - group);
	return names + (name_id != 0 ? OTHER_NAMES : UNLABELLED);
}

/* Sums up the entries by group. False if there are numbers that no process reaches. */
static bool sum_up(const struct sp_stack_map *map, uint64_t period_ns, struct group *group,
		   unsigned names, uint16_t *group_by_entry)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < sp_stack_map_entries(map); i++) {
		const struct sp_stack_entry *e = sp_stack_map_entry(map, i);
		uint64_t ns = sp_stack_entry_ns(e, period_ns);
		unsigned g = group_of(group, names, e->labels.name_id);

		if (ns > TOTAL_MOST - total)
			return false;
		total += ns;
		group[g].sampled_ns += ns;
		group_by_entry[i] = (uint16_t)g;
	}
	return true;
}

/* The moment estimate of tau^2, with what this interval says of it. */
static double learn_tau2(struct sp_name_times *t, const struct group *group, unsigned groups)
{
	t->tau2_b4 *= FORGET;
	t->b4 *= FORGET;
	for (unsigned i = 0; i < groups; i++) {
		const struct group *g = &group[i];
		double off = g->estimate_ns - (double)g->sampled_ns;
		double v = g->estimate_v + g->chance_v;
		double b2 = g->bias_ns * g->bias_ns / v;

		if (!g->has_estimate)
			continue;
		t->tau2_b4 += b2 * fmin(BEYOND, off * off / v - 1);
		t->b4 += b2 * b2;
	}
	return t->b4 > 0 ? fmin(TAU2_MOST, fmax(0, t->tau2_b4 / t->b4)) : 1;
}

/*
 * Work between roots has no estimate, and its parts may be so short that it has hardly a sample. If more is missing
 * than chance explains, its error is as large as what is missing.
 */
static void widen_unlabelled(struct group *group, unsigned names, double total)
{
	struct group *unlabelled = &group[names + UNLABELLED];
	double missing = total;
	double v = 0;

	for (unsigned i = 0; i < names + FURTHER; i++) {
		missing -= group[i].ns;
		v += group[i].v;
	}
	if (missing >= (unlabelled->sampled_ns == 0 ? LEAST_NS : 0) &&
	    missing * missing > CHANCE * CHANCE * v)
		unlabelled->v = fmax(unlabelled->v, missing * missing);
}

/* X of each group, and its square error. */
static void combine(struct sp_name_times *t, struct group *group, unsigned groups)
{
	double hit_ns = fmax((double)t->period_ns, t->tick_ns);
	double tau2;

	for (unsigned i = 0; i < groups; i++) {
		struct group *g = &group[i];
		double most = fmax((double)g->sampled_ns, g->has_estimate ? g->estimate_ns : 0);

		g->chance_v = most * hit_ns;
		/* Expirations follow one another, so those in a long part are right but for one. */
		if (g->parts > 0)
			g->chance_v = fmin(g->chance_v, g->parts * hit_ns * hit_ns / 2);
		g->bias_ns = most * g->bias;
	}
	tau2 = learn_tau2(t, group, groups);
	for (unsigned i = 0; i < groups; i++) {
		struct group *g = &group[i];
		double sampled = (double)g->sampled_ns;

		g->ns = sampled;
		g->v = g->chance_v + tau2 * g->bias_ns * g->bias_ns;
		if (!g->has_estimate)
			continue;
		g->ns += g->v / (g->v + g->estimate_v) * (g->estimate_ns - sampled);
		g->v = g->v * g->estimate_v / (g->v + g->estimate_v);
		/* It would be one more stack for hardly any time. */
		if (g->sampled_ns == 0 && g->ns < LEAST_NS) {
			g->ns = 0;
			g->v = 0;
		}
	}
}

/* The share by which samples and measured roots of a name differ, if it is in step with the tick; 0 = it is not. */
static double in_step(const struct group *g)
{
	double off = fabs(g->estimate_ns - (double)g->sampled_ns);
	double most = fmax(g->estimate_ns, (double)g->sampled_ns);

	if (!g->has_estimate || most < IN_STEP_NS || off < IN_STEP * most ||
	    off < IN_STEP_ERRORS * sqrt(g->estimate_v + g->chance_v))
		return 0;
	return off / most;
}

/* Logs once which name is furthest from its samples. */
static void log_in_step(struct sp_name_times *t, const struct group *group, unsigned names)
{
	const struct group *furthest = NULL;
	struct sp_core_facts facts;
	char name[128];
	const char *text;
	size_t len;

	if (t->has_logged)
		return;
	for (unsigned i = 0; i < names; i++)
		if (in_step(&group[i]) > (furthest != NULL ? in_step(furthest) : 0))
			furthest = &group[i];
	if (furthest == NULL)
		return;
	/* Threads without a timer and a full ring explain missing samples, too. */
	t->ops->facts(t->ops->arg, &facts);
	if (facts.threads_limit + facts.threads_refused + facts.threads_unseen != 0 ||
	    t->ops->counter_read(t->ops->arg, SP_COUNT_DROP_RING_FULL) != 0)
		return;
	t->has_logged = true;
	text = t->ops->span_name_text(t->ops->arg, furthest->name_id, &len);
	sp_export_log_clean(name, sizeof(name), text, len);
	sp_export_log(
		t->ops, SP_LOG_INFO,
		"spans \"%s\" have %.2f s of CPU time and samples for %.2f s: they run in step "
		"with "
		"the kernel's timer interrupt, every %.0f ms. The profile has their CPU time, but "
		"their functions are uncertain",
		name, furthest->estimate_ns / 1e9, (double)furthest->sampled_ns / 1e9,
		t->tick_ns / 1e6);
}

/*
 * Makes the sum of all groups the total. A group that would fall below 0 stays there, and the others share the
 * rest: each turn but the last one ends with one such group more.
 */
static void balance(struct group *group, unsigned groups, double total)
{
	for (unsigned turn = 0; turn <= groups; turn++) {
		double over = -total;
		double v = 0;
		bool is_done = true;

		for (unsigned i = 0; i < groups; i++) {
			over += group[i].ns;
			v += group[i].v;
		}
		if (v <= 0)
			return;
		for (unsigned i = 0; i < groups; i++) {
			group[i].ns -= over * group[i].v / v;
			if (group[i].ns >= 0)
				continue;
			group[i].ns = 0;
			group[i].v = 0;
			is_done = false;
		}
		if (is_done)
			return;
	}
}

/*
 * Whole numbers that add up to the total: the group with the most time takes what rounding leaves. False if that is
 * more than rounding explains.
 */
static bool round_off(struct group *group, unsigned groups, uint64_t total)
{
	unsigned largest = 0;
	int64_t left = (int64_t)total;

	for (unsigned i = 0; i < groups; i++) {
		double ns = fmin(fmax(0, group[i].ns), (double)TOTAL_MOST);

		group[i].share =
			(struct sp_share){.total = (uint64_t)ns, .of = group[i].sampled_ns};
		left -= (int64_t)group[i].share.total;
		if (group[i].sampled_ns != 0 && (group[largest].sampled_ns == 0 ||
						 group[i].share.total > group[largest].share.total))
			largest = i;
	}
	if (left > (int64_t)(total / 1000 + groups) || -left > (int64_t)(total / 1000 + groups) ||
	    group[largest].sampled_ns == 0 || (int64_t)group[largest].share.total < -left)
		return false;
	group[largest].share.total += (uint64_t)left;
	return true;
}

/* The time of names, and of work between roots, that have no sample has no stack. */
static void put_unsampled(const struct sp_name_times *t, struct sp_stack_map *map,
			  const struct group *group, unsigned groups)
{
	for (unsigned i = 0; i < groups; i++) {
		const struct sp_cpu_time time = {.ns = group[i].share.total,
						 .name_id = group[i].name_id};

		if (group[i].sampled_ns == 0 && time.ns != 0)
			sp_stack_loss_count(t->ops, sp_stack_map_put_cpu_time(map, &time, 0, 0));
	}
}

static void correct(struct sp_name_times *t, struct sp_stack_map *map, struct group *group,
		    unsigned names, uint16_t *group_by_entry, uint64_t *ns)
{
	unsigned groups = names + FURTHER;
	uint64_t total = 0;

	if (!sum_up(map, t->period_ns, group, names, group_by_entry))
		return;
	for (unsigned i = 0; i < groups; i++)
		total += group[i].sampled_ns;
	group[names + OTHER_NAMES].bias = BIAS;
	group[names + UNLABELLED].bias = BIAS_BETWEEN;
	combine(t, group, groups);
	widen_unlabelled(group, names, (double)total);
	log_in_step(t, group, names);
	balance(group, groups, (double)total);
	if (total == 0 || !round_off(group, groups, total))
		return;
	for (uint32_t i = 0; i < sp_stack_map_entries(map); i++)
		ns[i] = sp_share_next(&group[group_by_entry[i]].share,
				      sp_stack_entry_ns(sp_stack_map_entry(map, i), t->period_ns));
	if (sp_stack_map_set_ns(map, t->period_ns, ns))
		put_unsampled(t, map, group, groups);
}

void sp_name_times_correct(struct sp_name_times *t, struct sp_stack_map *map, uint64_t duration_ns)
{
	const struct sp_root_durations *d = t != NULL ? t->ops->root_durations(t->ops->arg) : NULL;
	struct group *group = d != NULL ? calloc(GROUPS_MAX, sizeof(*group)) : NULL;
	uint32_t entries = sp_stack_map_entries(map);
	uint16_t *group_by_entry = calloc(entries, sizeof(*group_by_entry));
	uint64_t *ns = calloc(entries, sizeof(*ns));
	unsigned names = 0;
	bool has_estimate = false;

	if (group != NULL)
		names = find_groups(t, d, (double)(duration_ns != 0 ? duration_ns : 1), group);
	for (unsigned i = 0; i < names; i++)
		has_estimate = has_estimate || group[i].has_estimate;
	if (has_estimate && group_by_entry != NULL && ns != NULL)
		correct(t, map, group, names, group_by_entry, ns);
	free(group);
	free(group_by_entry);
	free(ns);
}
