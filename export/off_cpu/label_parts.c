/* SPDX-License-Identifier: Apache-2.0 */
/* See label_parts.h. Context: the exporter. */
#include "export/off_cpu/label_parts.h"

static bool is_label(const struct sp_thread_label *l)
{
	return l->span_id != 0 || l->name_id != 0;
}

static uint64_t clamp(uint64_t at, uint64_t from, uint64_t to)
{
	return at < from ? from : at > to ? to : at;
}

/* When label number i ended, or now. */
static uint64_t end_of(const struct sp_thread_labels_copy *c, uint32_t i, uint64_t now)
{
	const struct sp_thread_label *l = &c->label[i];

	if (i + 1 < c->labels)
		return c->label[i + 1].since_ns;
	return c->struck_ns >= l->since_ns ? c->struck_ns : now;
}

static bool is_now(const struct sp_thread_labels_copy *c, uint32_t i)
{
	return i + 1 == c->labels && c->struck_ns < c->label[i].since_ns;
}

void sp_label_parts_cut(const struct sp_thread_labels_copy *c, const struct sp_label_window *w,
			struct sp_label_parts *out)
{
	uint64_t now = w->until_ns;
	uint64_t at = w->from_ns;

	out->n = 0;
	out->window_ns = now - at;
	/* Numbers may wrap. */
	if (c->labels != 0 && (int32_t)(c->first - w->known) > 0) {
		at = clamp(c->label[0].since_ns, at, now);
		out->part[out->n++] = (struct sp_label_part){.ns = at - w->from_ns};
	}
	for (uint32_t i = 0; i < c->labels; i++) {
		const struct sp_thread_label *l = &c->label[i];
		uint64_t begin = clamp(l->since_ns, at, now);

		at = clamp(end_of(c, i, now), begin, now);
		if (!is_label(l))
			continue;
		out->part[out->n++] = (struct sp_label_part){
			.label = *l,
			.ns = at - begin,
			.is_first = w->had_label && c->first + i + 1 == w->known,
			.is_now = is_now(c, i),
		};
	}
}

static uint64_t share(uint64_t ns, uint64_t part, uint64_t whole)
{
	return whole != 0 ? (uint64_t)((unsigned __int128)ns * part / whole) : 0;
}

void sp_label_parts_divide(const struct sp_label_parts *p, const struct sp_spent *spent,
			   struct sp_split *out)
{
	uint64_t used = p->window_ns > spent->off_ns ? p->window_ns - spent->off_ns : 0;
	uint64_t used_other;

	out->quiet_ns = 0;
	for (unsigned i = 0; i < p->n; i++)
		out->quiet_ns += p->part[i].is_quiet ? p->part[i].ns : 0;
	out->other_ns = p->window_ns - out->quiet_ns;
	used_other = used < out->other_ns ? used : out->other_ns;
	out->other.delay_ns = share(spent->delay_ns, used_other, used);
	out->quiet.delay_ns = spent->delay_ns - out->other.delay_ns;
	out->other.off_ns = out->other_ns - used_other;
	out->quiet.off_ns = spent->off_ns -
			    (out->other.off_ns < spent->off_ns ? out->other.off_ns : spent->off_ns);
}

void sp_label_part_share(const struct sp_label_part *part, const struct sp_split *split,
			 struct sp_spent *out)
{
	const struct sp_spent *of = part->is_quiet ? &split->quiet : &split->other;
	uint64_t whole = part->is_quiet ? split->quiet_ns : split->other_ns;

	out->off_ns = share(of->off_ns, part->ns, whole);
	out->delay_ns = share(of->delay_ns, part->ns, whole);
}
