/* SPDX-License-Identifier: Apache-2.0 */
/* How the last tries to send something went, for the log and the status file. */
#ifndef SP_PUSH_NEWS_H
#define SP_PUSH_NEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "export/profile/profile_type.h"
#include "export/push/reply.h"
#include "export/util/log.h"
#include "export/util/losses.h"

#define SP_PUSH_ERROR SP_LOSSES_WORDS
#define SP_PUSH_KINDS 8U

/* Zero it at first use. */
struct sp_push_news {
	uint64_t attempts;
	int last_status;                /* HTTP; 0 = there was no answer, or no try yet */
	char last_error[SP_PUSH_ERROR]; /* printable; "" after a success */
	size_t remedy_at;               /* where "; " and the remedy begin in it, or its end */
	int64_t last_success_ms;        /* since the epoch; 0 = never */
	bool has_skew;                  /* the server sent its time */
	int64_t skew_ms;                /* how much later it is there */
	bool said_skew;                 /* a message said that it is too much */
	/* One per kind of trouble, so that one kind does not silence another. */
	struct sp_export_log_site said_unreachable;
	struct {
		int status;
		struct sp_export_log_site site;
	} said[SP_PUSH_KINDS];
};

/* One try to send something. */
struct sp_push_try {
	uint32_t pid; /* of the process that the profile is of */
	enum sp_profile_type type;
	size_t bytes; /* of the request */
	uint64_t samples;
	uint64_t ns; /* that it took */
};

/* One line at level debug for each try. */
void sp_push_news_tell(const struct sp_core_ops *ops, const struct sp_reply *r,
		       const struct sp_push_try *t);

/* After each try. */
void sp_push_news_take(struct sp_push_news *n, const struct sp_core_ops *ops,
		       const struct sp_reply *r);

/* The last try failed, and whether there will be another: a message, limited for each kind of answer. */
void sp_push_news_warn(struct sp_push_news *n, const struct sp_core_ops *ops,
		       const struct sp_reply *r, uint64_t now_ns, bool again);

#endif
