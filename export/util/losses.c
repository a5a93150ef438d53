/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and reports lost profiles. Only this file does, so that the log, the counters and the
 * status file agree. A server's words for a refusal are quoted once for each wording; how much was
 * lost is logged in every interval. Context: the exporter.
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
	{SP_COUNT_DROP_RING_FULL, "sample found the ring buffer full: the machine is very busy",
	 "samples found the ring buffer full: the machine is very busy", NULL},
	{SP_COUNT_DROP_UNTOLD,
	 "of these samples was in an object for whose name the ring buffer had no room",
	 "of these samples were in an object for whose name the ring buffer had no room", NULL},
	{SP_COUNT_DROP_SPAN_VALUES,
	 "span has no label by its attributes: the ring buffer was full, the machine is very busy",
	 "spans have no labels by their attributes: the ring buffer was full, the machine is very "
	 "busy",
	 NULL},
	{SP_COUNT_DROP_SPAN_ENDS,
	 "span still counts as open for what was allocated in it: there was no room to tell its "
	 "end",
	 "spans still count as open for what was allocated in them: there was no room to tell "
	 "their "
	 "ends",
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
	{SP_COUNT_SPAN_STACK_FULL, "label or scope was nested too deep",
	 "labels or scopes were nested too deep", NULL},
	{SP_COUNT_SPAN_TABLE_FULL, "span did not fit into the table of open spans",
	 "spans did not fit into the table of open spans", NULL},
	{SP_COUNT_SPAN_NO_THREAD, "span started on a thread that is not known",
	 "spans started on threads that are not known", NULL},
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

static const struct {
	enum sp_counter counter;
	const char *one, *more; /* what happened to it, to them */
} causes[] = {
	[SP_LOSS_QUEUE_FULL] = {SP_COUNT_BATCH_QUEUE_FULL, "the push queue was full",
				"the push queue was full"},
	[SP_LOSS_TOO_OLD] = {SP_COUNT_BATCH_TOO_OLD, "it could not be sent within an hour",
			     "they could not be sent within an hour"},
	/* Without any answer a profile counts as too old, with a bad last answer as rejected. */
	[SP_LOSS_UNANSWERED] = {SP_COUNT_BATCH_TOO_OLD, "the server did not answer",
				"the server did not answer"},
	[SP_LOSS_GIVEN_UP] = {SP_COUNT_BATCH_REJECTED, "every try to send it failed",
			      "every try to send them failed"},
	[SP_LOSS_REFUSED] = {SP_COUNT_BATCH_REJECTED, "the server refused it",
			     "the server refused them"},
	[SP_LOSS_UNKNOWN] = {SP_COUNT_BATCH_UNANSWERED,
			     "it was sent, but no answer came (the server may have it)",
			     "they were sent, but no answer came (the server may have them)"},
	[SP_LOSS_UNSENT] = {SP_COUNT_BATCH_UNSENT, "the process ended before it was sent",
			    "the process ended before they were sent"},
	[SP_LOSS_UNWRITTEN] = {SP_COUNT_FILE_FAILED,
			       "it could not be written into SPANPROF_OUTPUT_DIR",
			       "they could not be written into SPANPROF_OUTPUT_DIR"},
};

/* A hash of a message's wording, without its numbers, which differ each time. */
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
	       (l->kind[i].sum.cause != loss->cause || l->kind[i].sum.status != loss->status))
		i++;
	l->kind[i].sum.cause = loss->cause;
	l->kind[i].sum.status = loss->status;
	l->kind[i].sum.profiles += loss->profiles;
	l->kind[i].sum.samples += loss->samples;
	l->kind[i].sum.waits += loss->waits;
	if (loss->words != NULL && is_new(l, loss->words, loss->status))
		(void)snprintf(l->kind[i].words, sizeof(l->kind[i].words), "%s", loss->words);
}

void sp_losses_add(struct sp_losses *l, const struct sp_core_ops *ops, const struct sp_loss *loss)
{
	/* It is told with its samples then, and not a second time by its counter. */
	if (loss->cause == SP_LOSS_UNWRITTEN)
		l->told[SP_COUNT_FILE_FAILED] += loss->profiles;
	else
		ops->counter_add(ops->arg, causes[loss->cause].counter, loss->profiles);
	ops->counter_add(ops->arg, SP_COUNT_SAMPLES_UNSENT, loss->samples);
	ops->counter_add(ops->arg, SP_COUNT_WAITS_UNSENT, loss->waits);
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
		to->handed_over_samples += loss.samples;
		to->handed_over_waits += loss.waits;
		from->told[SP_COUNT_SAMPLES_UNSENT] += loss.samples;
		from->told[SP_COUNT_WAITS_UNSENT] += loss.waits;
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
 * "3 profiles lost: the server refused them (413), 412 samples; what it said". The samples of a profile
 * of the wall clock count with the others that they are in.
 */
static void tell_profiles(const struct sp_core_ops *ops, const struct sp_loss *sum,
			  const char *words)
{
	bool one = sum->profiles == 1;
	char text[80] = "";
	struct sp_text_out counts = {text, sizeof(text), 0};
	char status[16] = "";

	if (sum->status != 0)
		(void)snprintf(status, sizeof(status), " (%d)", sum->status);
	put_count(&counts, sum->samples, "sample");
	put_count(&counts, sum->waits, "wait");
	if (counts.len == 0)
		sp_text_out_put(&counts, "no samples of %s own", one ? "its" : "their");
	sp_export_log(ops, SP_LOG_WARN, "%" PRIu64 " %s lost: %s%s, %s%s%s", sum->profiles,
		      one ? "profile" : "profiles",
		      one ? causes[sum->cause].one : causes[sum->cause].more, status, text,
		      words[0] != '\0' ? "; " : "", words);
}

/* Losses of profiles have sentences of their own, which include their samples and waits. */
static bool is_of_profiles(enum sp_counter c)
{
	for (unsigned i = 0; i < SP_LOSS_UNWRITTEN; i++)
		if (causes[i].counter == c)
			return true;
	return c == SP_COUNT_SAMPLES_UNSENT || c == SP_COUNT_WAITS_UNSENT;
}

/* What a counter says beyond what was in those profiles. */
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

void sp_losses_tell(struct sp_losses *l, const struct sp_core_ops *ops)
{
	uint64_t samples = 0;
	uint64_t waits = 0;

	for (unsigned i = 0; i < SP_LOSSES_KINDS; i++) {
		if (l->kind[i].sum.profiles != 0)
			tell_profiles(ops, &l->kind[i].sum, l->kind[i].words);
		samples += l->kind[i].sum.samples;
		waits += l->kind[i].sum.waits;
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
		else if (grown != 0 && !is_of_profiles(w->counter))
			sp_export_log(ops, SP_LOG_WARN,
				      "lost since the last push: %" PRIu64 " %s%s%s", grown,
				      sp_loss_words_for(w, grown), w->remedy != NULL ? "; " : "",
				      w->remedy != NULL ? w->remedy : "");
	}
}
