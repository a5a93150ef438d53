/* SPDX-License-Identifier: Apache-2.0 */
#include "export/push/push_results.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The clocks' difference in percent of the difference at which the server refuses profiles. */
static int64_t skew_share(int64_t skew_ms)
{
	return skew_ms < 0 ? -skew_ms * 100 / SP_PUSH_SKEW_BEHIND_MS
			   : skew_ms * 100 / SP_PUSH_SKEW_AHEAD_MS;
}

/* With several servers, each message names its server. */
static const char *to(const struct sp_push_results *n)
{
	return n->name != NULL ? " to " : "";
}

static const char *name(const struct sp_push_results *n)
{
	return n->name != NULL ? n->name : "";
}

static void take_skew(struct sp_push_results *n, const struct sp_core_ops *ops, int64_t skew_ms)
{
	int64_t size = skew_ms < 0 ? -skew_ms : skew_ms;

	n->has_skew = true;
	n->skew_ms = skew_ms;
	/*
	 * A new message only after the difference was below half of the limit: near the limit, it
	 * is measured now above, now below it.
	 */
	if (skew_share(skew_ms) <= 50)
		n->said_skew = false;
	if (skew_share(skew_ms) < 100 || n->said_skew)
		return;
	n->said_skew = true;
	sp_export_log(ops, SP_LOG_WARN,
		      "the %s%s is %" PRId64 " s %s this machine's: the server refuses profiles or "
		      "shows them at a wrong time; set the clocks",
		      n->name != NULL ? "clock of " : "server's clock", name(n), size / 1000,
		      skew_ms < 0 ? "behind" : "ahead of");
}

void sp_push_results_add(struct sp_push_results *n, const struct sp_core_ops *ops,
			 const struct sp_reply *r)
{
	n->attempts++;
	n->last_status = r->kind == SP_REPLY_STATUS ? r->status : 0;
	n->last_error[0] = '\0';
	if (sp_reply_good(r))
		n->last_success_ms = r->answered_ms;
	else
		n->remedy_at = sp_reply_describe(r, n->last_error, sizeof(n->last_error));
	if (r->has_skew)
		take_skew(n, ops, r->skew_ms);
}

/* The limit for messages about this kind of answer; the last entry is for all further kinds. */
static struct sp_export_log_site *site_of(struct sp_push_results *n, const struct sp_reply *r)
{
	unsigned i = 0;

	if (r->kind != SP_REPLY_STATUS)
		return &n->said_unreachable;
	while (i < SP_PUSH_KINDS - 1 && n->said[i].status != 0 && n->said[i].status != r->status)
		i++;
	n->said[i].status = r->status;
	return &n->said[i].site;
}

void sp_push_results_warn(struct sp_push_results *n, const struct sp_core_ops *ops,
			  const struct sp_reply *r, uint64_t now_ns, bool again)
{
	sp_export_log_limited(ops, site_of(n, r), now_ns, "push%s%s failed%s: %s", to(n), name(n),
			      again ? ", will try again" : "", n->last_error);
	n->said_failure = true;
}

void sp_push_results_log_success(struct sp_push_results *n, const struct sp_core_ops *ops)
{
	if (n->said_failure)
		sp_export_log(ops, SP_LOG_WARN, "pushes%s%s succeed again", to(n), name(n));
	n->said_failure = false;
}

void sp_push_results_log_remark(struct sp_push_results *n, const struct sp_core_ops *ops,
				const struct sp_reply *r, uint64_t now_ns)
{
	char words[200];

	sp_reply_words(r, words, sizeof(words));
	sp_export_log_limited(ops, site_of(n, r), now_ns, "%s says: %s",
			      n->name != NULL ? n->name : "the server", words);
}
