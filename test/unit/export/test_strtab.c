/* SPDX-License-Identifier: Apache-2.0 */
/* Interning. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "export/util/containers.h"

static uint32_t put(struct sp_strtab *t, const char *s)
{
	uint32_t id = UINT32_MAX;

	cr_assert_eq(sp_strtab_put(t, s, strlen(s), &id), 0);
	return id;
}

Test(strtab, starts_with_the_empty_string, .timeout = 20)
{
	struct sp_strtab t;
	size_t len = 99;

	cr_assert_eq(sp_strtab_init(&t), 0);

	cr_expect_eq(t.n, 1);
	cr_expect_str_eq(sp_strtab_get(&t, 0, &len), "");
	cr_expect_eq(len, 0);
	cr_expect_eq(put(&t, ""), 0);
	sp_strtab_fini(&t);
}

Test(strtab, gives_equal_texts_equal_ids_while_it_grows, .timeout = 20)
{
	struct sp_strtab t;
	char text[32];
	size_t len;

	cr_assert_eq(sp_strtab_init(&t), 0);
	for (uint32_t i = 1; i <= 5000; i++) {
		(void)snprintf(text, sizeof(text), "function_%u", i);
		cr_assert_eq(put(&t, text), i);
	}

	for (uint32_t i = 1; i <= 5000; i++) {
		(void)snprintf(text, sizeof(text), "function_%u", i);
		cr_assert_eq(put(&t, text), i);
		cr_assert_str_eq(sp_strtab_get(&t, i, &len), text);
		cr_assert_eq(len, strlen(text));
	}
	cr_expect_eq(t.n, 5001);
	sp_strtab_fini(&t);
}

Test(strtab, cut_forgets_the_newest, .timeout = 20)
{
	struct sp_strtab t;
	size_t len;

	cr_assert_eq(sp_strtab_init(&t), 0);
	put(&t, "kept");
	put(&t, "forgotten");

	sp_strtab_cut(&t, 2);

	cr_expect_eq(t.n, 2);
	cr_expect_eq(t.used, strlen("kept") + 2);
	cr_expect_str_eq(sp_strtab_get(&t, 1, &len), "kept");
	sp_strtab_fini(&t);
}
