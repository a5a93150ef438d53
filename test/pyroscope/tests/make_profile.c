/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pyroscope-profile: writes a small profile for the end-to-end test of the double to stdout.
 *   pyroscope-profile pprof|gzip|request SERVICE [COUNT SPAN_ID SPAN_NAME TRACE_ID]...
 * "-" leaves a label out; COUNT are samples of 10 ms. request is a PushRequest with gzip inside.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/pyroscope/tests/builder.h"

static const char *or_null(const char *arg)
{
	return strcmp(arg, "-") == 0 ? NULL : arg;
}

int main(int argc, char **argv)
{
	const char *labels[] = {"__name__", "process_cpu", "service_name", NULL, NULL};
	struct pb_profile p;
	struct timespec now;
	struct pd_text plain;
	struct pd_text zipped;
	struct pd_text request;
	const struct pd_text *out = NULL;

	if (argc < 3 || (argc - 3) % 4 != 0) {
		fputs("usage: pyroscope-profile pprof|gzip|request SERVICE "
		      "[COUNT SPAN_ID SPAN_NAME TRACE_ID]...\n",
		      stderr);
		return 2;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	pb_start(&p, now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
	for (int i = 3; i + 3 < argc; i += 4)
		pb_span(&p, strtoll(argv[i], NULL, 10), or_null(argv[i + 1]), or_null(argv[i + 2]),
			or_null(argv[i + 3]));
	plain = pb_finish(&p);
	zipped = pb_gzip(&plain);
	labels[3] = argv[2];
	request = pb_request(labels, pd_text_bytes(&zipped));
	if (strcmp(argv[1], "request") == 0)
		out = &request;
	else
		out = strcmp(argv[1], "gzip") == 0 ? &zipped : &plain;
	return fwrite(out->at, 1, out->len, stdout) == out->len ? 0 : 1;
}
