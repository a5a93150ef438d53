/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the slowest roots of each name (slow_list.h).
 *
 * The host needs a threshold before an interval begins. If k roots of one interval are above a threshold, then in the
 * next interval chance makes it more or fewer, by about the square root of 2 k. So the threshold is the duration of the
 * root of rank k + k / 2 + 6, counted from the slowest one. Of the roots that the host tells, the slowest k are listed.
 * The duration of that rank is exact if the host has told so many roots, else it is the begin of a bucket.
 *
 * If all roots of a name become slower at once, all of them are above the old threshold. The list has room for 36 roots
 * of a name. When it is full, its fastest root becomes the threshold: no faster root can be among the slowest 20.
 */
#define _GNU_SOURCE
#include "export/profile/slow_list.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/containers.h"
#include "sampler/base/text.h"
#include "sampler/region/root_durations.h"

/* The rank of the root that sets the threshold for the next interval, where k roots are listed. */
static uint32_t rank_of_threshold(uint32_t k)
{
	return k + k / 2 + 6;
}

#define HUNDREDTH 100U
#define KEPT_MAX (SP_SLOW_ROOTS_OF_NAME + SP_SLOW_ROOTS_OF_NAME / 2 + 6)
/* A span in JSON without its name has fewer bytes than this. */
#define SPAN_BYTES 1024U
/* A byte of the name may become an escape, as \u0001. */
#define ESCAPE_BYTES 6U

/* Of all roots of a name so far. */
struct stats {
	uint64_t roots; /* 0 = nothing is known */
	uint64_t p50_ns;
	uint64_t p90_ns;
	uint64_t p99_ns;
};

struct name {
	uint64_t wanted_ns; /* SP_SLOW_AUTO, SP_SLOW_NEVER or a duration; once the name is met */
	bool is_met;
	struct sp_slow_root *root; /* in no order; NULL at first */
	size_t cap;
	uint32_t n;
	uint32_t fastest; /* its index, where n is as many as may be */
	/* The histogram at the end of the last interval, modulo 2^32; NULL = all 0. */
	uint32_t *seen;
	struct stats stats; /* at the end of an interval */
	/* At the last sp_slow_list_update(): the duration from which a root is slow, and the last buckets of the others. */
	uint64_t slow_ns;
	uint32_t last[SP_LATENCIES];
};

struct sp_slow_list {
	const struct sp_core_ops *ops;
	struct name *name[SP_ROOT_PLACES]; /* NULL = nothing is known of it */
};

/* A copy of one histogram, for the functions below. They have the exporter's turn. */
static uint64_t now[SP_DURATION_BUCKETS];
/* The roots that the interval has added to it. */
static uint64_t news[SP_DURATION_BUCKETS];

struct listed {
	struct sp_slow_root root;
	const char *text;
	size_t len;
	struct stats stats;
	uint32_t value[SP_SPAN_VALUES_MAX]; /* texts of the batch; 0 = none */
};

struct sp_slow_batch {
	const struct sp_config *config;
	uint32_t pid;
	uint32_t n;
	size_t bytes; /* of JSON, at most */
	/* Values of attributes, and the names of the attributes. */
	struct sp_strtab texts;
	uint32_t attribute[SP_SPAN_VALUES_MAX];
	unsigned attributes;
	struct sp_hash_index by_id;
	struct listed listed[];
};

static void count(const struct sp_slow_list *l, enum sp_counter c, uint64_t n)
{
	if (n != 0)
		l->ops->counter_add(l->ops->arg, c, n);
}

static struct sp_root_durations *durations(const struct sp_slow_list *l)
{
	return l->ops->root_durations(l->ops->arg);
}

struct sp_slow_list *sp_slow_list_new(const struct sp_core_ops *ops)
{
	struct sp_slow_list *l = calloc(1, sizeof(*l));

	if (l != NULL)
		l->ops = ops;
	return l;
}

