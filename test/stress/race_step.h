/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races between two threads, all of them, in one: an operation runs one instruction at a time, and
 * what the other thread does comes after its first instruction, in the next run after its second, and
 * so on, until the operation has ended before. Between two looks of a lock-free read everything that
 * may happen there does happen. What the order of stores is on another processor is not shown.
 */
#ifndef TEST_RACE_STEP_H
#define TEST_RACE_STEP_H

#include <stdbool.h>
#include <stdio.h>

#include "test/stress/trap_step.h"

/* More instructions than any operation that is tried has: each takes as many runs. */
#define RACE_STEPS_MAX 5000U
/* So often is a race that is lost shown. */
#define RACE_TOLD_MAX 3U

struct race {
	const char *what;
	void (*prepare)(void); /* before each run */
	void (*operation)(void);
	void (*meanwhile)(void); /* once in each run, in signal context */
	/* After each run: what came out is what one thread after the other may give. */
	bool (*is_right)(void);
	unsigned fewest; /* instructions that the operation has at the very least */
};

static struct {
	const struct race *race;
	unsigned stop;
	unsigned turn;
} race_now;

static inline void race_at_stop(int signo)
{
	(void)signo;
	if (++race_now.stop == race_now.turn)
		race_now.race->meanwhile();
}

/* 0, or -1 if single-stepping cannot be set up. */
static inline int race_init(void)
{
	return trap_step_init(race_at_stop);
}

/* How many runs were not right; 1 for an operation that ended too early for all to have been tried. */
static inline unsigned race_run(const struct race *r)
{
	unsigned bad = 0;

	race_now.race = r;
	for (race_now.turn = 1; race_now.turn < RACE_STEPS_MAX; race_now.turn++) {
		race_now.stop = 0;
		r->prepare();
		trap_step_on();
		r->operation();
		trap_step_off();
		if (race_now.stop < race_now.turn)
			break;
		if (!r->is_right() && bad++ < RACE_TOLD_MAX)
			printf("%s: wrong with the other thread after instruction %u\n", r->what,
			       race_now.turn);
	}
	printf("%s: %u instructions, %u wrong\n", r->what, race_now.turn - 1, bad);
	if (race_now.turn - 1 < r->fewest || race_now.turn == RACE_STEPS_MAX)
		bad++;
	return bad;
}

#endif
