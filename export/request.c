/* SPDX-License-Identifier: Apache-2.0 */
/* Wraps and compresses a profile. Context: BG, and spanprof-probe. Callers: upload.c, the probe. */
#include "export/request.h"

#include <stdlib.h>
#include <string.h>

#include "export/gzip.h"
#include "export/ingest.h"
#include "export/pprof_request.h"

/* The profile stays plain inside the compressed request: compressing twice gains nothing. */
static int make_push(const struct sp_request *r, const struct sp_bytes *profile,
		     struct sp_message *out)
{
	struct sp_bytes envelope;
	int err = sp_pprof_request(r->series->label, r->series->n, r->id, profile, &envelope);

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
	/* The host's clock may have been set back meanwhile. */
	if (r->until_ns > r->from_ns)
		out->age_ns = (uint64_t)(r->until_ns - r->from_ns);
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
	memset(m, 0, sizeof(*m));
}
