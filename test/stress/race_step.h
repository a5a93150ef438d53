/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs all races between two threads on one thread. A run steps through an operation one instruction at a time, and
 * does the other thread's action once: in the first run after the first instruction, in the second run after the
 * second. The runs end when the operation has fewer instructions. So the action happens between any two readings of a
 * lock-free read. The order of stores as another processor sees it is not tested.
 */
#ifndef TEST_RACE_STEP_H
#define TEST_RACE_STEP_H

#include <stdbool.h>
#include <stdio.h>

#include "test/stress/trap_step.h"

/* More instructions than any tested operation has. Each instruction takes a run. */
#define RACE_STEPS_MAX 5000U
/* A race that is lost is reported at most this many times. */
#define RACE_TOLD_MAX 3U

struct race {
	const char *what;
	void (*prepare)(void); /* before each run */
	void (*operation)(void);
	void (*meanwhile)(void); /* once in each run, in signal context */
	/* after each run: two threads, one after the other, could have given this result */
	bool (*is_right)(void);
	unsigned fewest; /* the least number of instructions that the operation has */
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

/* The number of wrong runs; 1 for an operation that ended too early to try all. */
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
