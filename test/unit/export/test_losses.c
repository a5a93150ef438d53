/* SPDX-License-Identifier: Apache-2.0 */
/* The messages about losses: one sentence for each cause and interval. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "push_unit.h"
#include "sampler/base/compiler.h"

TestSuite(losses, .fini = push_finish);

static void lose(enum sp_loss_cause cause, int status, uint64_t samples, const char *words)
{
	sp_losses_add(&u.origin.losses, &core.ops,
		      &(struct sp_loss){.cause = cause,
					.status = status,
					.profiles = 1,
					.samples = samples,
					.words = words});
}

Test(losses, are_one_sentence_for_each_cause_and_interval, .timeout = 20)
{
	core_reset();
	lose(SP_LOSS_REFUSED, 413, 400, NULL);
	lose(SP_LOSS_UNSENT, 0, 1, NULL);
	lose(SP_LOSS_REFUSED, 413, 11, NULL);
	lose(SP_LOSS_REFUSED, 413, 1, NULL);
	push_tell();
	cr_expect_str_eq(core.log,
			 "3 profiles lost: the server refused them (413), 412 samples\n"
			 "1 profile lost: the process ended before it was sent, 1 sample\n");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 3);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNSENT], 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 413);

	core.log[0] = '\0';
	push_tell();
	cr_expect_str_eq(core.log, "", "nothing new");
	lose(SP_LOSS_REFUSED, 413, 2, NULL);
	push_tell();
	cr_expect_str_eq(core.log, "1 profile lost: the server refused it (413), 2 samples\n");
}

Test(losses, that_are_no_profiles_are_told_in_words, .timeout = 20)
{
	core_reset();
	core.counter[SP_COUNT_DROP_RING_FULL] = 12;
	core.counter[SP_COUNT_SAMPLES_UNSENT] = 5;
	lose(SP_LOSS_UNSENT, 0, 3, NULL);
	push_tell();

	cr_expect_eq(push_lines_with("\n"), 3, "%s", core.log);
	cr_expect(core_logged("12 samples found no room in the ring buffer\n"), "%s", core.log);
	cr_expect(core_logged("5 samples lost before a profile was made of them\n"), "%s",
		  core.log);
	cr_expect(core_logged("1 profile lost: the process ended before it was sent, 3 samples\n"));
}

/* A program with spans that stay open for long has such samples in each interval, and loses none. */
Test(losses, of_labels_for_want_of_frames_are_told_once, .timeout = 20)
{
	core_reset();
	core.counter[SP_COUNT_SAMPLES_TOO_DEEP] = 3;
	push_tell();
	cr_expect_eq(push_lines_with("\n"), 1, "%s", core.log);
	cr_expect(core_logged("3 samples have no label: more than 128 spans or scopes"), "%s",
		  core.log);
	cr_expect(core_logged("; end spans and scopes that are not needed any more\n"));

	core.log[0] = '\0';
	core.counter[SP_COUNT_SAMPLES_TOO_DEEP] = 8;
	core.counter[SP_COUNT_DROP_RING_FULL] = 1;
	push_tell();
	cr_expect_eq(push_lines_with("\n"), 1, "%s", core.log);
	core.counter[SP_COUNT_DROP_RING_FULL] = 2;
	push_tell();
	cr_expect_eq(push_lines_with("room in the ring buffer"), 2, "each time");
}

/* All samples of a wall-clock profile may be counted in other profiles. */
Test(losses, of_waits_are_told_as_waits, .timeout = 20)
{
	core_reset();
	core.counter[SP_COUNT_WAITS_UNSENT] = 4;
	sp_losses_add(&u.origin.losses, &core.ops,
		      &(struct sp_loss){
			      .cause = SP_LOSS_UNSENT, .profiles = 2, .samples = 1, .waits = 7});
	lose(SP_LOSS_REFUSED, 413, 0, NULL);
	push_tell();

	cr_expect_str_eq(
		core.log,
		"2 profiles lost: the process ended before they were sent, 1 sample and 7 waits\n"
		"1 profile lost: the server refused it (413), no samples of its own\n"
		"4 waits lost before a profile was made of them\n");
}

Test(losses, of_profiles_that_no_folder_took_are_one_sentence, .timeout = 20)
{
	core_reset();
	core.counter[SP_COUNT_FILE_FAILED] = 1;
	lose(SP_LOSS_UNWRITTEN, 0, 3, NULL);
	push_tell();
	cr_expect_str_eq(core.log, "1 profile lost: it could not be written into "
				   "SPANPROF_OUTPUT_DIR, 3 samples\n");
	cr_expect_eq(core.counter[SP_COUNT_FILE_FAILED], 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 3);

	/* If there is a server, only the file is lost. */
	core.log[0] = '\0';
	core.counter[SP_COUNT_FILE_FAILED] = 2;
	push_tell();
	cr_expect_str_eq(core.log, "lost since the last push: 1 profile could not be written into "
				   "SPANPROF_OUTPUT_DIR\n");
}

Test(losses, of_one_are_told_in_the_singular, .timeout = 20)
{
	core_reset();
	core.counter[SP_COUNT_DROP_RING_FULL] = 1;
	core.counter[SP_COUNT_SAMPLES_UNSENT] = 1;
	push_tell();

	cr_expect_str_eq(core.log, "lost since the last push: 1 sample found no room in the ring "
				   "buffer\n"
				   "1 sample lost before a profile was made of it\n");
}

