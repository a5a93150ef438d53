/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and reports lost profiles. No other file does, so that the log, the counters and the status file agree. A
 * server's words for a refusal are quoted once for each wording; the log says in every interval how much was lost.
 * Context: the exporter.
 */
#include "export/util/losses.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "export/util/containers.h"
#include "export/util/log.h"

const struct sp_loss_words sp_loss_words[] = {
	{SP_COUNT_SPANS_AGED,
	 "span was open for longer than SPANPROF_MAX_SPAN_AGE, or for a minute while the table of "
	 "open spans was full",
	 "spans were open for longer than SPANPROF_MAX_SPAN_AGE, or for a minute while the table "
	 "of open spans was full",
	 NULL},
	{SP_COUNT_DROP_RING_FULL, "sample found no room in the ring buffer",
	 "samples found no room in the ring buffer", NULL},
	{SP_COUNT_DROP_UNTOLD,
	 "of the samples that found no room was in an object for whose name the ring buffer "
	 "had no room",
	 "of the samples that found no room were in an object for whose name the ring buffer "
	 "had no room",
	 NULL},
	{SP_COUNT_DROP_ALLOCATIONS, "of the samples that found no room was of an allocation",
	 "of the samples that found no room were of allocations", "raise SPANPROF_ALLOC_INTERVAL"},
	{SP_COUNT_DROP_SPAN_VALUES, "span has no label by its attributes: the ring buffer was full",
	 "spans have no labels by their attributes: the ring buffer was full", NULL},
	{SP_COUNT_DROP_ROOT_ENDS, "root span has no label latency: the ring buffer was full",
	 "root spans have no label latency: the ring buffer was full", NULL},
	{SP_COUNT_DROP_SLOW_ROOTS, "slow root span is not listed: the ring buffer was full",
	 "slow root spans are not listed: the ring buffer was full", NULL},
	{SP_COUNT_SLOW_ROOTS_OTHER,
	 "slow root span is not listed: there were too many in an interval",
	 "slow root spans are not listed: there were too many in an interval",
	 "raise the duration in SPANPROF_SLOW"},
	{SP_COUNT_SLOW_ROOTS_UNSENT, "slow root span could not be written into SPANPROF_OUTPUT_DIR",
	 "slow root spans could not be written into SPANPROF_OUTPUT_DIR", NULL},
	{SP_COUNT_SLOW_ROOTS_CUT,
	 "slow root span has no time line, or lacks its beginning: the times of its samples "
	 "were gone, or could not be written",
	 "slow root spans have no time line, or lack its beginning: the times of their "
	 "samples were gone, or could not be written",
	 NULL},
	{SP_COUNT_TIMES_OVER, "sample has no time: there were too many in an interval",
	 "samples have no time: there were too many in an interval",
	 "set a shorter SPANPROF_UPLOAD_INTERVAL"},
	{SP_COUNT_DROP_SPAN_ENDS,
	 "span has ended, but counts as open for memory that it allocated: the ring buffer was "
	 "full",
	 "spans have ended, but count as open for memory that they allocated: the ring buffer was "
	 "full",
	 NULL},
	{SP_COUNT_DROP_FREED,
	 "block stays in the profile of memory in use, though it was freed: the ring buffer was "
	 "full",
	 "blocks stay in the profile of memory in use, though they were freed: the ring buffer was "
	 "full",
	 NULL},
	{SP_COUNT_BLOCKS_NO_ROOM,
	 "sampled block is not in the profile of memory in use: there were too many",
	 "sampled blocks are not in the profile of memory in use: there were too many",
	 "raise SPANPROF_ALLOC_INTERVAL"},
	{SP_COUNT_DROP_REENTERED, "sample interrupted the signal handler itself",
	 "samples interrupted the signal handler itself", NULL},
	{SP_COUNT_DROP_STACK, "sample was not taken: the stack had too little room",
	 "samples were not taken: the stack had too little room", NULL},
	{SP_COUNT_RING_DAMAGED, "record was damaged: something else writes to the shared memory",
	 "records were damaged: something else writes to the shared memory", NULL},
	{SP_COUNT_RING_UNFINISHED, "sample was not finished when the program was killed",
	 "samples were not finished when the program was killed", NULL},
	{SP_COUNT_SPAN_STACK_FULL, "label or scope was nested too deep, or never detached",
	 "labels or scopes were nested too deep, or never detached", NULL},
	{SP_COUNT_SAMPLES_TOO_DEEP,
	 "sample has no label: more than 128 spans or scopes were open on its thread, and the "
	 "active one was among the oldest",
	 "samples have no label: more than 128 spans or scopes were open on their threads, and the "
	 "active one was among the oldest",
	 "end spans and scopes that are not needed any more"},
	{SP_COUNT_SPAN_TABLE_FULL, "span did not fit into the table of open spans",
	 "spans did not fit into the table of open spans", NULL},
	{SP_COUNT_SPAN_NO_THREAD,
	 "span has no samples: the table of threads was full, or another thread was still setting "
	 "sampling up",
	 "spans have no samples: the table of threads was full, or another thread was still "
	 "setting sampling up",
	 NULL},
	{SP_COUNT_NAMES_OTHER, "span is called (other)", "spans are called (other)",
	 "raise SPANPROF_MAX_SPAN_NAMES"},
	{SP_COUNT_THREAD_NAMES_OTHER,
	 "sample is of a thread called (other): too many different names",
	 "samples are of threads called (other): too many different names", NULL},
	{SP_COUNT_WAIT_NAMES_OTHER, "wait is for (other): too many different files and addresses",
	 "waits are for (other): too many different files and addresses", NULL},
	{SP_COUNT_SPAN_VALUES_OTHER,
	 "sample has (other) for the value of an attribute: too many different values in one "
	 "interval",
	 "samples have (other) for the value of an attribute: too many different values in one "
	 "interval",
	 "name attributes with few values in SPANPROF_SPAN_LABELS"},
	{SP_COUNT_SERIES_OTHER,
	 "sample has (other) in a label at the server: the process has SPANPROF_MAX_SERIES sets of "
	 "labels",
	 "samples have (other) in a label at the server: the process has SPANPROF_MAX_SERIES sets "
	 "of labels",
	 "leave out a label with many values (SPANPROF_LABELS=NAME=), or raise that limit"},
	{SP_COUNT_SPAN_VALUES_NO_ROOM,
	 "span has no label by its attributes: too many spans in one interval",
	 "spans have no labels by their attributes: too many spans in one interval", NULL},
	{SP_COUNT_UNARMED_LIMIT, "thread had no timer: half of RLIMIT_SIGPENDING is in use",
	 "threads had no timer: half of RLIMIT_SIGPENDING is in use", "raise that limit"},
	{SP_COUNT_UNARMED_REFUSED, "thread had no timer: the kernel refused it",
	 "threads had no timer: the kernel refused it", NULL},
	{SP_COUNT_UNARMED_STACK,
	 "thread had no timer: its stack or its alternate signal stack is too small",
	 "threads had no timer: their stack or their alternate signal stack is too small", NULL},
	{SP_COUNT_UNARMED_SHARED,
	 "thread had no timer: it shares its alternate signal stack with another thread",
	 "threads had no timer: they share their alternate signal stack with another thread", NULL},
	{SP_COUNT_THREADS_NO_BLOCK, "time a thread was not sampled: there are too many threads",
	 "times a thread was not sampled: there are too many threads", NULL},
	{SP_COUNT_SIGNAL_TAKEN, "time the program took the signal",
	 "times the program took the signal", "set SPANPROF_SIGNAL to another one"},
	{SP_COUNT_SECCOMP_STOPPED, "time profiling stopped: the program installed a seccomp filter",
	 "times profiling stopped: the program installed a seccomp filter", NULL},
	{SP_COUNT_STACKS_OTHER, "sample is in (other): too many different stacks in one interval",
	 "samples are in (other): too many different stacks in one interval", NULL},
	{SP_COUNT_SPANS_OTHER, "sample has no label: too many spans in one interval",
	 "samples have no label: too many spans in one interval", NULL},
	{SP_COUNT_BATCH_QUEUE_FULL, "profile did not fit into the queue while the server was away",
	 "profiles did not fit into the queue while the server was away", NULL},
	{SP_COUNT_BATCH_TOO_OLD, "profile became too old for the server",
	 "profiles became too old for the server", NULL},
	{SP_COUNT_BATCH_REJECTED, "profile was refused by the server",
	 "profiles were refused by the server", NULL},
	{SP_COUNT_BATCH_UNANSWERED, "profile was sent, but no answer came: the server may have it",
	 "profiles were sent, but no answer came: the server may have them", NULL},
	{SP_COUNT_BATCH_UNSENT, "profile could not be sent before the end of the process",
	 "profiles could not be sent before the end of the process", NULL},
	{SP_COUNT_SAMPLES_UNSENT,
	 "sample was in a lost profile, or in none yet when the exporter or the process ended",
	 "samples were in lost profiles, or in none yet when the exporter or the process ended",
	 NULL},
	{SP_COUNT_WAITS_UNSENT,
	 "wait was in a lost profile, or in none yet when the exporter or the process ended",
	 "waits were in lost profiles, or in none yet when the exporter or the process ended",
	 NULL},
	{SP_COUNT_WAITS_UNWATCHED,
	 "millisecond of waiting in spans was over when the exporter began: the machine is very "
	 "busy",
	 "milliseconds of waiting in spans were over when the exporter began: the machine is very "
	 "busy",
	 NULL},
	{SP_COUNT_FILE_FAILED, "profile could not be written into SPANPROF_OUTPUT_DIR",
	 "profiles could not be written into SPANPROF_OUTPUT_DIR", NULL},
	{SP_COUNT_EXPORT_NOMEM, "time there was no memory for a profile",
	 "times there was no memory for a profile", NULL},
};

