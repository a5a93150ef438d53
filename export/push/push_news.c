/* SPDX-License-Identifier: Apache-2.0 */
#include "export/push/push_news.h"

#include <inttypes.h>
#include <stdio.h>

/* The server refuses what began more than an hour ago by its clock. */
#define SKEW_MAX_MS INT64_C(3600000)

static void take_skew(struct sp_push_news *n, const struct sp_core_ops *ops, int64_t skew_ms)
{
	int64_t size = skew_ms < 0 ? -skew_ms : skew_ms;

	n->has_skew = true;
	n->skew_ms = skew_ms;
	if (size <= SKEW_MAX_MS || n->said_skew)
		return;
	n->said_skew = true;
	sp_export_log(ops, SP_LOG_WARN,
		      "the server's clock is %" PRId64
		      " s %s this machine's: the server refuses profiles or "
		      "shows them at a wrong time; set the clocks",
		      size / 1000, skew_ms < 0 ? "behind" : "ahead of");
}

void sp_push_news_take(struct sp_push_news *n, const struct sp_core_ops *ops,
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

/* Where messages about this kind of answer are limited; the last place takes all further kinds. */
static struct sp_export_log_site *site_of(struct sp_push_news *n, const struct sp_reply *r)
{
	unsigned i = 0;

	if (r->kind != SP_REPLY_STATUS)
		return &n->said_unreachable;
	while (i < SP_PUSH_KINDS - 1 && n->said[i].status != 0 && n->said[i].status != r->status)
		i++;
	n->said[i].status = r->status;
	return &n->said[i].site;
}

void sp_push_news_warn(struct sp_push_news *n, const struct sp_core_ops *ops,
		       const struct sp_reply *r, uint64_t now_ns, bool again)
{
	sp_export_log_limited(ops, site_of(n, r), now_ns, "push failed%s: %s",
			      again ? ", will try again" : "", n->last_error);
}

void sp_push_news_tell(const struct sp_core_ops *ops, const struct sp_reply *r,
		       const struct sp_push_try *t)
{
	char status[32] = "no answer";

	if (ops->config->log_level < SP_LOG_DEBUG)
		return;
	if (r->kind == SP_REPLY_STATUS)
		(void)snprintf(status, sizeof(status), "status %d", r->status);
	sp_export_log(ops, SP_LOG_DEBUG,
		      "push of a profile (%s) of %" PRIu32 ": %zu bytes, %" PRIu64
		      " samples, %s after %.1f ms",
		      sp_profile_type_names(t->type)->sample, t->pid, t->bytes, t->samples, status,
		      (double)t->ns / (double)SP_NS_PER_MS);
}
