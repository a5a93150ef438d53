/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU time of a random few local roots, by name: what the host sums up in its region. */
#include "sampler/sampling/thread_account.h"
#include "sampler/span/root_cpu.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock_double.h"
#include "sampler/base/random.h"
#include "sampler/base/seccomp.h"
#include "span_host.h"

#define MS UINT64_C(1000000)

static struct sp_root_durations *part;
static uint64_t coarse_ns = 1000 * SP_NS_PER_S;

/* In place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	if (id != CLOCK_MONOTONIC_COARSE)
		return (int)syscall(SYS_clock_gettime, id, t);
	*t = (struct timespec){(time_t)(coarse_ns / SP_NS_PER_S), (long)(coarse_ns % SP_NS_PER_S)};
	return 0;
}

static void start(void)
{
	set_up();
	part = calloc(1, sizeof(*part));
	cr_assert_eq(sp_root_cpu_init(), 0);
	sp_root_durations_use(part, sizeof(*part));
	sp_active_span_label_scopes.name = SP_SCOPE_ROOT;
}

TestSuite(root_cpu, .init = start, .timeout = 60);

/* The thread works, and there is no second root in a quarter of a second. */
static void work(uint64_t ns)
{
	own_ns += ns;
	coarse_ns += SP_NS_PER_S;
}

static const struct sp_root_cpu *sums(const char *name)
{
	const struct sp_root_cpu *c = sp_root_cpu_of(sp_names_intern(name, strlen(name)));

	cr_assert_not_null(c);
	return c;
}

static bool begin_named(uint64_t id, const char *name, enum sp_activation how)
{
	struct sp_span_start s = start_of(id);

	s.name = name;
	s.name_len = strlen(name);
	s.how = how;
	s.has_parent = true;
	return sp_span_started(&s);
}

/* From the first scope on, spans are active where they are attached. */
static void use_scopes(void)
{
	cr_assert_not_null(sp_thread_self());
	cr_assert(sp_active_span_attached(32, NULL));
	sp_active_span_detached(32, false);
}

static void expect_sums(const char *name, uint64_t parts, uint64_t measured, uint64_t ns)
{
	const struct sp_root_cpu *c = sums(name);

	cr_expect_eq(c->parts, parts, "%s: %lu parts", name, c->parts);
	cr_expect_eq(c->measured, measured, "%s: %lu measured", name, c->measured);
	cr_expect_eq(c->weights, measured);
	cr_expect_eq(c->ns, ns, "%s: %lu ns", name, c->ns);
	cr_expect_eq(c->unsure, 0);
}

Test(root_cpu, is_that_of_the_thread_from_start_to_end)
{
	work(3 * MS);
	errno = 4711;
	cr_assert(begin(1));
	work(5 * MS);
	cr_assert(end(1));
	work(7 * MS);
	cr_expect_eq(errno, 4711);
	expect_sums("span", 1, 1, 5 * MS);
	cr_expect_eq(sums("span")->squared, (5 * MS / 1024) * (5 * MS / 1024));
	cr_expect_eq(part->name[sums("span") - part->cpu].name_id, sp_names_intern("span", 4));
}

Test(root_cpu, has_that_of_spans_below_the_root)
{
	cr_assert(begin(1));
	work(1 * MS);
	cr_assert(begin_under(2, 1));
	work(2 * MS);
	cr_assert(end(2));
	work(4 * MS);
	cr_assert(end(1));
	expect_sums("span", 1, 1, 7 * MS);
}

Test(root_cpu, is_only_the_time_with_the_label)
{
	const uint8_t root[8] = {1};
	const uint8_t below[8] = {2};

	use_scopes();
	cr_assert(begin_scoped(1));
	work(1 * MS);
	cr_assert(sp_active_span_attached(64, root));
	work(2 * MS);
	cr_assert(begin_under(2, 1));
	cr_assert(sp_active_span_attached(96, below));
	work(4 * MS);
	/* The scope of an ended span hides the root. */
	cr_assert(end(2));
	work(8 * MS);
	sp_active_span_detached(96, false);
	work(16 * MS);
	cr_assert(end(1));
	work(32 * MS);
	sp_active_span_detached(64, false);
	expect_sums("span", 1, 1, 22 * MS);
}

Test(root_cpu, of_a_root_on_top_is_not_that_of_the_root_below)
{
	const uint8_t lower[8] = {1};
	const uint8_t upper[8] = {2};

	cr_assert(begin_named(1, "lower", SP_ACTIVATION_SCOPE));
	cr_assert(begin_named(2, "upper", SP_ACTIVATION_SCOPE));
	cr_assert(sp_active_span_attached(64, lower));
	work(1 * MS);
	cr_assert(sp_active_span_attached(96, upper));
	work(2 * MS);
	sp_active_span_detached(96, false);
	work(4 * MS);
	sp_active_span_detached(64, false);
	expect_sums("lower", 2, 2, 5 * MS);
	expect_sums("upper", 1, 1, 2 * MS);
	cr_expect_not(sp_thread_own->root_cpu.is_watched);
}

