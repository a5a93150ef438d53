/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was lost, in words: for the log since the last push, and for the status of a process, which the exporter
 * writes and spanprof-report reads. Contexts: the exporter; the table of words also spanprof-report.
 */
#ifndef SP_LOSSES_H
#define SP_LOSSES_H

#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "sampler/base/counters.h"

/* How that status is found: the name that the exporter gives itself, as far as the kernel keeps it. */
#define SP_STATUS_COMM "spanprof-export"

/* Before the number of its process, the name of the memory file that the exporter keeps open. */
#define SP_STATUS_MEMORY "spanprof-status-"

/* What each counter of a loss counts, in words that follow the number, and what can be done about it. */
struct sp_loss_words {
	enum sp_counter counter;
	const char *one; /* behind the number 1 */
	const char *more;
	const char *remedy; /* NULL = none is known */
};

extern const struct sp_loss_words sp_loss_words[];
extern const size_t sp_loss_words_n;

/* What follows that number. */
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
	SP_LOSS_UNANSWERED, /* tried as often as was allowed, and never answered */
	SP_LOSS_GIVEN_UP,   /* the same, and answered with status */
	SP_LOSS_REFUSED,    /* refused with status: it will never be taken */
	SP_LOSS_UNKNOWN,    /* all of it was sent and no answer came: the server may have it */
	SP_LOSS_UNSENT,     /* the process ended */
	SP_LOSS_UNWRITTEN,  /* into the folder, and there is no server; the profile was counted */
};

struct sp_loss {
	enum sp_loss_cause cause;
	int status; /* HTTP, where the cause has one */
	uint64_t profiles;
	uint64_t samples;
	uint64_t waits;
	const char *words; /* what the server said, printable; NULL = nothing */
};

struct sp_losses {
	uint64_t told[SP_COUNTER_N]; /* the counters when they were last reported */
	struct {
		struct sp_loss sum; /* without words; no profiles = free */
		char words[SP_LOSSES_WORDS];
	} kind[SP_LOSSES_KINDS]; /* since then; the last one collects the rest */
	uint64_t quoted
		[SP_LOSSES_KINDS]; /* hashes of wordings that were quoted; the oldest is replaced */
	unsigned next_quote;
	/* in these, and counted by another process */
	uint64_t handed_over_samples;
	uint64_t handed_over_waits;
};

/* At the beginning. Losses that an exporter before us has reported are not reported again. */
void sp_losses_init(struct sp_losses *l, const struct sp_core_ops *ops);

/* Counts lost profiles and their samples. */
void sp_losses_add(struct sp_losses *l, const struct sp_core_ops *ops, const struct sp_loss *loss);

/*
 * The first process has ended, and the second reports its losses. The counters stay those of the
 * first.
 */
void sp_losses_hand_over(struct sp_losses *from, struct sp_losses *to);

/* One sentence for each cause since the last call, if there was any. */
void sp_losses_tell(struct sp_losses *l, const struct sp_core_ops *ops);

#endif
