/* SPDX-License-Identifier: Apache-2.0 */
/* Which allocations are sampled: the random distances between samples. */
#include <criterion/criterion.h>
#include <math.h>

#include "preload/alloc/interval.h"
#include "sampler/base/random.h"

TestSuite(alloc_interval, .timeout = 60);

Test(alloc_interval, takes_logarithms_without_floating_point)
{
	uint64_t random = sp_random_scramble(1);

	cr_expect_eq(sp_minus_log2(UINT64_C(1) << 63), UINT64_C(1) << 32);
	cr_expect_eq(sp_minus_log2(1), UINT64_C(64) << 32);
	cr_expect_leq(sp_minus_log2(UINT64_MAX), 1);
	for (int i = 0; i < 100000; i++) {
		uint64_t u = sp_random_next(&random) >> i % 64 | 1;
		double exact = 64 - log2((double)u);

		cr_assert_leq(fabs((double)sp_minus_log2(u) / 4294967296.0 - exact), 1e-9, "%lu",
			      u);
	}
}

/* The frequency is that of an exponential distribution, within five standard deviations. */
Test(alloc_interval, samples_a_block_as_often_as_its_size_says)
{
	static const uint64_t sizes[] = {1, 16, 1000, 100000, 524288, 1000000, 4000000};
	const uint32_t mean = 524288;
	const int draws = 4000000;
	uint64_t random = sp_random_scramble(2);
	uint64_t sampled[7] = {0};
	double sum = 0;

	for (int i = 0; i < draws; i++) {
		uint64_t bytes = sp_interval_bytes(mean, sp_random_next(&random));

		cr_assert_geq(bytes, 1);
		sum += (double)bytes;
		for (unsigned k = 0; k < 7; k++)
			sampled[k] += sizes[k] >= bytes;
	}
	cr_expect_leq(fabs(sum / draws - mean - 0.5), 5 * mean / sqrt(draws));
	for (unsigned k = 0; k < 7; k++) {
		double p = -expm1(-(double)sizes[k] / mean);

		cr_expect_leq(fabs((double)sampled[k] - p * draws), 5 * sqrt(draws * p * (1 - p)),
			      "%lu bytes: %lu of %d", sizes[k], sampled[k], draws);
	}
}

/* Many threads with a few allocations each draw like one long-lived thread. */
Test(alloc_interval, begins_differently_in_each_thread)
{
	const uint32_t mean = 1000;
	double sum = 0;

	for (uint64_t thread = 0; thread < 1000000; thread++) {
		uint64_t random = sp_random_scramble(thread);

		sum += (double)sp_interval_bytes(mean, sp_random_next(&random));
	}
	cr_expect_leq(fabs(sum / 1e6 - mean - 0.5), 5 * mean / 1e3);
}

/* Nothing overflows at the ends of the configurable range. */
Test(alloc_interval, is_bounded)
{
	cr_expect_eq(sp_interval_bytes(1U << 30, UINT64_MAX), 1);
	cr_expect_leq(sp_interval_bytes(1U << 30, 0), UINT64_C(45) << 30);
	cr_expect_leq(sp_interval_bytes(1024, 0), 45 << 10);
}
