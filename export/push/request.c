/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a message of a profile, and compresses it. Context: the exporter. */
#include "export/push/request.h"

#include <stdlib.h>
#include <string.h>

#include "export/profile/gzip.h"
#include "export/profile/pprof_request.h"
#include "export/push/ingest.h"

/* The profile stays plain inside the compressed request: compressing twice gains nothing. */
static int make_push(const struct sp_request *r, const struct sp_bytes *profile,
		     struct sp_message *out)
{
	struct sp_label label[SP_SERIES_MAX];
	struct sp_bytes envelope;
	int err;

	memcpy(label, r->series->label, sizeof(label));
	for (size_t i = 0; i < r->series->n; i++)
		if (strcmp(label[i].name, "__name__") == 0)
			label[i].value = sp_profile_type_names(r->type)->series;
	err = sp_pprof_request(label, r->series->n, r->id, profile, &envelope);
	if (err != 0)
		return err;
	err = sp_gzip_pack(&envelope, &out->body);
	free(envelope.data);
	return err;
}

int sp_request_make(const struct sp_request *r, const struct sp_bytes *profile,
		    struct sp_message *out)
{
	int err;

	memset(out, 0, sizeof(*out));
	out->type = r->type;
	out->from_ns = r->from_ns;
	out->until_ns = r->until_ns;
	if (r->protocol == SP_PROTOCOL_PUSH)
		return make_push(r, profile, out);
	err = sp_ingest_query(r, &out->query);
	if (err == 0)
		err = sp_gzip_pack(profile, &out->body);
	if (err != 0)
		sp_message_fini(out);
	return err;
}

void sp_message_fini(struct sp_message *m)
{
	free(m->body.data);
	free(m->query);
	sp_interval_release(m->interval);
	memset(m, 0, sizeof(*m));
}