void sp_slow_list_free(struct sp_slow_list *l)
{
	if (l == NULL)
		return;
	for (unsigned i = 0; i < SP_ROOT_PLACES; i++) {
		if (l->name[i] == NULL)
			continue;
		free(l->name[i]->root);
		free(l->name[i]->seen);
		free(l->name[i]);
	}
	free(l);
}

/* state: SP_ROOT_MOVED, or SP_ROOT_SEEN, and then the host raises the threshold by itself. */
static void set(const struct sp_slow_list *l, uint32_t place, uint64_t ns, uint32_t state)
{
	struct sp_root_durations *d = durations(l);

	if (d == NULL)
		return;
	atomic_store_explicit(&d->name[place].threshold_ns, ns, memory_order_relaxed);
	atomic_store_explicit(&d->name[place].slow, state, memory_order_relaxed);
}

static void move(const struct sp_slow_list *l, uint32_t place, uint64_t ns)
{
	set(l, place, ns, SP_ROOT_MOVED);
}

/* The last place is of many names, which have the duration that is for all. */
static uint64_t wanted_of(const struct sp_slow_list *l, uint32_t place, uint32_t name_id)
{
	size_t len = 0;
	const char *text =
		place != SP_ROOT_NAMES ? l->ops->span_name_text(l->ops->arg, name_id, &len) : "";

	return sp_config_slow(l->ops->config->slow, text, len);
}

static bool is_fixed(const struct name *n)
{
	return n->wanted_ns != SP_SLOW_AUTO;
}

static uint32_t kept_max(const struct name *n)
{
	return is_fixed(n) ? SP_SLOW_ROOTS_MAX : KEPT_MAX;
}

static uint64_t look(const struct sp_slow_list *l, struct name *n,
		     const struct sp_root_histogram *h);

/*
 * NULL when out of memory, which is counted. If an exporter before this one has served the process, the roots of its time
 * are no news.
 */
static struct name *name_at(struct sp_slow_list *l, uint32_t place)
{
	const struct sp_root_durations *d = durations(l);

	if (l->name[place] != NULL)
		return l->name[place];
	l->name[place] = calloc(1, sizeof(*l->name[place]));
	if (l->name[place] == NULL)
		count(l, SP_COUNT_EXPORT_NOMEM, 1);
	else if (d != NULL &&
		 atomic_load_explicit(&d->name[place].slow, memory_order_relaxed) >= SP_ROOT_SEEN)
		(void)look(l, l->name[place], &d->histogram[place]);
	return l->name[place];
}

static uint32_t kept(const struct sp_slow_list *l, uint32_t place)
{
	return l->name[place] != NULL ? l->name[place]->n : 0;
}

static void find_fastest(struct name *n)
{
	n->fastest = 0;
	for (uint32_t i = 1; i < n->n; i++)
		if (n->root[i].duration_ns < n->root[n->fastest].duration_ns)
			n->fastest = i;
}

/* The list of the name is full: a root replaces the fastest one, if it is slower. */
static void replace(struct sp_slow_list *l, struct name *n, const struct sp_slow_root *r)
{
	if (r->duration_ns > n->root[n->fastest].duration_ns) {
		n->root[n->fastest] = *r;
		find_fastest(n);
		if (!is_fixed(n))
			move(l, r->place, n->root[n->fastest].duration_ns);
	}
	count(l, is_fixed(n) ? SP_COUNT_SLOW_ROOTS_OTHER : SP_COUNT_SLOW_ROOTS_FASTER, 1);
}

