/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes heads of requests to spanprof-report --serve: what is accepted is a GET of a short path, and
 * its pairs are texts.
 */
#include <stdint.h>
#include <stdio.h>

#include "export/report/get.h"
#include "test/fuzz/fuzz.h"

static void read_pairs(char *query)
{
	char *key, *value;
	int found;

	while ((found = sp_get_pair(&query, &key, &value)) > 0)
		FUZZ_CHECK(strlen(key) + strlen(value) < SP_GET_HEAD_MAX);
	FUZZ_CHECK(found == 0 || found == -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = size < SP_GET_HEAD_MAX ? size : SP_GET_HEAD_MAX;
	char *head = malloc(len + 1);
	char *query;
	struct sp_get get;
	int status;

	FUZZ_CHECK(head != NULL);
	memcpy(head, data, len);
	head[len] = '\0';
	status = sp_get_is_whole(head, len) ? sp_get_parse(head, len, &get) : 400;
	FUZZ_CHECK(status == 200 || status == 400 || status == 403 || status == 404 ||
		   status == 405);
	if (status == 200) {
		FUZZ_CHECK(strncmp(head, "GET", 4) == 0 && get.path[0] == '/');
		FUZZ_CHECK(strpbrk(get.path, "?# \r\n") == NULL);
		read_pairs(get.query);
	}
	/* Also as a query alone. */
	memcpy(head, data, len);
	head[len] = '\0';
	query = head;
	read_pairs(query);
	free(head);
	return 0;
}
