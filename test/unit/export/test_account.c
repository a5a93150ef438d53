/* SPDX-License-Identifier: Apache-2.0 */
/* The account of a profile counts each sample once for several servers, beside a count sample by sample. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "export/push/account.h"

#define SAMPLES 60U
#define SEQUENCES 20000U

enum fate { OPEN, SENT, LOST };

static uint64_t state;

static uint32_t roll(uint32_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return (uint32_t)(state >> 33) % n;
}

/* Sample by sample. */
static enum fate fate_of(unsigned char fate[4][SAMPLES], unsigned servers, unsigned sample)
{
	unsigned n[3] = {0, 0, 0};

	for (unsigned k = 0; k < servers; k++)
		n[fate[k][sample]]++;
	return n[SENT] != 0 ? SENT : n[LOST] == servers ? LOST : OPEN;
}

Test(account, counts_each_sample_once, .timeout = 60)
{
	for (unsigned seed = 1; seed <= SEQUENCES; seed++) {
		unsigned servers = 2 + seed % 3, open = servers;
		unsigned char fate[4][SAMPLES];
		unsigned at[4] = {0, 0, 0, 0};
		struct sp_account *a = sp_account_new(SAMPLES, servers);
		uint64_t sum = 0;

		state = seed * UINT64_C(0x9e3779b97f4a7c15);
		memset(fate, OPEN, sizeof(fate));
		cr_assert_not_null(a);
		while (open != 0) {
			unsigned k = roll(servers);
			unsigned n = roll(SAMPLES + 1 - at[k]);
			bool is_sent = roll(2) != 0;
			uint64_t counted, want = 0;

			if (at[k] == SAMPLES)
				continue;
			for (unsigned i = at[k]; i < at[k] + n; i++) {
				enum fate before = fate_of(fate, servers, i);

				fate[k][i] = is_sent ? SENT : LOST;
				want += fate_of(fate, servers, i) != before;
			}
			at[k] += n;
			open -= n != 0 && at[k] == SAMPLES;
			counted = is_sent ? sp_account_sent(a, k, n) : sp_account_lost(a, k, n);
			cr_assert_eq(counted, want, "sequence %u", seed);
			sum += counted;
		}
		cr_assert_eq(sum, SAMPLES);
		for (unsigned k = 0; k < servers; k++)
			sp_account_release(a);
	}
}

Test(account, of_the_only_server_all_counts, .timeout = 20)
{
	cr_expect_eq(sp_account_sent(NULL, 0, 7), 7);
	cr_expect_eq(sp_account_lost(NULL, 0, 9), 9);
	sp_account_release(NULL);
}

/* Beyond 256 ranges a sample counts when the other server is done with it. */
Test(account, too_many_parts_are_still_counted_once, .timeout = 20)
{
	struct sp_account *a = sp_account_new(20000, 2);
	uint64_t sent = 0, lost = 0;

	for (unsigned i = 0; i < 10000; i++) {
		sent += sp_account_sent(a, 0, 1);
		lost += sp_account_lost(a, 0, 1);
	}
	cr_expect_eq(lost, 0, "the other one may take them");
	cr_expect_eq(sent, 256);
	lost += sp_account_lost(a, 1, 20000);
	cr_expect_eq(sent + lost, 20000);
	sp_account_release(a);
	sp_account_release(a);
}

/* What does not fit into the number of samples is not counted. */
Test(account, counts_no_more_than_there_are, .timeout = 20)
{
	struct sp_account *a = sp_account_new(5, 2);

	cr_expect_eq(sp_account_sent(a, 0, 9), 5);
	cr_expect_eq(sp_account_sent(a, 0, 1), 0);
	cr_expect_eq(sp_account_lost(a, 1, 9), 0);
	sp_account_release(a);
	sp_account_release(a);
}