void sp_slow_list_put(struct sp_slow_list *l, const struct sp_slow_root *r)
{
	struct name *n;

	if (l == NULL)
		return;
	n = r->place < SP_ROOT_PLACES ? name_at(l, r->place) : NULL;
	if (n == NULL) {
		count(l, SP_COUNT_SLOW_ROOTS_UNSENT, 1);
		return;
	}
	if (!n->is_met) {
		n->wanted_ns = wanted_of(l, r->place, r->name_id);
		n->is_met = true;
		if (is_fixed(n))
			move(l, r->place, n->wanted_ns);
	}
	if (r->duration_ns < n->wanted_ns) {
		count(l, SP_COUNT_SLOW_ROOTS_FASTER, 1);
		return;
	}
	if (n->n >= kept_max(n)) {
		replace(l, n, r);
		return;
	}
	if (!SP_GROW(n->root, n->cap, (size_t)n->n + 1, SP_SLOW_ROOTS_MAX)) {
		count(l, SP_COUNT_EXPORT_NOMEM, 1);
		count(l, SP_COUNT_SLOW_ROOTS_UNSENT, 1);
		return;
	}
	n->root[n->n++] = *r;
	if (n->n == kept_max(n)) {
		find_fastest(n);
		if (!is_fixed(n))
			move(l, r->place, n->root[n->fastest].duration_ns);
	}
}

/*
 * Copies a histogram. Returns how many roots the interval has added. A count that another program has overwritten makes
 * that number wrong in one interval, by 2^32 for each bucket at most.
 */
static uint64_t look(const struct sp_slow_list *l, struct name *n,
		     const struct sp_root_histogram *h)
{
	uint64_t added = 0;

	if (n->seen == NULL)
		n->seen = calloc(SP_DURATION_BUCKETS, sizeof(*n->seen));
	if (n->seen == NULL)
		count(l, SP_COUNT_EXPORT_NOMEM, 1);
	for (uint32_t i = 0; i < SP_DURATION_BUCKETS; i++) {
		uint64_t is = atomic_load_explicit(&h->count[i], memory_order_relaxed);

		news[i] = (uint32_t)((uint32_t)is - (n->seen != NULL ? n->seen[i] : 0));
		now[i] = is < SP_COUNT_MOST ? is : SP_COUNT_MOST;
		if (n->seen != NULL)
			n->seen[i] = (uint32_t)is;
		added += news[i];
	}
	return added;
}

/* The bucket in which the root of that rank is, counted from the fastest one, which is 1. */
static uint32_t bucket_at(const uint64_t counts[SP_DURATION_BUCKETS], uint64_t rank)
{
	uint64_t sum = 0;
	uint32_t i = 0;

	while (i < SP_DURATION_BUCKETS - 1 && (sum += counts[i]) < rank)
		i++;
	return i;
}

/* The middle of that bucket. */
static uint64_t at_rank(const uint64_t counts[SP_DURATION_BUCKETS], uint64_t rank)
{
	uint32_t i = bucket_at(counts, rank);

	return sp_duration_begin(i) + (sp_duration_begin(i + 1) - sp_duration_begin(i)) / 2;
}

static struct stats stats_of(const uint64_t counts[SP_DURATION_BUCKETS])
{
	struct stats s = {.roots = 0};

	for (uint32_t i = 0; i < SP_DURATION_BUCKETS; i++)
		s.roots += counts[i];
	s.p50_ns = at_rank(counts, s.roots - s.roots / 2);
	s.p90_ns = at_rank(counts, s.roots - s.roots / 10);
	s.p99_ns = at_rank(counts, s.roots - s.roots / 100);
	return s;
}

/* Where the bucket begins in which the root of that rank is, counted from the slowest one, which is 1. */
static uint64_t from_slowest(const uint64_t counts[SP_DURATION_BUCKETS], uint64_t rank)
{
	uint32_t i = SP_DURATION_BUCKETS;
	uint64_t sum = 0;

	while (i != 0 && sum < rank)
		sum += counts[--i];
	return sum < rank ? 0 : sp_duration_begin(i);
}

static int slower_first(const void *a, const void *b)
{
	const struct sp_slow_root *x = a;
	const struct sp_slow_root *y = b;

	return (x->duration_ns < y->duration_ns) - (x->duration_ns > y->duration_ns);
}

/* How many of the roots that have come are listed. */
static uint32_t wanted(const struct name *n, uint64_t roots)
{
	if (is_fixed(n))
		return SP_SLOW_ROOTS_MAX;
	if (roots / HUNDREDTH >= SP_SLOW_ROOTS_OF_NAME)
		return SP_SLOW_ROOTS_OF_NAME;
	return roots < HUNDREDTH ? 1 : (uint32_t)(roots / HUNDREDTH);
}

