/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the configuration: any environment gives a complete configuration within its bounds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/config/config_table.h"
#include "sampler/region/record.h"
#include "test/fuzz/fuzz.h"

#define VARIABLES_MAX 200U
#define ENTRIES_MAX 32U

static const char *name[VARIABLES_MAX];
static unsigned names;

static void add_name(const struct sp_config_help *h, void *arg)
{
	(void)arg;
	FUZZ_CHECK(names < VARIABLES_MAX);
	name[names++] = h->name;
}

/* A line whose first byte is no letter is one of our variables, by its number. */
static char *entry_of(const uint8_t *line, size_t len)
{
	const char *known = len != 0 && line[0] < 'A' ? name[line[0] % names] : "";
	char *entry = calloc(1, strlen(known) + len + 2);

	FUZZ_CHECK(entry != NULL);
	if (known[0] == '\0')
		memcpy(entry, line, len);
	else
		(void)sprintf(entry, "%s=%.*s", known, (int)len - 1, (const char *)line + 1);
	return entry;
}

/* With several servers each list of credentials has an element for each. */
static void check_list(const struct sp_config *c, const char *list)
{
	size_t len;

	FUZZ_CHECK(list == NULL || c->servers <= 1 ||
		   (sp_config_element(list, false, c->servers - 1, &len) != NULL &&
		    sp_config_element(list, false, c->servers, &len) == NULL));
}

static void check_servers(const struct sp_config *c)
{
	size_t len;

	FUZZ_CHECK((c->servers == 0) == (c->server_address == NULL));
	FUZZ_CHECK(c->servers <= SP_SERVERS_MAX);
	for (unsigned k = 0; k < c->servers; k++)
		FUZZ_CHECK(sp_config_element(c->server_address, true, k, &len) != NULL && len != 0);
	FUZZ_CHECK(c->servers <= 1 || c->http_headers == NULL);
	check_list(c, c->basic_auth_user);
	check_list(c, c->basic_auth_password);
	check_list(c, c->auth_token);
	check_list(c, c->auth_token_file);
	check_list(c, c->tenant_id);
	check_list(c, c->http_headers_file);
	check_list(c, c->tls_key_file);
}

static void check(const struct sp_config *c)
{
	check_servers(c);
	FUZZ_CHECK(c->sample_rate_hz >= 1 && c->sample_rate_hz <= 100000);
	FUZZ_CHECK(c->upload_interval_ms >= 1 && c->push_queue_capacity >= 1);
	FUZZ_CHECK(c->signal_number >= 0 && c->signal_number <= 64);
	FUZZ_CHECK(c->stack_depth >= 1 && c->stack_depth <= SP_FRAMES_MAX);
	FUZZ_CHECK(c->service_name != NULL && c->service_name[0] != '\0');
	FUZZ_CHECK(c->output_dir == NULL || c->output_dir[0] == '/');
	FUZZ_CHECK(c->add_profile_url || c->profile_url == NULL);
	FUZZ_CHECK(c->add_baseline_url || c->baseline_url == NULL);
	/* Each of these ends up in spans or in requests. */
	fuzz_no_controls(c->service_name);
	fuzz_no_controls(c->profile_url);
	fuzz_no_controls(c->profile_base_url);
	fuzz_no_controls(c->auth_token);
	fuzz_no_controls(c->tenant_id);
	fuzz_no_controls(c->labels);
	for (unsigned i = 0; i < SP_RESOURCE_LABELS_MAX && c->resource_label[i].key != NULL; i++) {
		FUZZ_CHECK(i < SP_RESOURCE_LABELS_MAX - 1);
		fuzz_no_controls(c->resource_label[i].key);
		fuzz_no_controls(c->resource_label[i].value);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *entry[ENTRIES_MAX + 1] = {NULL};
	struct sp_config config;
	unsigned n = 0;

	if (names == 0)
		sp_config_each(add_name, NULL);
	while (n < ENTRIES_MAX && size != 0) {
		const uint8_t *end = memchr(data, '\n', size);
		size_t len = end != NULL ? (size_t)(end - data) : size;

		entry[n++] = entry_of(data, len);
		data += len;
		size -= len;
		if (size != 0) {
			data++;
			size--;
		}
	}
	sp_config_capture(entry);
	/* The host may change its environment later. */
	for (unsigned i = 0; i < n; i++)
		free(entry[i]);
	(void)sp_config_disabled();
	(void)sp_config_says(SP_VAR_PROFILE, "always");
	sp_config_parse(&config);
	check(&config);
	return 0;
}
