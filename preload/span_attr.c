/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing and formatting span attributes. APP context. */
#include "preload/span_attr.h"

#include <string.h>
#include <time.h>

#include "preload/life.h"
#include "preload/link.h"
#include "sampler/compiler.h"
#include "sampler/label.h"
#include "sampler/span.h"

/* The span's id can stand on a sample. */
static bool labelled(const struct sp_span_record *r, const struct sp_config *cfg)
{
	switch (cfg->span_id_scope) {
	case SP_SCOPE_ROOT:
		return sp_span_is_root(r);
	case SP_SCOPE_ALL:
		return true;
	case SP_SCOPE_NONE:
		break;
	}
	return false;
}

/*
 * The server finds a batch by the one time it carries, so the range reaches one upload interval
 * beyond the span on both sides.
 */
static void set_range(struct sp_link *l, const struct sp_span_record *r,
		      const struct sp_config *cfg)
{
	uint64_t pad = cfg->upload_interval_ms * SP_NS_PER_MS;
	struct timespec now = {0, 0};

	(void)clock_gettime(CLOCK_REALTIME, &now);
	l->from_ns = r->start_ns > pad ? r->start_ns - pad : 0;
	l->until_ns = (uint64_t)now.tv_sec * SP_NS_PER_S + (uint64_t)now.tv_nsec + pad;
}

void sp_span_attr_apply(const struct sp_span_record *r,
			void (*set)(void *span, const char *key, const char *value), void *span)
{
	const struct sp_config *cfg = sp_life_config();
	char url[SP_LINK_MAX];
	uint8_t bytes[16];
	struct sp_link l;

	if (cfg->attributes == SP_ATTRIBUTES_NEVER || !labelled(r, cfg))
		return;
	if (cfg->attributes == SP_ATTRIBUTES_WITH_SAMPLES && !sp_span_table_marked(r))
		return;
	memset(&l, 0, sizeof(l));
	memcpy(bytes, &r->span_id, sizeof(r->span_id));
	sp_link_hex(bytes, sizeof(r->span_id), l.span_id);
	set(span, "pyroscope.profile.id", l.span_id);
	if (cfg->profile_url == NULL)
		return;
	memcpy(bytes, r->trace, sizeof(r->trace));
	sp_link_hex(bytes, sizeof(bytes), l.trace_id);
	l.form = cfg->profile_url;
	l.base = cfg->profile_base_url;
	l.service = cfg->service_name;
	l.span_name = sp_label_text(r->name_id, &l.span_name_len);
	set_range(&l, r, cfg);
	if (sp_link_format(&l, url) != 0)
		set(span, "pyroscope.profile.url", url);
}