static void end_name(struct sp_slow_list *l, const struct sp_root_durations *d, uint32_t place)
{
	struct name *n = l->name[place];
	uint64_t roots = d != NULL ? look(l, n, &d->histogram[place]) : n->n;
	uint32_t k = wanted(n, roots);
	uint32_t rank = rank_of_threshold(k);
	uint64_t threshold;

	n->stats = d != NULL ? stats_of(now) : (struct stats){.roots = 0};
	if (n->n != 0)
		qsort(n->root, n->n, sizeof(*n->root), slower_first);
	if (!is_fixed(n) && d != NULL) {
		threshold = n->n >= rank ? n->root[rank - 1].duration_ns : from_slowest(news, rank);
		/* SPANPROF_SLOW may have a duration for a name that no root has told yet: the next root tells it. */
		if (n->is_met && threshold != 0)
			move(l, place, threshold);
		else
			set(l, place, 0, SP_ROOT_SEEN);
	}
	if (n->n <= k)
		return;
	count(l, SP_COUNT_SLOW_ROOTS_FASTER, n->n - k);
	n->n = k;
}

/* of: counts of all roots so far. */
static void find_limits(struct name *n, uint64_t wanted_ns, const uint64_t of[SP_DURATION_BUCKETS])
{
	uint64_t roots = 0;
	uint64_t slowest;

	for (uint32_t i = 0; i < SP_DURATION_BUCKETS; i++)
		roots += of[i];
	slowest = roots / HUNDREDTH != 0 ? roots / HUNDREDTH : 1;
	n->last[SP_LATENCY_P50] = bucket_at(of, roots - roots / 2);
	n->last[SP_LATENCY_P90] = bucket_at(of, roots - roots / 10);
	n->last[SP_LATENCY_P99] = bucket_at(of, roots > slowest ? roots - slowest : roots);
	/* Where all but the slowest one are faster than the 90th percentile, or than the median. */
	n->slow_ns = wanted_ns != SP_SLOW_AUTO ? wanted_ns
					       : sp_duration_begin(n->last[SP_LATENCY_P99] + 1);
}

void sp_slow_list_update(struct sp_slow_list *l)
{
	const struct sp_root_durations *d = l != NULL ? durations(l) : NULL;

	if (d == NULL)
		return;
	for (uint32_t place = 0; place < SP_ROOT_PLACES; place++) {
		uint32_t id = atomic_load_explicit(&d->name[place].name_id, memory_order_relaxed);
		struct name *n = id != 0 ? name_at(l, place) : NULL;

		if (n == NULL)
			continue;
		for (uint32_t i = 0; i < SP_DURATION_BUCKETS; i++) {
			uint64_t is = atomic_load_explicit(&d->histogram[place].count[i],
							   memory_order_relaxed);

			now[i] = is < SP_COUNT_MOST ? is : SP_COUNT_MOST;
		}
		find_limits(n, n->is_met ? n->wanted_ns : wanted_of(l, place, id), now);
	}
}

enum sp_latency sp_slow_list_latency(const struct sp_slow_list *l, const struct sp_root_end *end)
{
	const struct name *n =
		l != NULL && end->place < SP_ROOT_PLACES ? l->name[end->place] : NULL;
	uint32_t bucket = sp_duration_bucket(end->duration_ns);

	if (n == NULL || n->slow_ns == 0)
		return SP_LATENCY_UNKNOWN;
	if (end->duration_ns >= n->slow_ns)
		return SP_LATENCY_SLOW;
	if (bucket <= n->last[SP_LATENCY_P50])
		return SP_LATENCY_P50;
	return bucket <= n->last[SP_LATENCY_P90] ? SP_LATENCY_P90 : SP_LATENCY_P99;
}

