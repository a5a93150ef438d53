/* SPDX-License-Identifier: Apache-2.0 */
/* Makes push.v1's PushRequest by protobuf-c. Context: the exporter. */
#include "export/profile/pprof_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "push.pb-c.h"

int sp_pprof_request(const struct sp_label *labels, size_t n, const char *id,
		     const struct sp_bytes *profile, struct sp_bytes *out)
{
	Spanprof__Push__PushRequest request = SPANPROF__PUSH__PUSH_REQUEST__INIT;
	Spanprof__Push__RawProfileSeries series = SPANPROF__PUSH__RAW_PROFILE_SERIES__INIT;
	Spanprof__Push__RawSample raw;
	Spanprof__Push__RawProfileSeries *all_series[] = {&series};
	Spanprof__Push__RawSample *all_raw[] = {&raw};
	Spanprof__Push__LabelPair *pairs = calloc(n + 1, sizeof(*pairs));
	Spanprof__Push__LabelPair **pair = calloc(n + 1, sizeof(*pair));
	int err = -ENOMEM;

	out->data = NULL;
	if (pairs == NULL || pair == NULL)
		goto out;
	for (size_t i = 0; i < n; i++) {
		spanprof__push__label_pair__init(&pairs[i]);
		/* protobuf-c's strings are not const, but packing only reads them. */
		memcpy(&pairs[i].name, &labels[i].name, sizeof(char *));
		memcpy(&pairs[i].value, &labels[i].value, sizeof(char *));
		pair[i] = &pairs[i];
	}
	spanprof__push__raw_sample__init(&raw);
	raw.raw_profile = (ProtobufCBinaryData){profile->len, profile->data};
	memcpy(&raw.id, &id, sizeof(char *));
	series.n_labels = n;
	series.labels = pair;
	series.n_samples = 1;
	series.samples = all_raw;
	request.n_series = 1;
	request.series = all_series;
	out->data = malloc(spanprof__push__push_request__get_packed_size(&request));
	if (out->data != NULL) {
		out->len = spanprof__push__push_request__pack(&request, out->data);
		err = 0;
	}
out:
	free(pairs);
	free(pair);
	return err;
}
