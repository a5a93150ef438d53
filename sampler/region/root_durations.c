/* SPDX-License-Identifier: Apache-2.0 */
/* Durations of local roots by their names (root_durations.h). Contexts: APP, INIT. */
#include "sampler/region/root_durations.h"

#include <errno.h>
#include <stddef.h>

#include "sampler/base/arena.h"
#include "sampler/region/names.h"

static _Atomic(struct sp_root_durations *) now;
_Atomic(struct sp_root_cpu *) sp_root_cpu_now;
static _Atomic bool measures;

/* Ids stay valid in forked children, and so do places. */
_Atomic uint16_t *_Atomic sp_root_places;
static _Atomic uint32_t ids; /* the largest id; no name has the id 0 */
static _Atomic uint32_t claimed;

_Static_assert(SP_ROOT_PLACES < UINT16_MAX, "a place has 16 bits");

/* Roots of a name that become records before the host raises its threshold. */
#define SP_ROOT_FIRST 64U

int sp_root_durations_init(void)
{
	const struct sp_names *t = atomic_load_explicit(&sp_names, memory_order_acquire);
	_Atomic uint16_t *made;

	if (atomic_load_explicit(&sp_root_places, memory_order_relaxed) != NULL)
		return 0;
	made = t != NULL ? sp_arena_map(((size_t)t->mask + 2) * sizeof(*made)) : NULL;
	if (made == NULL)
		return -ENOMEM;
	atomic_store_explicit(&ids, t->mask + 1, memory_order_relaxed);
	/*
	 * pairs with the acquire in sp_root_durations_add(): the number of ids before their places
	 */
	atomic_store_explicit(&sp_root_places, made, memory_order_release);
	return 0;
}

static void measure(struct sp_root_durations *d)
{
	bool is_wanted = d != NULL && atomic_load_explicit(&measures, memory_order_relaxed);

	/* pairs with the acquire in sp_root_cpu_of() */
	atomic_store_explicit(&sp_root_cpu_now, is_wanted ? d->cpu : NULL, memory_order_release);
}

void sp_root_durations_use(void *part, uint64_t bytes)
{
	struct sp_root_durations *d = bytes >= sizeof(*d) ? part : NULL;

	/* pairs with the acquire in sp_root_durations_add() */
	atomic_store_explicit(&now, d, memory_order_release);
	measure(d);
}

void sp_root_cpu_measure(void)
{
	atomic_store_explicit(&measures, true, memory_order_relaxed);
	measure(atomic_load_explicit(&now, memory_order_acquire));
}

void sp_root_durations_copy(const struct sp_root_durations *from, struct sp_root_durations *to)
{
	for (uint32_t place = 0; place < SP_ROOT_PLACES; place++) {
		const struct sp_root_name *n = &from->name[place];
		uint32_t id = atomic_load_explicit(&n->name_id, memory_order_relaxed);

		if (id == 0)
			continue;
		for (uint32_t i = 0; i < SP_DURATION_BUCKETS; i++) {
			uint64_t count = atomic_load_explicit(&from->histogram[place].count[i],
							      memory_order_relaxed);

			/*
			 * Only a nonzero count is written: a page that nobody has written to takes
			 * no memory.
			 */
			if (count != 0)
				atomic_store_explicit(&to->histogram[place].count[i], count,
						      memory_order_relaxed);
		}
		atomic_store_explicit(&to->name[place].name_id, id, memory_order_relaxed);
		atomic_store_explicit(&to->name[place].slow,
				      atomic_load_explicit(&n->slow, memory_order_relaxed),
				      memory_order_relaxed);
		atomic_store_explicit(&to->name[place].threshold_ns,
				      atomic_load_explicit(&n->threshold_ns, memory_order_relaxed),
				      memory_order_relaxed);
	}
}

/*
 * noinline: called once for each name. If two threads claim a place for the same new name, one
 * place stays unused.
 */
static __attribute__((noinline)) uint32_t claim(_Atomic uint16_t *of_name)
{
	uint16_t none = 0;
	uint32_t place = SP_ROOT_NAMES;

	/* Checked first, so that no number of names makes the counter wrap. */
	if (atomic_load_explicit(&claimed, memory_order_relaxed) < SP_ROOT_NAMES)
		place = atomic_fetch_add_explicit(&claimed, 1, memory_order_relaxed);
	if (place > SP_ROOT_NAMES)
		place = SP_ROOT_NAMES;
	return atomic_compare_exchange_strong_explicit(of_name, &none, (uint16_t)(place + 1),
						       memory_order_relaxed, memory_order_relaxed)
		       ? place
		       : none - 1U;
}

/*
 * If many roots last equally long, as in a loop, the slowest 64 and thousands of others are in one
 * bucket. A threshold at its beginning would make all of them records, so the threshold is the end
 * of that bucket then.
 *
 * If the exporter moves the threshold at this moment, one of the two values stays, until the
 * exporter's next move.
 */
static __attribute__((noinline)) void raise_threshold(struct sp_root_durations *d, uint32_t place)
{
	const struct sp_root_histogram *h = &d->histogram[place];
	uint32_t bucket = SP_DURATION_BUCKETS;
	uint64_t slowest = 0;

	while (bucket != 0 && slowest < SP_ROOT_FIRST)
		slowest += atomic_load_explicit(&h->count[--bucket], memory_order_relaxed);
	if (slowest > UINT64_C(2) * SP_ROOT_FIRST)
		bucket++;
	atomic_store_explicit(&d->name[place].threshold_ns, sp_duration_begin(bucket),
			      memory_order_relaxed);
}

