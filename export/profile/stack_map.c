/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aggregates the samples of a profile. Two tables: stacks (distinct lists of program
 * counters, in one array) and entries (stack x labels). Context: the exporter.
 */
#include "export/profile/stack_map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/containers.h"

/* Memory at the limit is 25 MiB. 15 s of 20 fully used processors at 100 Hz stay below. */
const struct sp_stack_limits sp_stack_limits_default = {
	.stacks = 32768,
	.entries = 49152,
	.pc_words = 2U << 20,
};

struct stack {
	uint32_t first; /* in pc[] */
	uint32_t epoch;
	uint16_t depth;
	uint16_t flags;
	bool unsampled;
	bool has_owner_pc;
	uint32_t wait;
	uint32_t owner;
};

struct sp_stack_map {
	struct sp_stack_limits limits;
	struct stack *stack;
	struct sp_stack_entry *entry;
	uint64_t *pc;
	uint32_t stacks, entries, words;
	size_t stack_cap, entry_cap, word_cap;
	struct sp_hash_index by_stack; /* all except "(other)", which has a fixed number */
	struct sp_hash_index by_entry;
	uint64_t samples;
	uint32_t last; /* the entry of the last sample */
	struct sp_stack_time *time;
	uint32_t times;
	size_t time_cap;
};

static uint32_t hash_stack(const struct sp_stack *s)
{
	uint64_t h = sp_hash_add(s->unsampled ? 2 : 1,
				 (uint64_t)s->epoch << 32 | (uint32_t)s->flags << 16 | s->depth);

	if (s->wait != 0)
		h = sp_hash_add(h, (uint64_t)s->owner << 32 | s->wait);
	for (unsigned i = 0; i < s->depth; i++)
		h = sp_hash_add(h, s->pc[i]);
	return (uint32_t)h;
}

static uint32_t hash_entry(const struct sp_stack_labels *l, uint32_t stack)
{
	uint64_t trace[2];
	uint64_t h;

	memcpy(trace, l->trace_id, sizeof(trace));
	h = sp_hash_add(sp_hash_add(l->span_id, trace[0]), trace[1]);
	h = sp_hash_add(h, (uint64_t)l->name_id << 32 | l->thread);
	h = sp_hash_add(sp_hash_add(h, l->blocked_by_span_id), l->root_id);
	return (uint32_t)sp_hash_add(h, stack);
}

/* The index of a stack, or SP_STACK_OTHER with *loss set. */
static uint32_t intern_stack(struct sp_stack_map *m, const struct sp_stack *s, unsigned *loss)
{
	uint32_t hash = hash_stack(s);
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&m->by_stack, hash, &step, &i);) {
		const struct stack *k = &m->stack[i];

		if (k->depth == s->depth && k->flags == s->flags && k->epoch == s->epoch &&
		    k->unsampled == s->unsampled && k->wait == s->wait && k->owner == s->owner &&
		    k->has_owner_pc == s->has_owner_pc &&
		    (s->depth == 0 ||
		     memcmp(m->pc + k->first, s->pc, s->depth * sizeof(*s->pc)) == 0))
			return i;
	}
	*loss |= SP_STACK_LOST;
	if (m->stacks >= m->limits.stacks || m->limits.pc_words - m->words < s->depth)
		return SP_STACK_OTHER;
	if (!SP_GROW(m->stack, m->stack_cap, m->stacks + 1, m->limits.stacks) ||
	    !SP_GROW(m->pc, m->word_cap, m->words + s->depth, m->limits.pc_words) ||
	    !sp_hash_index_put(&m->by_stack, hash, m->stacks)) {
		*loss |= SP_STACK_NOMEM;
		return SP_STACK_OTHER;
	}
	*loss &= ~(unsigned)SP_STACK_LOST;
	m->stack[m->stacks] = (struct stack){
		.first = m->words,
		.epoch = s->epoch,
		.depth = s->depth,
		.flags = s->flags,
		.unsampled = s->unsampled,
		.has_owner_pc = s->has_owner_pc,
		.wait = s->wait,
		.owner = s->owner,
	};
	if (s->depth != 0)
		memcpy(m->pc + m->words, s->pc, s->depth * sizeof(*s->pc));
	m->words += s->depth;
	return m->stacks++;
}