const size_t sp_loss_words_n = SP_ARRAY_LEN(sp_loss_words);

enum sp_loss_kind sp_loss_kind_of(enum sp_counter counter)
{
	static const enum sp_loss_kind kinds[SP_COUNTER_N] = {
		[SP_COUNT_DROP_UNTOLD] = SP_LOSS_PART,
		[SP_COUNT_DROP_ALLOCATIONS] = SP_LOSS_PART,
		[SP_COUNT_SPANS_AGED] = SP_LOSS_LESS,
		[SP_COUNT_DROP_SPAN_VALUES] = SP_LOSS_LESS,
		[SP_COUNT_DROP_ROOT_ENDS] = SP_LOSS_LESS,
		[SP_COUNT_DROP_SLOW_ROOTS] = SP_LOSS_LESS,
		[SP_COUNT_SLOW_ROOTS_OTHER] = SP_LOSS_LESS,
		[SP_COUNT_SLOW_ROOTS_UNSENT] = SP_LOSS_LESS,
		[SP_COUNT_SLOW_ROOTS_CUT] = SP_LOSS_LESS,
		[SP_COUNT_TIMES_OVER] = SP_LOSS_LESS,
		[SP_COUNT_DROP_SPAN_ENDS] = SP_LOSS_LESS,
		[SP_COUNT_DROP_FREED] = SP_LOSS_LESS,
		[SP_COUNT_BLOCKS_NO_ROOM] = SP_LOSS_LESS,
		[SP_COUNT_SPAN_STACK_FULL] = SP_LOSS_LESS,
		[SP_COUNT_SAMPLES_TOO_DEEP] = SP_LOSS_LESS,
		[SP_COUNT_SPAN_TABLE_FULL] = SP_LOSS_LESS,
		[SP_COUNT_SPAN_NO_THREAD] = SP_LOSS_LESS,
		[SP_COUNT_NAMES_OTHER] = SP_LOSS_LESS,
		[SP_COUNT_THREAD_NAMES_OTHER] = SP_LOSS_LESS,
		[SP_COUNT_WAIT_NAMES_OTHER] = SP_LOSS_LESS,
		[SP_COUNT_SPAN_VALUES_OTHER] = SP_LOSS_LESS,
		[SP_COUNT_SPAN_VALUES_NO_ROOM] = SP_LOSS_LESS,
		[SP_COUNT_STACKS_OTHER] = SP_LOSS_LESS,
		[SP_COUNT_SPANS_OTHER] = SP_LOSS_LESS,
		[SP_COUNT_SERIES_OTHER] = SP_LOSS_LESS,
	};

