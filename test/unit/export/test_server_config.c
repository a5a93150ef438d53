/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of one of several servers: its element of each list, and no element of another
 * server.
 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "export/push/server_config.h"

static const size_t lists[] = {
	offsetof(struct sp_config, server_address),
	offsetof(struct sp_config, basic_auth_user),
	offsetof(struct sp_config, basic_auth_user_file),
	offsetof(struct sp_config, basic_auth_password),
	offsetof(struct sp_config, basic_auth_password_file),
	offsetof(struct sp_config, auth_token),
	offsetof(struct sp_config, auth_token_file),
	offsetof(struct sp_config, tenant_id),
	offsetof(struct sp_config, tenant_id_file),
	offsetof(struct sp_config, http_headers_file),
	offsetof(struct sp_config, tls_cert_file),
	offsetof(struct sp_config, tls_key_file),
};
#define LISTS (sizeof(lists) / sizeof(lists[0]))

static const char **text(struct sp_config *c, size_t i)
{
	return (const char **)(void *)((char *)c + lists[i]);
}

/* With elements "<member>a", none and "<member>c". */
static struct sp_config config_of_three(char storage[LISTS][64])
{
	struct sp_config c = {.servers = 3, .tls_ca_file = "/ca", .http_headers = "{}"};

	for (size_t i = 0; i < LISTS; i++) {
		(void)snprintf(storage[i], 64, "%zua,,%zuc", i, i);
		if (i == 0)
			strcpy(storage[i], "http://a,http://b,http://c");
		*text(&c, i) = storage[i];
	}
	return c;
}

Test(server_config, each_has_its_own_elements, .timeout = 20)
{
	char storage[LISTS][64];
	const struct sp_config c = config_of_three(storage);

	for (unsigned k = 0; k < 3; k++) {
		struct sp_server_config s;
		char want[32];

		cr_assert_eq(sp_server_config_make(&c, k, &s), 0);
		for (size_t i = 0; i < LISTS; i++) {
			const char *got = *text(&s.config, i);

			if (i == 0)
				(void)snprintf(want, sizeof(want), "http://%c", 'a' + (int)k);
			else
				(void)snprintf(want, sizeof(want), "%zu%c", i, 'a' + (int)k);
			if (i != 0 && k == 1)
				cr_expect_null(got, "%zu: %s", i, got);
			else
				cr_expect_str_eq(got, want, "%zu: %s", i, got);
		}
		cr_expect_eq(s.config.servers, 1);
		cr_expect_null(s.config.http_headers);
		cr_expect_str_eq(s.config.tls_ca_file, "/ca");
		sp_server_config_fini(&s);
	}
}

/* No pointer that could be a list is left out. */
Test(server_config, nothing_of_a_list_is_left, .timeout = 20)
{
	char storage[LISTS][64];
	const struct sp_config c = config_of_three(storage);
	struct sp_server_config s;

	cr_assert_eq(sp_server_config_make(&c, 0, &s), 0);
	for (size_t at = 0; at + sizeof(char *) <= sizeof(s.config); at += sizeof(char *)) {
		char *p;

		memcpy(&p, (char *)&s.config + at, sizeof(p));
		cr_expect(p < storage[0] || p >= storage[0] + sizeof(storage),
			  "the member at %zu is a list", at);
	}
	sp_server_config_fini(&s);
}

/* Fewer elements than servers cannot come out of the configuration. What is missing is none then, not the first one. */
Test(server_config, a_missing_element_is_none, .timeout = 20)
{
	const struct sp_config c = {
		.servers = 2, .server_address = "http://a,http://b", .auth_token = "one"};
	struct sp_server_config s;

	cr_assert_eq(sp_server_config_make(&c, 1, &s), 0);
	cr_expect_str_eq(s.config.server_address, "http://b");
	cr_expect_null(s.config.auth_token);
	sp_server_config_fini(&s);
}

Test(server_config, the_only_server_has_all_as_it_is, .timeout = 20)
{
	const struct sp_config c = {.servers = 1,
				    .server_address = "http://u:p,w@h",
				    .auth_token = "a,b",
				    .http_headers = "{}"};
	struct sp_server_config s;

	cr_assert_eq(sp_server_config_make(&c, 0, &s), 0);
	cr_expect_str_eq(s.config.server_address, "http://u:p,w@h");
	cr_expect_str_eq(s.config.auth_token, "a,b");
	cr_expect_str_eq(s.config.http_headers, "{}");
	sp_server_config_fini(&s);
	cr_expect_null(s.text[0]);
}
