/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdint.h>

#include "sampler/base/arena.h"
#include "sampler/base/cpu_clock.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/thread/thread.h"

Test(seccomp, is_on_until_every_attempt_was_taken_back)
{
	cr_expect_not(sp_seccomp_is_on());

	sp_seccomp_begin();
	sp_seccomp_begin();
	sp_seccomp_take_back();
	cr_expect(sp_seccomp_is_on());
	sp_seccomp_take_back();

	cr_expect_not(sp_seccomp_is_on());
}

Test(seccomp, nothing_is_asked_of_the_kernel_below_a_filter)
{
	uint64_t ns = 7;

	sp_process_set();
	cr_assert_eq(sp_thread_init(), 0);
	cr_assert(sp_process_is_ours());

	sp_seccomp_begin();

	cr_expect_not(sp_process_is_ours());
	cr_expect_not(sp_cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID, &ns));
	cr_expect_eq(ns, 7);
	cr_expect_null(sp_arena_map(4096));
	cr_expect_null(sp_thread_self());
	cr_expect_null(sp_thread_claim());
}
