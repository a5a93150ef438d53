/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for losses: for the log, of the losses since the last push; and for the status of a process, which the
 * exporter writes and spanprof-report reads. Contexts: the exporter; spanprof-report uses the table of words.
 */
#ifndef SP_LOSSES_H
#define SP_LOSSES_H

#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "sampler/base/counters.h"

/*
 * The name of the exporter's process, as far as the kernel stores it. spanprof-report finds the
 * status by it.
 */
#define SP_STATUS_COMM "spanprof-export"

/* The exporter keeps a memory file open whose name is this and the id of the process. */
#define SP_STATUS_MEMORY "spanprof-status-"

/* What each counter of a loss counts: words that follow the number, and a remedy for the user. */
struct sp_loss_words {
	enum sp_counter counter;
	const char *one; /* the words for the number 1 */
	const char *more;
	const char *remedy; /* NULL = no remedy is known */
};

/* How a loss is counted, for code that adds up numbers of samples, waits, profiles or threads. */
enum sp_loss_kind {
	SP_LOSS_WHOLE, /* the samples are in no profile, or the threads are not sampled */
	SP_LOSS_PART,  /* another loss counts the same samples too */
	SP_LOSS_LESS,  /* the samples are there, but with less information */
};

enum sp_loss_kind sp_loss_kind_of(enum sp_counter counter);

extern const struct sp_loss_words sp_loss_words[];
extern const size_t sp_loss_words_n;

/* The words that follow the number n. */
static inline const char *sp_loss_words_for(const struct sp_loss_words *w, uint64_t n)
{
	return n == 1 ? w->one : w->more;
}

#define SP_LOSSES_KINDS 8U
#define SP_LOSSES_WORDS 420U

/* Why profiles did not get to the server. */
enum sp_loss_cause {
	SP_LOSS_QUEUE_FULL,
	SP_LOSS_TOO_OLD,
	SP_LOSS_UNANSWERED, /* tried as often as allowed, without an answer */
	SP_LOSS_GIVEN_UP,   /* tried as often as allowed, and answered with status */
	SP_LOSS_REFUSED,    /* refused with status: the server will never take it */
	SP_LOSS_UNKNOWN,    /* sent completely without an answer: the server may have it */
	/* sent in one request with others, of which the server refused some with status and stored the rest */
	SP_LOSS_SHARED,
	SP_LOSS_UNSENT, /* the process ended before it was sent */
	/* not written into the folder, and there is no server; the profile was counted */
	SP_LOSS_UNWRITTEN,
};

struct sp_loss {
	enum sp_loss_cause cause;
	int status; /* HTTP status, if the cause has one */
	const char *
		/*
		 * with several servers, the one that does not get the profiles; NULL = all, or the
		 * only one
		 */
		at;
	uint64_t profiles;
	uint64_t samples;
	uint64_t waits;
	/*
	 * Samples and waits that another server has or may still take. They do not count as lost.
	 */
	uint64_t elsewhere_samples;
	uint64_t elsewhere_waits;
	const char *words; /* the server's words, printable; NULL = none */
};

struct sp_losses {
	uint64_t told[SP_COUNTER_N]; /* the counters when they were last reported */
	struct {
		struct sp_loss sum; /* without words; 0 profiles = unused */
		char words[SP_LOSSES_WORDS];
	} kind[SP_LOSSES_KINDS]; /* since the last report; the last entry collects the rest */
	/* hashes of quoted wordings; a new one replaces the oldest */
	uint64_t quoted[SP_LOSSES_KINDS];
	unsigned next_quote;
	/* These are in told[], but another process reports them. */
	uint64_t handed_over_samples;
	uint64_t handed_over_waits;
};

/* Call this first. A loss that an earlier exporter has reported is not reported again. */
void sp_losses_init(struct sp_losses *l, const struct sp_core_ops *ops);

/* Counts lost profiles and their samples. */
void sp_losses_add(struct sp_losses *l, const struct sp_core_ops *ops, const struct sp_loss *loss);

/* The first process has ended, and the second reports its losses. The counters still belong to the first. */
void sp_losses_hand_over(struct sp_losses *from, struct sp_losses *to);

/* Logs one sentence for each cause of losses since the last call. */
void sp_losses_log(struct sp_losses *l, const struct sp_core_ops *ops);

#endif