/* Only some counters say "lost": otherwise the sum of the lines would be wrong. */
Test(losses, of_what_is_there_or_was_counted_are_no_whole_ones, .timeout = 20)
{
	static const char *const words[] = {"of the samples",  " in (other)",  " has (other)",
					    " called (other)", " for (other)", "has no label"};

	for (size_t i = 0; i < sp_loss_words_n; i++) {
		const struct sp_loss_words *w = &sp_loss_words[i];

		for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
			if (strstr(w->one, words[k]) != NULL)
				cr_expect_neq(sp_loss_kind_of(w->counter), SP_LOSS_WHOLE, "%s",
					      w->one);
	}
}

Test(losses, of_allocations_are_told_with_what_helps, .timeout = 20)
{
	core_reset();
	core.counter[SP_COUNT_DROP_RING_FULL] = 3;
	core.counter[SP_COUNT_DROP_ALLOCATIONS] = 2;
	push_tell();

	cr_expect(core_logged("2 of the samples that found no room were of allocations"), "%s",
		  core.log);
	cr_expect(core_logged("raise SPANPROF_ALLOC_INTERVAL"), "%s", core.log);
}

Test(losses, of_more_kinds_than_there_is_room_for_are_still_counted, .timeout = 20)
{
	core_reset();
	for (int status = 400; status < 420; status++)
		lose(SP_LOSS_REFUSED, status, 2, NULL);
	push_tell();

	cr_expect_eq(push_lines_with("\n"), SP_LOSSES_KINDS, "%s", core.log);
	cr_expect(core_logged("13 profiles lost: "), "%s", core.log);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 40);
}

/* The server's words, with a number in them. */
static void refuse_only(int code, const char *words, unsigned number)
{
	u.answers = 1;
	u.posts = 0;
	u.answer[0].kind = SP_REPLY_STATUS;
	u.answer[0].status = code;
	u.answer[0].text_len = (size_t)snprintf(u.answer[0].text, sizeof(u.answer[0].text), "%s %u",
						words, number);
	push_put('a', 1);
	sp_push_run(u.push);
}

/* The same at the end of an interval. */
static void refuse(int code, const char *words, unsigned number)
{
	refuse_only(code, words, number);
	push_tell();
	u.now += 3600 * SP_NS_PER_S;
}

Test(losses, quote_each_kind_of_refusal_once_however_long_it_lasts, .timeout = 20)
{
	push_start(8, 0);
	for (unsigned i = 0; i < 100; i++) {
		refuse(400, "too many labels:", 31 + i);
		refuse(400, "bytes in a label value:", i);
		refuse(422, "too many labels:", 31 + i);
	}

	cr_expect_eq(push_lines_with("; status"), 3, "%s", core.log);
	cr_expect_eq(push_lines_with("status 400: too many labels: 31"), 1, "%s", core.log);
	cr_expect_eq(push_lines_with("status 400: bytes in a label value: 0"), 1);
	cr_expect_eq(push_lines_with("status 422: too many labels: 31"), 1);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 300, "all are counted");
}

Test(losses, quote_a_server_with_ever_new_words_once_in_an_interval, .timeout = 20)
{
	char words[32];

	push_start(8, 0);
	for (unsigned i = 0; i < 20; i++) {
		(void)snprintf(words, sizeof(words), "%c", 'a' + (char)i);
		refuse_only(400, words, 0);
	}
	push_tell();

	cr_expect_eq(push_lines_with("\n"), 1, "%s", core.log);
}

Test(losses, what_a_server_says_is_one_short_line, .timeout = 20)
{
	char words[SP_REPLY_BODY];

	memset(words, 'x', sizeof(words) - 1);
	words[sizeof(words) - 1] = '\0';
	push_start(8, 0);
	refuse(400,
	       "a\r\nb\x1b[2J\xc2\x9b"
	       "31m\xff\x7f",
	       0);
	refuse(413, words, 0);

	cr_expect(core_logged("status 400: a  b [2J  "
			      "31m\xef\xbf\xbd "),
		  "%s", core.log);
	cr_assert_not_null(strstr(core.log, "status 413"));
	cr_expect_leq(strlen(strstr(core.log, "status 413")), 320, "%s", core.log);
}

/* If the process has ended, its stderr has no reader. */
Test(losses, are_told_by_another_process_when_they_are_handed_over, .timeout = 20)
{
	static struct sp_losses heir;

	core_reset();
	lose(SP_LOSS_REFUSED, 401, 7, "no such token");
	sp_losses_hand_over(&u.origin.losses, &heir);
	push_tell();
	cr_expect_str_eq(core.log, "");

	core_reset();
	core.counter[SP_COUNT_SAMPLES_UNSENT] = 5;
	sp_losses_log(&heir, &core.ops);
	cr_expect_str_eq(core.log,
			 "1 profile lost: the server refused it (401), 7 samples; no such token\n"
			 "5 samples lost before a profile was made of them\n");
	cr_expect_eq(core.counter[SP_COUNT_BATCH_REJECTED], 0);
}

Test(losses, that_a_predecessor_has_told_are_not_told_again, .timeout = 20)
{
	static struct sp_losses l;

	core_reset();
	core.counter[SP_COUNT_DROP_RING_FULL] = 12;
	core.counter[SP_COUNT_SAMPLES_UNSENT] = 5;
	core.counter[SP_COUNT_SAMPLES_DRAINED] = 100;
	sp_losses_init(&l, &core.ops);
	sp_losses_log(&l, &core.ops);
	cr_expect_str_eq(core.log, "");

	core.counter[SP_COUNT_SAMPLES_DRAINED] = 0;
	sp_losses_init(&l, &core.ops);
	sp_losses_log(&l, &core.ops);
	cr_expect_neq(strlen(core.log), 0);
}