	return kinds[counter];
}

static const struct {
	enum sp_counter counter;
	const char *one, *more; /* what happened to one profile, and to several */
} causes[] = {
	[SP_LOSS_QUEUE_FULL] = {SP_COUNT_BATCH_QUEUE_FULL, "the push queue was full",
				"the push queue was full"},
	[SP_LOSS_TOO_OLD] = {SP_COUNT_BATCH_TOO_OLD, "it could not be sent within an hour",
			     "they could not be sent within an hour"},
	/* A profile without any answer counts as too old, a profile whose last answer was bad as rejected. */
	[SP_LOSS_UNANSWERED] = {SP_COUNT_BATCH_TOO_OLD, "the server did not answer",
				"the server did not answer"},
	[SP_LOSS_GIVEN_UP] = {SP_COUNT_BATCH_REJECTED, "every try to send it failed",
			      "every try to send them failed"},
	[SP_LOSS_REFUSED] = {SP_COUNT_BATCH_REJECTED, "the server refused it",
			     "the server refused them"},
	[SP_LOSS_UNKNOWN] = {SP_COUNT_BATCH_UNANSWERED,
			     "it was sent, but no answer came (the server may have it)",
			     "they were sent, but no answer came (the server may have them)"},
	[SP_LOSS_SHARED] =
		{SP_COUNT_BATCH_UNANSWERED,
		 "it was sent with others, of which the server refused some and does not "
		 "say which (the server may have it)",
		 "they were sent together, and the server refused some and does not say "
		 "which (the server may have the others)"},
	[SP_LOSS_UNSENT] = {SP_COUNT_BATCH_UNSENT, "the process ended before it was sent",
			    "the process ended before they were sent"},
	[SP_LOSS_UNWRITTEN] = {SP_COUNT_FILE_FAILED,
			       "it could not be written into SPANPROF_OUTPUT_DIR",
			       "they could not be written into SPANPROF_OUTPUT_DIR"},
};