/* The entry of stack x labels, added if it is missing; NULL when there is no room. */
static struct sp_stack_entry *intern_entry(struct sp_stack_map *m, uint32_t stack,
					   const struct sp_stack_labels *l, unsigned *loss)
{
	uint32_t hash = hash_entry(l, stack);
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&m->by_entry, hash, &step, &i);)
		if (m->entry[i].stack == stack && memcmp(&m->entry[i].labels, l, sizeof(*l)) == 0)
			return &m->entry[i];
	if (m->entries >= m->limits.entries)
		return NULL;
	if (!SP_GROW(m->entry, m->entry_cap, m->entries + 1, m->limits.entries) ||
	    !sp_hash_index_put(&m->by_entry, hash, m->entries)) {
		*loss |= SP_STACK_NOMEM;
		return NULL;
	}
	m->entry[m->entries] = (struct sp_stack_entry){.labels = *l, .stack = stack};
	return &m->entry[m->entries++];
}

/* The entry to which one more sample of that stack and these labels is added. */
static struct sp_stack_entry *count_in(struct sp_stack_map *m, const struct sp_stack *stack,
				       const struct sp_stack_labels *labels, unsigned *loss)
{
	struct sp_stack_entry *e = intern_entry(m, intern_stack(m, stack, loss), labels, loss);

	m->samples++;
	m->last = e != NULL ? (uint32_t)(e - m->entry) : 0;
	if (e != NULL)
		return e;
	*loss |= SP_STACK_LOST;
	if (labels->span_id != 0 || labels->name_id != 0)
		*loss |= SP_LABELS_LOST;
	/* Entry 0 is "(other)" without labels: clear() made it, so it always exists. */
	return &m->entry[0];
}

/* The entry of a sample. */
static struct sp_stack_entry *count_sample(struct sp_stack_map *m, const struct sp_sample *s,
					   uint32_t epoch, uint32_t thread, unsigned *loss)
{
	struct sp_stack_labels labels = {
		.span_id = s->span_id,
		.name_id = s->name_id,
		.thread = thread,
		.root_id = s->root_id,
	};
	const struct sp_stack stack = {
		.pc = s->pc,
		.epoch = epoch,
		.depth = s->depth <= SP_FRAMES_MAX ? s->depth : SP_FRAMES_MAX,
		.flags = s->flags,
	};
	struct sp_stack_entry *e;

	memcpy(labels.trace_id, s->trace_id, sizeof(labels.trace_id));
	e = count_in(m, &stack, &labels, loss);
	e->count++;
	return e;
}

unsigned sp_stack_map_put(struct sp_stack_map *m, const struct sp_sample *s, uint32_t epoch,
			  uint32_t thread)
{
	unsigned loss = SP_STACK_KEPT;

	count_sample(m, s, epoch, thread, &loss)->weight += s->weight;
	return loss;
}

/* Values come from a host, and may be anything. */
static void add(uint64_t *sum, uint64_t n)
{
	if (__builtin_add_overflow(*sum, n, sum))
		*sum = UINT64_MAX;
}

static void add_rounded(uint64_t *sum, double part)
{
	part += 0.5;
	add(sum, part < (double)UINT64_MAX ? (uint64_t)part : UINT64_MAX);
}

/*
 * A block of b bytes is sampled with the probability 1 - exp(-b / interval) (preload/alloc/interval.h), so it stands
 * for the inverse of that many blocks.
 */
unsigned sp_stack_map_put_allocation(struct sp_stack_map *m, const struct sp_sample *s,
				     uint32_t epoch, uint32_t thread, uint32_t interval)
{
	unsigned loss = SP_STACK_KEPT;
	struct sp_stack_entry *e = count_sample(m, s, epoch, thread, &loss);
	double bytes = (double)s->allocated;
	double blocks = -1 / expm1(-bytes / interval);

	add_rounded(&e->weight, blocks * SP_STACK_BLOCK);
	add_rounded(&e->unsampled_ns, blocks * bytes);
	return loss;
}

unsigned sp_stack_map_put_cpu_time(struct sp_stack_map *m, const struct sp_cpu_time *t,
				   uint32_t epoch, uint32_t thread)
{
	struct sp_stack_labels labels = {
		.span_id = t->span_id,
		.name_id = t->name_id,
		.thread = thread,
		.root_id = t->root_id,
	};
	const struct sp_stack stack = {
		.pc = &t->start,
		.epoch = epoch,
		.depth = t->start != 0,
		.flags = SP_SAMPLE_ROOTED,
		.unsampled = true,
	};
	unsigned loss = SP_STACK_KEPT;
	struct sp_stack_entry *e;

	memcpy(labels.trace_id, t->trace_id, sizeof(labels.trace_id));
	e = count_in(m, &stack, &labels, &loss);
	add(&e->unsampled_ns, t->ns);
	return loss;
}

unsigned sp_stack_map_put_wait(struct sp_stack_map *m, const struct sp_stack_wait *w)
{
	unsigned loss = SP_STACK_KEPT;
	struct sp_stack_entry *e = count_in(m, &w->stack, w->labels, &loss);

	e->count++;
	add(&e->unsampled_ns, w->ns);
	return loss;
}