bool sp_root_durations_add(uint32_t name_id, uint64_t ns, uint32_t *place)
{
	struct sp_root_durations *d = atomic_load_explicit(&now, memory_order_acquire);
	_Atomic uint16_t *all = atomic_load_explicit(&sp_root_places, memory_order_acquire);
	struct sp_root_name *n;
	uint32_t slow;
	uint32_t at;

	if (d == NULL || all == NULL ||
	    name_id - 1 >= atomic_load_explicit(&ids, memory_order_relaxed))
		return false;
	at = atomic_load_explicit(&all[name_id], memory_order_relaxed);
	at = __builtin_expect(at != 0, 1) ? at - 1 : claim(&all[name_id]);
	n = &d->name[at];
	/* A new region has no name at this place yet. */
	if (__builtin_expect(atomic_load_explicit(&n->name_id, memory_order_relaxed) == 0, 0))
		atomic_store_explicit(&n->name_id, name_id, memory_order_relaxed);
	atomic_fetch_add_explicit(&d->histogram[at].count[sp_duration_bucket(ns)], 1,
				  memory_order_relaxed);
	*place = at;
	if (ns < atomic_load_explicit(&n->threshold_ns, memory_order_relaxed))
		return false;
	slow = atomic_fetch_add_explicit(&n->slow, 1, memory_order_relaxed) + 1;
	if (slow < SP_ROOT_MOVED && slow % SP_ROOT_FIRST == 0)
		raise_threshold(d, at);
	return true;
}

struct sp_root_cpu *sp_root_cpu_claim(uint32_t name_id)
{
	struct sp_root_durations *d = atomic_load_explicit(&now, memory_order_acquire);
	_Atomic uint16_t *all = atomic_load_explicit(&sp_root_places, memory_order_acquire);

	if (d == NULL || all == NULL ||
	    name_id - 1 >= atomic_load_explicit(&ids, memory_order_relaxed))
		return NULL;
	return &d->cpu[claim(&all[name_id])];
}

static void add(_Atomic uint64_t *sum, uint64_t n)
{
	atomic_fetch_add_explicit(sum, n, memory_order_relaxed);
}

/* Longer parts count as this long, four seconds, so that the square fits with every weight. */
#define UNITS_MAX ((UINT64_C(1) << 22) - 1)

void sp_root_cpu_add(uint32_t name_id, uint32_t shift, uint64_t ns)
{
	struct sp_root_durations *d = atomic_load_explicit(&now, memory_order_acquire);
	struct sp_root_cpu *c = sp_root_cpu_of(name_id);
	uint64_t weight = UINT64_C(1) << shift;
	uint64_t units = ns >> 10 < UNITS_MAX ? ns >> 10 : UNITS_MAX;

	/* Between the two another region may have come into use. */
	if (c == NULL || c < d->cpu || c >= d->cpu + SP_ROOT_PLACES)
		return;
	if (atomic_load_explicit(&d->name[c - d->cpu].name_id, memory_order_relaxed) == 0)
		atomic_store_explicit(&d->name[c - d->cpu].name_id, name_id, memory_order_relaxed);
	add(&c->measured, 1);
	add(&c->weights, weight);
	add(&c->squares, weight * weight);
	add(&c->ns, weight * ns);
	add(&c->squared, weight * units * units);
}

#define WINDOW_NS (250 * SP_NS_PER_MS)
#define OF_NAME 10U
#define OF_ALL 96U

/* Of all names. */
static _Atomic uint32_t chosen;
static _Atomic uint64_t since_ns;

/* Whether all names together have been chosen too often, in this window so far. */
static bool is_too_much(uint64_t now_ns)
{
	uint64_t since = atomic_load_explicit(&since_ns, memory_order_relaxed);
	uint32_t n = atomic_fetch_add_explicit(&chosen, 1, memory_order_relaxed) + 1;

	if (now_ns - since >= WINDOW_NS &&
	    atomic_compare_exchange_strong_explicit(&since_ns, &since, now_ns, memory_order_relaxed,
						    memory_order_relaxed)) {
		atomic_store_explicit(&chosen, 1, memory_order_relaxed);
		return false;
	}
	return n > OF_ALL;
}

static void set_shift(struct sp_root_cpu *c, uint32_t shift, uint64_t now_ns)
{
	atomic_store_explicit(&c->shift,
			      shift < SP_ROOT_CPU_SHIFT_MAX ? shift : SP_ROOT_CPU_SHIFT_MAX,
			      memory_order_relaxed);
	atomic_store_explicit(&c->chosen, 0, memory_order_relaxed);
	atomic_store_explicit(&c->since_ns, now_ns, memory_order_relaxed);
}

/*
 * Threads may do this at once, and the exporter may write here: any of the values is a right one,
 * because the weight of a part is that of the shift with which it was chosen.
 */
void sp_root_cpu_adapt(struct sp_root_cpu *c, uint64_t now_ns)
{
	bool too_much = is_too_much(now_ns);
	uint32_t n = atomic_fetch_add_explicit(&c->chosen, 1, memory_order_relaxed) + 1;
	uint32_t shift = atomic_load_explicit(&c->shift, memory_order_relaxed);
	uint64_t windows =
		(now_ns - atomic_load_explicit(&c->since_ns, memory_order_relaxed)) / WINDOW_NS;

	if (too_much || (windows == 0 && n >= 2 * OF_NAME)) {
		set_shift(c, shift + 1, now_ns);
		return;
	}
	if (windows == 0)
		return;
	while (shift != 0 && 2 * (uint64_t)n <= windows * OF_NAME) {
		shift--;
		n *= 2;
	}
	set_shift(c, shift, now_ns);
}
