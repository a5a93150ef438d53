/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The single-step oracle. After every instruction of every workload stepper.c knows the true backtrace. If libunwind
 * finds the true backtrace, sp_unwind_walk must find it too. At some steps a snapshot is taken, and a walk over the
 * snapshot must find it as well (second.c). Prints a table; exit 1 if one differed. Usage: oracle [workload name or
 * "all" [steps to check at most]]; without a number it is the short form, which is part of make test: the cost of a
 * step is the kernel's trap, whether the step is checked or not.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "sampler/region/record.h"
#include "sampler/unwind/rule_cache_sig.h"
#include "sampler/unwind/unwind_sig.h"
#include "test/common/walk.h"
#include "test/step/reference.h"
#include "test/step/second.h"
#include "test/step/stepper.h"
#include "test/step/workloads.h"

/*
 * libunwind takes 20 times as long as a step. It is asked at every step at which we are wrong, and at every 97th,
 * right or wrong, for its figure in the table. 97 is a prime, so that loops do not line up.
 */
#define REFERENCE_EVERY 97
#define SHORT_STEPS 60000UL
#define SHORT_STOPS 300000UL
/* Every third of these. */
#define SNAPSHOT_EVERY (REFERENCE_EVERY * 3)
#define REPORTED_MAX 8

struct miss {
	uint64_t pc;
	unsigned want_depth;
	unsigned got_depth;
	unsigned first_difference;
	uint64_t want;
	uint64_t got;
	uint16_t flags;
};

static struct {
	unsigned long stops; /* steps, checked or not */
	unsigned long steps;
	unsigned long steps_max;
	unsigned long stops_max;
	unsigned every; /* from the workload */
	unsigned long exact;
	unsigned long reference; /* every 97th step */
	unsigned long reference_exact;
	unsigned long worse; /* libunwind was right and we were not */
	struct miss miss[REPORTED_MAX];
} tally;

static struct {
	unsigned long stops;
	unsigned long steps;
	unsigned long snapshots;
} total;

static struct sp_stack_bounds bounds;
static uint64_t got[SP_FRAMES_MAX];

/* record.h's convention: callers are inside their call instruction. */
static unsigned first_difference(const struct stepper_truth *truth, unsigned depth)
{
	unsigned i;

	for (i = 0; i < depth && i < truth->depth; i++) {
		if (got[i] != truth->pc[i] - (i > 0))
			break;
	}
	return i;
}

static bool reference_is_exact(const void *ucontext, const struct stepper_truth *truth)
{
	static uint64_t pc[STEPPER_DEPTH];
	unsigned depth = reference_walk(ucontext, pc, STEPPER_DEPTH);

	return depth == truth->depth && memcmp(pc, truth->pc, depth * sizeof(pc[0])) == 0;
}

static void record(const struct stepper_truth *truth, unsigned depth, unsigned at, uint16_t flags)
{
	if (tally.worse < REPORTED_MAX) {
		tally.miss[tally.worse] = (struct miss){
			.pc = truth->pc[0],
			.want_depth = truth->depth,
			.got_depth = depth,
			.first_difference = at,
			.want = at < truth->depth ? truth->pc[at] : 0,
			.got = at < depth ? got[at] : 0,
			.flags = flags,
		};
	}
	tally.worse++;
}

static int check(const void *ucontext, const struct stepper_truth *truth)
{
	uint16_t flags = 0;
	unsigned depth;
	unsigned at;
	bool exact, due, reference;

	if (tally.stops++ % tally.every != 0)
		return tally.stops == tally.stops_max;
	depth = walk_stack(ucontext, &bounds, got, SP_FRAMES_MAX, &flags);
	at = first_difference(truth, depth);
	exact = at == truth->depth && depth == truth->depth && flags == SP_SAMPLE_ROOTED;
	due = ++tally.steps % REFERENCE_EVERY == 0;
	reference = (due || !exact) && reference_is_exact(ucontext, truth);
	if (tally.steps % SNAPSHOT_EVERY == 0)
		second_take(ucontext, truth, reference);
	tally.exact += exact;
	tally.reference += due;
	tally.reference_exact += due && reference;
	if (!exact && reference)
		record(truth, depth, at, flags);
	return tally.steps == tally.steps_max || tally.stops == tally.stops_max;
}