/* A hash of a message's wording without its numbers, because the numbers differ each time. */
static uint64_t wording(const char *words, int status)
{
	uint64_t hash = sp_hash_add(0, (unsigned)status);

	for (; *words != '\0'; words++)
		if (*words < '0' || *words > '9')
			hash = sp_hash_add(hash, (unsigned char)*words);
	return hash | 1;
}

static bool is_new(struct sp_losses *l, const char *words, int status)
{
	uint64_t hash = wording(words, status);

	for (unsigned i = 0; i < SP_LOSSES_KINDS; i++)
		if (l->quoted[i] == hash)
			return false;
	l->quoted[l->next_quote++ % SP_LOSSES_KINDS] = hash;
	return true;
}

void sp_losses_init(struct sp_losses *l, const struct sp_core_ops *ops)
{
	memset(l, 0, sizeof(*l));
	if (ops->counter_read(ops->arg, SP_COUNT_SAMPLES_DRAINED) == 0 &&
	    ops->counter_read(ops->arg, SP_COUNT_WAITS) == 0)
		return;
	for (size_t i = 0; i < sp_loss_words_n; i++)
		l->told[sp_loss_words[i].counter] =
			ops->counter_read(ops->arg, sp_loss_words[i].counter);
}

static void note(struct sp_losses *l, const struct sp_loss *loss)
{
	unsigned i = 0;

	while (i < SP_LOSSES_KINDS - 1 && l->kind[i].sum.profiles != 0 &&
	       (l->kind[i].sum.cause != loss->cause || l->kind[i].sum.status != loss->status ||
		l->kind[i].sum.at != loss->at))
		i++;
	l->kind[i].sum.cause = loss->cause;
	l->kind[i].sum.status = loss->status;
	l->kind[i].sum.at = loss->at;
	l->kind[i].sum.profiles += loss->profiles;
	l->kind[i].sum.samples += loss->samples;
	l->kind[i].sum.waits += loss->waits;
	l->kind[i].sum.elsewhere_samples += loss->elsewhere_samples;
	l->kind[i].sum.elsewhere_waits += loss->elsewhere_waits;
	if (loss->words != NULL && is_new(l, loss->words, loss->status))
		(void)snprintf(l->kind[i].words, sizeof(l->kind[i].words), "%s", loss->words);
}