/* Entry 0, "(other)", stays the first one. Where the index has no memory, equal entries stay apart. */
uint32_t sp_stack_map_relabel(struct sp_stack_map *m,
			      void (*change)(void *arg, bool is_unsampled,
					     struct sp_stack_labels *l),
			      void *arg)
{
	uint32_t entries = m->entries;
	uint32_t *moved_to = m->times != 0 ? calloc(entries, sizeof(*moved_to)) : NULL;
	uint32_t lost = moved_to == NULL ? m->times : 0;
	unsigned loss = 0;

	sp_hash_index_clear(&m->by_entry);
	m->entries = 0;
	for (uint32_t i = 0; i < entries; i++) {
		struct sp_stack_entry from = m->entry[i];
		struct sp_stack_entry *to;

		change(arg, m->stack[from.stack].unsampled, &from.labels);
		/* At most as many as were read. */
		to = intern_entry(m, from.stack, &from.labels, &loss);
		if (to == NULL) {
			to = &m->entry[m->entries++];
			*to = from;
		} else {
			add(&to->count, from.count);
			add(&to->weight, from.weight);
			add(&to->unsampled_ns, from.unsampled_ns);
		}
		if (moved_to != NULL)
			moved_to[i] = (uint32_t)(to - m->entry);
	}
	if (moved_to == NULL)
		m->times = 0;
	for (uint32_t i = 0; i < m->times; i++)
		m->time[i].entry = moved_to[m->time[i].entry];
	free(moved_to);
	return lost;
}

uint64_t sp_share_next(struct sp_share *s, uint64_t part)
{
	uint64_t before = s->given;

	/* Values come from a host. */
	part = part < s->of - s->done ? part : s->of - s->done;
	s->done += part;
	s->given = s->of != 0 ? (uint64_t)((unsigned __int128)s->total * s->done / s->of) : 0;
	return s->given - before;
}

/*
 * A server drops a sample whose values are 0. So an entry keeps a nanosecond, which the largest one
 * gives.
 */
static void leave_none_empty(const struct sp_stack_map *m, uint64_t period_ns, uint64_t *ns)
{
	uint32_t largest = 0;

	for (uint32_t i = 1; i < m->entries; i++)
		if (ns[i] > ns[largest])
			largest = i;
	for (uint32_t i = 0; i < m->entries; i++) {
		if (ns[i] != 0 || ns[largest] < 2 ||
		    sp_stack_entry_ns(&m->entry[i], period_ns) == 0)
			continue;
		ns[i] = 1;
		ns[largest]--;
	}
}

bool sp_stack_map_set_ns(struct sp_stack_map *m, uint64_t period_ns, uint64_t *ns)
{
	struct sp_share *shares = m->times != 0 ? calloc(m->entries, sizeof(*shares)) : NULL;

	if (m->times != 0 && shares == NULL)
		return false;
	leave_none_empty(m, period_ns, ns);
	for (uint32_t i = 0; i < m->entries; i++) {
		struct sp_stack_entry *e = &m->entry[i];

		if (shares != NULL) {
			shares[i].total = ns[i];
			shares[i].of = sp_stack_entry_ns(e, period_ns);
		}
		e->weight = 0;
		e->unsampled_ns = ns[i];
	}
	for (uint32_t i = 0; i < m->times; i++) {
		struct sp_stack_time *t = &m->time[i];

		t->ns = sp_share_next(&shares[t->entry], sp_stack_ns(t->weight, period_ns, t->ns));
		t->weight = 0;
	}
	free(shares);
	return true;
}

bool sp_stack_map_take_ns(struct sp_stack_map *m, uint64_t period_ns, uint64_t ns)
{
	uint64_t *left = calloc(m->entries, sizeof(*left));
	struct sp_share share = {.of = 0};
	bool is_taken = false;

	for (uint32_t i = 0; i < m->entries; i++)
		share.of += sp_stack_entry_ns(&m->entry[i], period_ns);
	if (left != NULL && ns < share.of) {
		share.total = share.of - ns;
		for (uint32_t i = 0; i < m->entries; i++)
			left[i] = sp_share_next(&share, sp_stack_entry_ns(&m->entry[i], period_ns));
		is_taken = sp_stack_map_set_ns(m, period_ns, left);
	}
	free(left);
	return is_taken;
}

bool sp_stack_map_put_time(struct sp_stack_map *m, const struct sp_stack_time *time)
{
	if (m->entry[m->last].labels.span_id == 0)
		return true;
	if (m->times == SP_STACK_TIMES_MAX ||
	    !SP_GROW(m->time, m->time_cap, m->times + 1, SP_STACK_TIMES_MAX))
		return false;
	m->time[m->times] = *time;
	m->time[m->times++].entry = m->last;
	return true;
}