/* The names of attributes that become labels. 0 or -ENOMEM. */
static int name_attributes(struct sp_slow_batch *b, const struct sp_root_values *values)
{
	int err = sp_strtab_init(&b->texts);

	for (unsigned i = 0; err == 0 && i < sp_root_values_attributes(values); i++) {
		const char *name = sp_root_values_name(values, i);

		/* The latency of all of these is slow. */
		if (strcmp(name, SP_LATENCY_LABEL) != 0)
			err = sp_strtab_put(&b->texts, name, strlen(name),
					    &b->attribute[b->attributes++]);
	}
	return err;
}

/* The values of a root's attributes, as far as they are known. Returns the bytes that they take in JSON at most. */
static size_t take_values(struct sp_slow_batch *b, struct listed *to,
			  const struct sp_root_values *values)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < b->attributes; i++) {
		size_t len = 0;
		const char *text = sp_root_values_get(values, to->root.span_id, i, &len);

		if (text != NULL && sp_strtab_put(&b->texts, text, len, &to->value[i]) == 0)
			bytes += SPAN_BYTES + ESCAPE_BYTES * len;
	}
	return bytes;
}

/* All that is kept has a rank in its name. The slowest ones of all names come first, then the second ones, and so on. */
static void list(struct sp_slow_list *l, struct sp_slow_batch *b, uint32_t all,
		 const struct sp_root_values *values)
{
	uint32_t over = 0;

	for (uint32_t rank = 0; rank < SP_SLOW_ROOTS_MAX && b->n + over < all; rank++) {
		for (uint32_t place = 0; place < SP_ROOT_PLACES; place++) {
			struct listed *to = &b->listed[b->n];
			size_t bytes;

			if (rank >= kept(l, place))
				continue;
			if (b->n == SP_SLOW_ROOTS_MAX) {
				over++;
				continue;
			}
			to->root = l->name[place]->root[rank];
			to->stats = l->name[place]->stats;
			to->text = l->ops->span_name_text(l->ops->arg, to->root.name_id, &to->len);
			bytes = SPAN_BYTES + ESCAPE_BYTES * to->len + take_values(b, to, values);
			if (b->bytes + bytes > SP_SLOW_BYTES_MAX) {
				over++;
				continue;
			}
			b->bytes += bytes;
			b->n++;
		}
	}
	count(l, SP_COUNT_SLOW_ROOTS_OTHER, over);
}

static void empty(struct sp_slow_list *l)
{
	for (uint32_t place = 0; place < SP_ROOT_PLACES; place++)
		if (l->name[place] != NULL)
			l->name[place]->n = 0;
}

static uint32_t hash_id(uint64_t id)
{
	return (uint32_t)sp_hash_add(0, id);
}

/* NULL = no root of the batch has that id. */
static const struct sp_slow_root *find_root(const struct sp_slow_batch *b, uint64_t span_id)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&b->by_id, hash_id(span_id), &step, &i);)
		if (b->listed[i].root.span_id == span_id)
			return &b->listed[i].root;
	return NULL;
}

static void index_roots(const struct sp_slow_list *l, struct sp_slow_batch *b)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (find_root(b, b->listed[i].root.span_id) == NULL &&
		    !sp_hash_index_put(&b->by_id, hash_id(b->listed[i].root.span_id), i))
			count(l, SP_COUNT_EXPORT_NOMEM, 1);
}

struct sp_slow_batch *sp_slow_list_end(struct sp_slow_list *l, const struct sp_root_values *values)
{
	const struct sp_root_durations *d = l != NULL ? durations(l) : NULL;
	struct sp_slow_batch *b = NULL;
	uint32_t all = 0;