static uint64_t counted_samples(const struct sp_loss *loss)
{
	return loss->samples - loss->elsewhere_samples;
}

static uint64_t counted_waits(const struct sp_loss *loss)
{
	return loss->waits - loss->elsewhere_waits;
}

void sp_losses_add(struct sp_losses *l, const struct sp_core_ops *ops, const struct sp_loss *loss)
{
	/* The sentence about the profile has its samples, so the sentence about the counter must not repeat it. */
	if (loss->cause == SP_LOSS_UNWRITTEN)
		l->told[SP_COUNT_FILE_FAILED] += loss->profiles;
	else
		ops->counter_add(ops->arg, causes[loss->cause].counter, loss->profiles);
	ops->counter_add(ops->arg, SP_COUNT_SAMPLES_UNSENT, counted_samples(loss));
	ops->counter_add(ops->arg, SP_COUNT_WAITS_UNSENT, counted_waits(loss));
	note(l, loss);
}

void sp_losses_hand_over(struct sp_losses *from, struct sp_losses *to)
{
	for (unsigned i = 0; i < SP_LOSSES_KINDS; i++) {
		struct sp_loss loss = from->kind[i].sum;

		if (loss.profiles == 0)
			continue;
		if (from->kind[i].words[0] != '\0')
			loss.words = from->kind[i].words;
		note(to, &loss);
		to->handed_over_samples += counted_samples(&loss);
		to->handed_over_waits += counted_waits(&loss);
		from->told[SP_COUNT_SAMPLES_UNSENT] += counted_samples(&loss);
		from->told[SP_COUNT_WAITS_UNSENT] += counted_waits(&loss);
		memset(&from->kind[i], 0, sizeof(from->kind[i]));
	}
}

static void put_count(struct sp_text_out *counts, uint64_t n, const char *one)
{
	if (n != 0)
		sp_text_out_put(counts, "%s%" PRIu64 " %s%s", counts->len != 0 ? " and " : "", n,
				one, n == 1 ? "" : "s");
}

/*
 * "3 profiles lost: the server refused them (413), 412 samples; the server's words". With several
 * servers the sentence names one, as in "3 profiles lost at http://b: ..., 412 samples (400 not
 * lost at another server)". The samples of the wall-clock profile are also in other profiles, so
 * they count there.
 */