uint32_t sp_stack_map_times(const struct sp_stack_map *m, const struct sp_stack_time **time)
{
	*time = m != NULL ? m->time : NULL;
	return m != NULL ? m->times : 0;
}

void sp_stack_map_clear(struct sp_stack_map *m)
{
	static const struct sp_stack_labels none;
	unsigned loss = 0;

	sp_hash_index_clear(&m->by_stack);
	sp_hash_index_clear(&m->by_entry);
	m->entries = 0;
	m->words = 0;
	m->samples = 0;
	m->last = 0;
	m->times = 0;
	m->stack[SP_STACK_OTHER] = (struct stack){0};
	m->stacks = 1;
	(void)intern_entry(m, SP_STACK_OTHER, &none, &loss);
}

size_t sp_stack_map_seal(struct sp_stack_map *m)
{
	if (m == NULL)
		return 0;
	sp_hash_index_fini(&m->by_stack);
	sp_hash_index_fini(&m->by_entry);
	return sizeof(*m) + m->stack_cap * sizeof(*m->stack) + m->entry_cap * sizeof(*m->entry) +
	       m->word_cap * sizeof(*m->pc) + m->time_cap * sizeof(*m->time);
}

void sp_stack_loss_count(const struct sp_core_ops *ops, unsigned loss)
{
	if ((loss & SP_STACK_LOST) != 0)
		ops->counter_add(ops->arg, SP_COUNT_STACKS_OTHER, 1);
	if ((loss & SP_LABELS_LOST) != 0)
		ops->counter_add(ops->arg, SP_COUNT_SPANS_OTHER, 1);
	if ((loss & SP_STACK_NOMEM) != 0)
		ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
}

struct sp_stack_map *sp_stack_map_new(const struct sp_stack_limits *limits)
{
	struct sp_stack_map *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->limits = *limits;
	/* One word even if no stack needs one, so that a table is never NULL. */
	if (SP_GROW(m->pc, m->word_cap, 1, limits->pc_words) &&
	    SP_GROW(m->stack, m->stack_cap, 1, limits->stacks)) {
		sp_stack_map_clear(m);
		if (m->entries != 0)
			return m;
	}
	sp_stack_map_free(m);
	return NULL;
}

void sp_stack_map_free(struct sp_stack_map *m)
{
	if (m == NULL)
		return;
	free(m->stack);
	free(m->entry);
	free(m->pc);
	free(m->time);
	sp_hash_index_fini(&m->by_stack);
	sp_hash_index_fini(&m->by_entry);
	free(m);
}

uint32_t sp_stack_map_entries(const struct sp_stack_map *m)
{
	return m->entries;
}

const struct sp_stack_entry *sp_stack_map_entry(const struct sp_stack_map *m, uint32_t i)
{
	return &m->entry[i];
}

void sp_stack_map_stack(const struct sp_stack_map *m, uint32_t stack, struct sp_stack *out)
{
	const struct stack *k = &m->stack[stack];

	out->pc = k->depth != 0 ? m->pc + k->first : NULL;
	out->epoch = k->epoch;
	out->depth = k->depth;
	out->flags = k->flags;
	out->unsampled = k->unsampled;
	out->wait = k->wait;
	out->owner = k->owner;
	out->has_owner_pc = k->has_owner_pc;
}

uint32_t sp_stack_map_stacks(const struct sp_stack_map *m)
{
	return m->stacks;
}

uint64_t *sp_stack_map_pcs(struct sp_stack_map *m, uint32_t stack)
{
	return m->pc + m->stack[stack].first;
}

uint32_t sp_stack_map_room(const struct sp_stack_map *m)
{
	uint32_t room = m->limits.entries - m->entries;
	uint32_t stacks = m->limits.stacks - m->stacks;
	uint32_t words = (m->limits.pc_words - m->words) / SP_FRAMES_MAX;

	room = stacks < room ? stacks : room;
	return words < room ? words : room;
}

static bool is_nine_tenths(uint32_t n, uint32_t of)
{
	return n >= of - of / 10;
}

bool sp_stack_map_is_crowded(const struct sp_stack_map *m)
{
	return is_nine_tenths(m->entries, m->limits.entries) ||
	       is_nine_tenths(m->stacks, m->limits.stacks) ||
	       is_nine_tenths(m->words, m->limits.pc_words);
}

uint64_t sp_stack_map_samples(const struct sp_stack_map *m)
{
	return m->samples;
}

uint64_t sp_stack_map_count(const struct sp_stack_map *m)
{
	uint64_t count = 0;

	for (uint32_t i = 0; m != NULL && i < m->entries; i++)
		count += m->entry[i].count;
	return count;
}
