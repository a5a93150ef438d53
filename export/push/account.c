/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile's samples are numbered in the order of its parts. For each destination the account has
 * the number of the next sample. For all destinations together it has the ranges of samples that
 * were taken, as far as another destination has not come to them yet.
 */
#include "export/push/account.h"

#include <stdbool.h>
#include <stdlib.h>

#include "export/util/containers.h"
#include "sampler/config/config.h"

/* Samples from `from` to `to` - 1. */
struct range {
	uint64_t from;
	uint64_t to;
};

/*
 * Between two ranges are parts that a server has lost. Only a server that refuses every other part
 * makes more ranges than this.
 */
#define RANGES_MAX 256U

struct sp_account {
	uint64_t samples;
	unsigned destinations;
	unsigned holders;
	uint64_t at[SP_SERVERS_MAX]; /* the next sample of each destination */
	struct range *sent;          /* samples that were taken; no two ranges overlap */
	size_t n, cap;
};

struct sp_account *sp_account_new(uint64_t samples, unsigned destinations)
{
	struct sp_account *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->samples = samples;
	a->destinations = a->holders = destinations;
	return a;
}

void sp_account_release(struct sp_account *a)
{
	if (a == NULL || --a->holders != 0)
		return;
	free(a->sent);
	free(a);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* How many samples of the range were taken. */
static uint64_t taken(const struct sp_account *a, uint64_t from, uint64_t to)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < a->n; i++) {
		uint64_t begin = a->sent[i].from > from ? a->sent[i].from : from;
		uint64_t end = least(a->sent[i].to, to);

		sum += end > begin ? end - begin : 0;
	}
	return sum;
}

#define NOBODY SP_SERVERS_MAX

/* The lowest next sample of all destinations except `besides`. */
static uint64_t first_open(const struct sp_account *a, unsigned besides)
{
	uint64_t first = a->samples;

	for (unsigned i = 0; i < a->destinations; i++)
		if (i != besides)
			first = least(first, a->at[i]);
	return first;
}

/* Removes the ranges that all destinations have passed. */
static void forget(struct sp_account *a)
{
	uint64_t first = first_open(a, NOBODY);
	size_t kept = 0;

	for (size_t i = 0; i < a->n; i++)
		if (a->sent[i].to > first)
			a->sent[kept++] = a->sent[i];
	a->n = kept;
}

static bool append(struct sp_account *a, uint64_t from, uint64_t to)
{
	if (a->n != 0 && a->sent[a->n - 1].to == from) {
		a->sent[a->n - 1].to = to;
		return true;
	}
	if (!SP_GROW(a->sent, a->cap, a->n + 1, RANGES_MAX))
		return false;
	a->sent[a->n++] = (struct range){from, to};
	return true;
}

/* Adds the samples that no range has yet. False: out of memory, and some of them may be missing. */
static bool add(struct sp_account *a, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint64_t end = to;
		bool is_in = false;

		for (size_t i = 0; i < a->n && !is_in; i++) {
			is_in = a->sent[i].from <= from && from < a->sent[i].to;
			if (is_in)
				end = least(a->sent[i].to, to);
			else if (a->sent[i].from > from)
				end = least(end, a->sent[i].from);
		}
		if (!is_in && !append(a, from, end))
			return false;
		from = end;
	}
	return true;
}

/* The next samples of a destination. */
struct step {
	struct range samples;
	/*
	 * The first of them that another destination has not passed yet; samples.to = there is
	 * none.
	 */
	uint64_t open;
	/* The number of samples before `open` that no destination took. */
	uint64_t untaken;
};

static struct step advance(struct sp_account *a, unsigned destination, uint64_t samples)
{
	const uint64_t from = a->at[destination];
	struct step s = {.samples = {from, from + least(samples, a->samples - from)}};

	a->at[destination] = s.samples.to;
	s.open = least(first_open(a, destination), s.samples.to);
	if (s.open < from)
		s.open = from;
	s.untaken = s.open - from - taken(a, from, s.open);
	return s;
}

/*
 * The other destinations have passed the samples before `open`. If none of them took a sample, the
 * loss was not counted then, because this destination could still take it. If there is no memory
 * for a range, its samples count later, when another destination takes or loses them.
 */
uint64_t sp_account_sent(struct sp_account *a, unsigned destination, uint64_t samples)
{
	struct step s;
	uint64_t noted;

	if (a == NULL)
		return samples;
	s = advance(a, destination, samples);
	noted = taken(a, s.open, s.samples.to);
	(void)add(a, s.open, s.samples.to);
	noted = taken(a, s.open, s.samples.to) - noted;
	forget(a);
	return s.untaken + noted;
}

uint64_t sp_account_lost(struct sp_account *a, unsigned destination, uint64_t samples)
{
	struct step s;

	if (a == NULL)
		return samples;
	s = advance(a, destination, samples);
	forget(a);
	return s.untaken;
}