Test(root_cpu, changes_its_name_with_the_root)
{
	cr_assert(begin(1));
	work(1 * MS);
	rename_to(1, "GET /");
	work(2 * MS);
	cr_assert(end(1));
	expect_sums("span", 1, 1, 1 * MS);
	expect_sums("GET /", 1, 1, 2 * MS);
}

static void *rename_it(void *arg)
{
	(void)arg;
	rename_to(1, "GET /");
	return NULL;
}

Test(root_cpu, is_unsure_of_both_names_if_another_thread_renames)
{
	cr_assert(begin(1));
	run(rename_it);
	cr_assert(end(1));
	cr_expect_eq(sums("span")->unsure, 1);
	cr_expect_eq(sums("GET /")->unsure, 1);
}

static void *work_for_it(void *arg)
{
	const uint8_t root[8] = {1};

	(void)arg;
	cr_assert(sp_active_span_attached(64, root));
	own_ns += 4 * MS;
	sp_active_span_detached(64, false);
	return NULL;
}

Test(root_cpu, is_that_of_other_threads_too)
{
	use_scopes();
	cr_assert(begin_scoped(1));
	run(work_for_it);
	expect_sums("span", 1, 1, 4 * MS);
}

static void *end_in_it(void *arg)
{
	(void)arg;
	cr_assert(begin(1));
	own_ns += 4 * MS;
	sp_thread_ended();
	return NULL;
}

Test(root_cpu, is_there_if_the_thread_ends_within_the_root)
{
	run(end_in_it);
	expect_sums("span", 1, 1, 4 * MS);
}

Test(root_cpu, is_unsure_of_roots_that_are_hidden_too_often)
{
	const uint8_t root[8] = {1};

	cr_assert(begin_scoped(1));
	cr_assert(sp_active_span_attached(64, root));
	for (unsigned i = 0; i < 100; i++) {
		cr_assert(sp_active_span_attached(96, NULL));
		work(1 * MS);
		sp_active_span_detached(96, false);
	}
	sp_active_span_detached(64, false);
	cr_expect_eq(sums("span")->measured, 0);
	cr_expect_eq(sums("span")->unsure, 1);
}