	if (l == NULL)
		return NULL;
	for (uint32_t place = 0; place < SP_ROOT_PLACES; place++) {
		bool is_used = d != NULL && atomic_load_explicit(&d->name[place].name_id,
								 memory_order_relaxed) != 0;

		if ((is_used || kept(l, place) != 0) && name_at(l, place) != NULL)
			end_name(l, d, place);
		all += kept(l, place);
	}
	if (all == 0)
		return NULL;
	b = calloc(1, sizeof(*b) + (all < SP_SLOW_ROOTS_MAX ? all : SP_SLOW_ROOTS_MAX) *
					   sizeof(b->listed[0]));
	if (b == NULL || (values != NULL && name_attributes(b, values) != 0)) {
		count(l, SP_COUNT_EXPORT_NOMEM, 1);
		sp_slow_list_abandon(l);
		sp_slow_batch_free(b);
		return NULL;
	}
	b->config = l->ops->config;
	b->pid = l->ops->pid;
	list(l, b, all, values);
	empty(l);
	index_roots(l, b);
	return b;
}

void sp_slow_list_abandon(struct sp_slow_list *l)
{
	if (l == NULL)
		return;
	for (uint32_t place = 0; place < SP_ROOT_PLACES; place++)
		count(l, SP_COUNT_SLOW_ROOTS_UNSENT, kept(l, place));
	empty(l);
}

bool sp_slow_batch_time(const struct sp_slow_batch *b, uint64_t span_id, uint64_t monotonic_ns,
			int64_t *real_ns)
{
	const struct sp_slow_root *r = find_root(b, span_id);

	if (r == NULL)
		return false;
	/* A host may have written any number. */
	*real_ns = (int64_t)((r->end_ns - (r->end_monotonic_ns - monotonic_ns)) & INT64_MAX);
	return true;
}

uint32_t sp_slow_batch_begun_before(const struct sp_slow_batch *b, uint64_t monotonic_ns)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < b->n; i++)
		n += b->listed[i].root.end_monotonic_ns - b->listed[i].root.duration_ns <
		     monotonic_ns;
	return n;
}

void sp_slow_batch_free(struct sp_slow_batch *b)
{
	if (b != NULL) {
		sp_strtab_fini(&b->texts);
		sp_hash_index_fini(&b->by_id);
	}
	free(b);
}

uint64_t sp_slow_batch_id(const struct sp_slow_batch *b, uint32_t root)
{
	return b->listed[root].root.span_id;
}

uint32_t sp_slow_batch_roots(const struct sp_slow_batch *b)
{
	return b->n;
}

size_t sp_slow_batch_bytes(const struct sp_slow_batch *b)
{
	return sizeof(*b) + b->n * sizeof(b->listed[0]) + sp_strtab_bytes(&b->texts);
}

/* JSON of OTLP has 64-bit integers as strings. */
#define NUMBER_BYTES 24U
static json_t *number(uint64_t n)
{
	char text[NUMBER_BYTES];

	(void)snprintf(text, sizeof(text), "%" PRIu64, n < INT64_MAX ? n : INT64_MAX);
	return json_string(text);
}

/* False when out of memory. */
static bool add(json_t *list, bool is_known, const char *key, uint64_t value)
{
	return !is_known ||
	       json_array_append_new(list, json_pack("{s:s, s:{s:o}}", "key", key, "value",
						     "intValue", number(value))) == 0;
}

/* Values of the program's attributes. False when out of memory. */
static bool add_values(const struct sp_slow_batch *b, json_t *list, const struct listed *i)
{
	bool is_done = true;

	for (unsigned k = 0; is_done && k < b->attributes; k++) {
		size_t len;

		if (i->value[k] != 0)
			is_done = json_array_append_new(
					  list,
					  json_pack("{s:s, s:{s:s}}", "key",
						    sp_strtab_get(&b->texts, b->attribute[k], &len),
						    "value", "stringValue",
						    sp_strtab_get(&b->texts, i->value[k], &len))) ==
				  0;
	}
	return is_done;
}