static void print_address(const char *what, uint64_t pc)
{
	Dl_info info;

	printf("    %s %#" PRIx64, what, pc);
	if (dladdr((void *)pc, &info) != 0 && info.dli_fname != NULL)
		printf(" %s+%#" PRIx64 " (%s)", info.dli_fname,
		       pc - (uint64_t)(uintptr_t)info.dli_fbase,
		       info.dli_sname != NULL ? info.dli_sname : "?");
	putchar('\n');
}

static void print_misses(void)
{
	for (unsigned i = 0; i < REPORTED_MAX && i < tally.worse; i++) {
		const struct miss *m = &tally.miss[i];

		printf("  wrong: depth %u of %u, flags %#x, first difference at frame %u\n",
		       m->got_depth, m->want_depth, m->flags, m->first_difference);
		print_address("at", m->pc);
		print_address("want", m->want);
		print_address("got", m->got);
	}
}

static void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static double percent(unsigned long part, unsigned long whole)
{
	return whole == 0 ? 0.0 : 100.0 * (double)part / (double)whole;
}

/* libunwind is reliable above this function, because this is an ordinary call site. */
static __attribute__((noinline)) void run_one(const struct workload *w)
{
	static uint64_t pc[STEPPER_DEPTH];
	ucontext_t here;
	unsigned depth;

	getcontext(&here);
	depth = reference_walk(&here, pc, STEPPER_DEPTH);
	stepper_run(w->run, pc + 1, depth - 1);
	/* No tail call: this frame must be there. */
	__asm__ volatile("");
}

static unsigned long run_workload(const struct workload *w, unsigned long steps_max,
				  unsigned long stops_max)
{
	struct second_result second;

	memset(&tally, 0, sizeof(tally));
	tally.steps_max = steps_max;
	tally.stops_max = stops_max;
	tally.every = w->every;
	if (w->warm)
		w->run();
	run_one(w);
	second = second_judge();
	printf("%-13s %7lu%c of %8lu  ours %8.4f %%  libunwind %8.4f %%  worse %lu  "
	       "snapshots %4lu, %8.4f %%, worse %lu, gone %lu\n",
	       w->name, tally.steps,
	       tally.steps == steps_max || tally.stops == stops_max ? '+' : ' ', tally.stops,
	       percent(tally.exact, tally.steps), percent(tally.reference_exact, tally.reference),
	       tally.worse, second.taken, percent(second.exact, second.taken), second.worse,
	       second.gone);
	total.stops += tally.stops;
	total.steps += tally.steps;
	total.snapshots += second.taken;
	print_misses();
	fflush(stdout);
	/* A workload that was not stepped proved nothing. */
	return tally.worse + second.worse + (tally.steps == 0);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "all";
	unsigned long steps_max = argc > 2 ? strtoul(argv[2], NULL, 10) : SHORT_STEPS;
	unsigned long stops_max = argc > 2 ? ULONG_MAX : SHORT_STOPS;
	unsigned long worse = 0;
	unsigned ran = 0;

	if (reference_init() != 0 || sp_unwind_init(find_symbol) != 0 ||
	    sp_rule_cache_init() != 0 || second_init() != 0)
		return 1;
	stepper_init(check);
	for (unsigned i = 0; i < workloads_n; i++) {
		if (strcmp(name, "all") != 0 && strcmp(name, workloads[i].name) != 0)
			continue;
		worse += run_workload(&workloads[i], steps_max, stops_max);
		ran++;
	}
	printf("total: %lu instructions stepped, %lu walked in the handler, %lu from snapshots, "
	       "%lu worse "
	       "than libunwind\n",
	       total.stops, total.steps, total.snapshots, worse);
	return ran == 0 || worse != 0 || stepper_overflows() != 0;
}