Test(root_cpu, begins_anew_in_a_forked_child)
{
	int status;
	pid_t pid;

	cr_assert(begin(1));
	own_ns += 4 * MS;
	pid = fork();
	if (pid == 0) {
		own_ns = 0;
		sp_span_forked(sp_thread_forked());
		sp_root_durations_use(part, sizeof(*part));
		own_ns += 1 * MS;
		cr_assert(end(1));
		cr_assert(begin(2));
		own_ns += 2 * MS;
		cr_assert(end(2));
		_exit(sums("span")->ns == 2 * MS && sums("span")->measured == 1 ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}

Test(root_cpu, is_measured_nowhere_behind_a_filter)
{
	cr_assert_not_null(sp_thread_self());
	sp_seccomp_begin();
	cr_assert(begin(1));
	work(5 * MS);
	cr_assert(end(1));
	expect_sums("span", 1, 0, 0);
}

Test(root_cpu, is_nowhere_without_a_region)
{
	sp_root_durations_use(NULL, 0);
	cr_assert(begin(1));
	work(5 * MS);
	cr_assert(end(1));
	sp_root_durations_use(part, sizeof(*part));
	expect_sums("span", 0, 0, 0);
}

/*
 * A thousand roots a second, whose lengths vary by as much as their mean: the estimate is right in the mean of
 * many runs, and few roots are measured.
 */
/* As many units as are added up at the most. */
Test(root_cpu, of_a_long_part_fits_with_every_weight)
{
	const struct sp_root_cpu *c = sums("long");
	const uint64_t units = (UINT64_C(1) << 22) - 1;

	sp_root_cpu_add(sp_names_intern("long", 4), SP_ROOT_CPU_SHIFT_MAX, 3600 * SP_NS_PER_S);
	cr_expect_eq(c->weights, UINT64_C(1) << SP_ROOT_CPU_SHIFT_MAX);
	cr_expect_eq(c->ns >> SP_ROOT_CPU_SHIFT_MAX, 3600 * SP_NS_PER_S);
	cr_expect_eq(c->squared >> SP_ROOT_CPU_SHIFT_MAX, units * units);
}

Test(root_cpu, of_a_random_few_is_right_in_the_mean)
{
	const unsigned runs = 300, roots = 5000;
	double sum = 0, squares = 0;
	uint64_t random = 1;

	for (unsigned k = 0; k < runs; k++) {
		const struct sp_root_cpu *c = sums("span");
		uint64_t true_ns = 0;
		double off;

		memset(part, 0, sizeof(*part));
		for (unsigned i = 1; i <= roots; i++) {
			double u = ((double)(sp_random_next(&random) >> 12) + 1) / 0x1p52;
			uint64_t ns = (uint64_t)(-log(u) * 1e6);

			cr_assert(begin(i));
			own_ns += ns;
			true_ns += ns;
			coarse_ns += MS;
			cr_assert(end(i));
		}
		cr_assert_eq(c->parts, roots);
		cr_assert_lt(c->measured, 5 * 4 * 20 + 20, "%lu", c->measured);
		cr_assert_gt(c->measured, 5 * 4 * 4);
		off = (double)c->parts * (double)c->ns / (double)c->weights / (double)true_ns - 1;
		sum += off;
		squares += off * off;
	}
	cr_expect_lt(fabs(sum / runs), 4 * sqrt(squares / runs / runs), "%f, standard deviation %f",
		     sum / runs, sqrt(squares / runs));
	cr_expect_lt(sqrt(squares / runs), 0.12);
}

Test(root_cpu, is_measured_seldom_if_there_are_many_names)
{
	uint64_t measured = 0;
	char name[16];

	for (unsigned i = 1; i <= 200000; i++) {
		(void)snprintf(name, sizeof(name), "name %u", i % 400);
		cr_assert(begin_named(i, name, SP_ACTIVATION_START));
		coarse_ns += MS / 20;
		cr_assert(end(i));
	}
	for (unsigned i = 0; i < SP_ROOT_PLACES; i++)
		measured += part->cpu[i].measured;
	/* Ten seconds, of which the first window begins with all names at once. */
	cr_expect_lt(measured, 10 * 4 * 96 * 3 / 2 + 20 * 400, "%lu", measured);
	cr_expect_gt(measured, 10 * 4 * 20, "%lu", measured);
}

/* What a sample would be labelled with, after whatever a program does: all of that time is measured, and no other. */
struct open_span {
	uint64_t id;
	bool is_open;
	bool is_attached;
};

Test(root_cpu, is_the_time_in_which_samples_have_the_name)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	uint64_t true_ns[4] = {0};
	uint64_t random = 7;
	uint64_t id = 0;
	uint64_t compared = 0;

	use_scopes();
	for (unsigned k = 0; k < 4000; k++) {
		struct open_span span[8] = {{0}};
		uint64_t token[8];
		unsigned attached = 0;

		for (unsigned step = 0; step < 24; step++) {
			uint64_t r = sp_random_next(&random);
			struct open_span *s = &span[r % 8];
			struct sp_span_label label;

			switch (r >> 8 & 7) {
			case 0:
			case 1:
				if (s->is_open)
					break;
				s->id = ++id;
				s->is_open = true;
				if ((r >> 16 & 1) != 0 && span[r >> 20 & 7].is_open)
					cr_assert(begin_under(s->id, span[r >> 20 & 7].id));
				else
					cr_assert(begin_named(s->id, names[r >> 24 & 3],
							      SP_ACTIVATION_SCOPE));
				break;
			case 2:
				if (s->is_open)
					cr_assert(end(s->id));
				s->is_open = false;
				break;
			case 3:
			case 4:
				if (attached == 8 || s->id == 0)
					break;
				token[attached] = 32 * (id * 64 + step + 1);
				(void)sp_active_span_attach(token[attached++],
							    (r >> 16 & 7) != 0 ? s->id : 0);
				break;
			case 5:
			case 6:
				if (attached != 0)
					sp_active_span_detached(token[--attached], false);
				break;
			default:
				if (s->is_open && (r >> 16 & 3) == 0)
					rename_to(s->id, names[r >> 24 & 3]);
				break;
			}
			sp_active_span_label(&sp_thread_own->spans, &label);
			for (unsigned i = 0; i < 4; i++)
				if (label.name_id == sp_names_intern(names[i], 1))
					true_ns[i] += r >> 48;
			work(r >> 48);
		}
		while (attached != 0)
			sp_active_span_detached(token[--attached], false);
		for (unsigned i = 0; i < 8; i++)
			if (span[i].is_open)
				cr_assert(end(span[i].id));
		cr_assert(sp_span_stack_empty(&sp_thread_own->spans));
		cr_assert_eq(sp_thread_own->root_cpu.root_id, 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		const struct sp_root_cpu *c = sums(names[i]);

		cr_expect_eq(c->measured, c->parts);
		cr_expect_eq(c->ns, true_ns[i], "%s: %lu of %lu", names[i], c->ns, true_ns[i]);
		compared += c->measured;
	}
	cr_expect_gt(compared, 5000, "%lu", compared);
}