/* NULL when out of memory, and then the span is none. */
static json_t *attributes_of(const struct sp_slow_batch *b, const struct listed *i)
{
	const struct sp_slow_root *r = &i->root;
	const struct stats *s = &i->stats;
	bool off_cpu = (r->has & SP_SLOW_ROOT_OFF_CPU) != 0;
	json_t *list = json_array();

	if (add_values(b, list, i) && add(list, r->tid != 0, "spanprof.thread.id", r->tid) &&
	    add(list, (r->has & SP_SLOW_ROOT_CPU) != 0, "spanprof.cpu_time_ns", r->cpu_ns) &&
	    add(list, off_cpu, "spanprof.off_cpu_time_ns", r->off_cpu_ns) &&
	    add(list, (r->has & SP_SLOW_ROOT_RUNNABLE) != 0, "spanprof.runnable_time_ns",
		r->runnable_ns) &&
	    add(list, off_cpu, "spanprof.page_faults.major", r->major_faults) &&
	    add(list, (r->has & SP_SLOW_ROOT_ALLOCATED) != 0, "spanprof.allocated_bytes",
		r->allocated) &&
	    add(list, s->roots != 0, "spanprof.roots.count", s->roots) &&
	    add(list, s->roots != 0, "spanprof.duration.p50_ns", s->p50_ns) &&
	    add(list, s->roots != 0, "spanprof.duration.p90_ns", s->p90_ns) &&
	    add(list, s->roots != 0, "spanprof.duration.p99_ns", s->p99_ns))
		return list;
	json_decref(list);
	return NULL;
}

#define KIND_SERVER 2
#define STATUS_ERROR 2
/* NULL: it is not an error. */
static json_t *status_of(const struct sp_slow_root *r)
{
	return (r->has & SP_SLOW_ROOT_ERROR) != 0 ? json_pack("{s:i}", "code", STATUS_ERROR) : NULL;
}

static json_t *span_of(const struct sp_slow_batch *b, const struct listed *i)
{
	const struct sp_slow_root *r = &i->root;
	char trace[2 * sizeof(r->trace_id) + 1];
	char id[SP_TEXT_ID_SIZE];

	sp_text_hex(trace, r->trace_id, sizeof(r->trace_id));
	sp_text_id(id, r->span_id);
	return json_pack("{s:s, s:s, s:s%, s:i, s:o, s:o, s:o, s:o*}", "traceId", trace, "spanId",
			 id, "name", i->text, i->len, "kind", KIND_SERVER, "startTimeUnixNano",
			 number(r->end_ns > r->duration_ns ? r->end_ns - r->duration_ns : 0),
			 "endTimeUnixNano", number(r->end_ns), "attributes", attributes_of(b, i),
			 "status", status_of(r));
}

static json_t *resource_of(const struct sp_slow_batch *b)
{
	return json_pack("{s:[{s:s, s:{s:s}}, {s:s, s:{s:o}}]}", "attributes", "key",
			 "service.name", "value", "stringValue", b->config->service_name, "key",
			 "process.pid", "value", "intValue", number(b->pid));
}

static bool print(FILE *to, json_t *part)
{
	bool is_done = part != NULL && json_dumpf(part, to, JSON_COMPACT) == 0;

	json_decref(part);
	return is_done;
}

/* A span at a time: as objects of jansson all of them would take many times the memory. */
int sp_slow_batch_json(const struct sp_slow_batch *b, struct sp_bytes *out)
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);
	bool is_done = to != NULL;

	*out = (struct sp_bytes){NULL, 0};
	if (!is_done)
		return -ENOMEM;
	(void)fputs("{\"resourceSpans\":[{\"resource\":", to);
	is_done = print(to, resource_of(b));
	(void)fputs(",\"scopeSpans\":[{\"scope\":", to);
	(void)fputs("{\"name\":\"spanprof\"},\"spans\":[", to);
	for (uint32_t i = 0; is_done && i < b->n; i++) {
		(void)fputs(i != 0 ? "," : "", to);
		is_done = print(to, span_of(b, &b->listed[i]));
	}
	(void)fputs("]}]}]}\n", to);
	is_done = ferror(to) == 0 && is_done;
	if (fclose(to) != 0 || !is_done) {
		free(text);
		return -ENOMEM;
	}
	*out = (struct sp_bytes){(uint8_t *)text, len};
	return 0;
}