static void tell_profiles(const struct sp_core_ops *ops, const struct sp_loss *sum,
			  const char *words)
{
	bool one = sum->profiles == 1;
	char text[160] = "";
	struct sp_text_out counts = {text, sizeof(text), 0};
	uint64_t elsewhere = sum->elsewhere_samples + sum->elsewhere_waits;
	char status[16] = "";

	if (sum->status != 0)
		(void)snprintf(status, sizeof(status), " (%d)", sum->status);
	put_count(&counts, sum->samples, "sample");
	put_count(&counts, sum->waits, "wait");
	if (counts.len == 0)
		sp_text_out_put(&counts, "no samples of %s own", one ? "its" : "their");
	if (elsewhere != 0)
		sp_text_out_put(&counts, " (%" PRIu64 " not lost at another server)", elsewhere);
	sp_export_log(ops, SP_LOG_WARN, "%" PRIu64 " %s lost%s%s: %s%s, %s%s%s", sum->profiles,
		      one ? "profile" : "profiles", sum->at != NULL ? " at " : "",
		      sum->at != NULL ? sum->at : "",
		      one ? causes[sum->cause].one : causes[sum->cause].more, status, text,
		      words[0] != '\0' ? "; " : "", words);
}

/* Losses of profiles have separate sentences, which include their samples and waits. */
static bool is_of_profiles(enum sp_counter c)
{
	for (unsigned i = 0; i < SP_LOSS_UNWRITTEN; i++)
		if (causes[i].counter == c)
			return true;
	return c == SP_COUNT_SAMPLES_UNSENT || c == SP_COUNT_WAITS_UNSENT;
}

/* Reports the part of a counter's growth that is not in the sentences about profiles. */
static void tell_rest(const struct sp_core_ops *ops, uint64_t grown, uint64_t in_profiles,
		      const char *one)
{
	char text[48] = "";
	struct sp_text_out counts = {text, sizeof(text), 0};

	if (grown <= in_profiles)
		return;
	put_count(&counts, grown - in_profiles, one);
	sp_export_log(ops, SP_LOG_WARN, "%s lost before a profile was made of %s", text,
		      grown - in_profiles == 1 ? "it" : "them");
}

/*
 * Counters that are logged only once. These losses lose no samples, and in programs whose spans
 * stay open for long they never end.
 */
static bool is_told_once(enum sp_counter c)
{
	return c == SP_COUNT_SAMPLES_TOO_DEEP;
}

void sp_losses_log(struct sp_losses *l, const struct sp_core_ops *ops)
{
	uint64_t samples = 0;
	uint64_t waits = 0;

	for (unsigned i = 0; i < SP_LOSSES_KINDS; i++) {
		if (l->kind[i].sum.profiles != 0)
			tell_profiles(ops, &l->kind[i].sum, l->kind[i].words);
		samples += counted_samples(&l->kind[i].sum);
		waits += counted_waits(&l->kind[i].sum);
		memset(&l->kind[i], 0, sizeof(l->kind[i]));
	}
	samples -= l->handed_over_samples;
	waits -= l->handed_over_waits;
	l->handed_over_samples = 0;
	l->handed_over_waits = 0;
	for (size_t i = 0; i < sp_loss_words_n; i++) {
		const struct sp_loss_words *w = &sp_loss_words[i];
		uint64_t n = ops->counter_read(ops->arg, w->counter);
		uint64_t grown = n - l->told[w->counter];

		l->told[w->counter] = n;
		if (w->counter == SP_COUNT_SAMPLES_UNSENT)
			tell_rest(ops, grown, samples, "sample");
		else if (w->counter == SP_COUNT_WAITS_UNSENT)
			tell_rest(ops, grown, waits, "wait");
		else if (grown != 0 && !is_of_profiles(w->counter) &&
			 (grown == n || !is_told_once(w->counter)))
			sp_export_log(ops, SP_LOG_WARN,
				      "lost since the last push: %" PRIu64 " %s%s%s", grown,
				      sp_loss_words_for(w, grown), w->remedy != NULL ? "; " : "",
				      w->remedy != NULL ? w->remedy : "");
	}
}
