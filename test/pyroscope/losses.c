/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums and JSON of the counted silent changes; see losses.h.
 */
#include "test/pyroscope/losses.h"

void pd_losses_add(struct pd_losses *to, const struct pd_losses *more)
{
#define ADD(name) to->name += more->name;
	PD_FOR_EACH_LOSS(ADD)
	PD_FOR_EACH_NOTE(ADD)
#undef ADD
}

uint64_t pd_losses_total(const struct pd_losses *l)
{
	uint64_t total = 0;

#define SUM(name) total += l->name;
	PD_FOR_EACH_LOSS(SUM)
#undef SUM
	return total;
}

json_t *pd_losses_json(const struct pd_losses *l)
{
	json_t *j = json_object();

#define PUT(name) json_object_set_new(j, #name, json_integer((json_int_t)l->name));
	PD_FOR_EACH_LOSS(PUT)
	json_object_set_new(j, "total", json_integer((json_int_t)pd_losses_total(l)));
	return j;
}

json_t *pd_losses_notes_json(const struct pd_losses *l)
{
	json_t *j = json_object();

	PD_FOR_EACH_NOTE(PUT)
#undef PUT
	return j;
}
