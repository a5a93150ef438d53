/* SPDX-License-Identifier: Apache-2.0 */
/* Compression and expansion, and damaged input. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/gzip.h"

static uint8_t *pattern(size_t len)
{
	uint8_t *data = malloc(len + 1);

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * i >> 7);
	return data;
}

Test(gzip, gives_back_what_it_took, .timeout = 20)
{
	static const size_t len[] = {0, 1, 1000, 65536, 3000000};

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		const struct sp_bytes in = {pattern(len[i]), len[i]};
		struct sp_bytes packed, out;

		cr_assert_eq(sp_gzip_pack(&in, &packed), 0);
		cr_expect(sp_gzip_is(packed.data, packed.len));
		cr_assert_eq(sp_gzip_unpack(packed.data, packed.len, len[i], &out), 0);
		cr_assert_eq(out.len, len[i]);
		cr_expect_eq(memcmp(out.data, in.data, len[i]), 0);
		free(in.data);
		free(packed.data);
		free(out.data);
	}
}

/* gzip itself reads the result, in one member. */
static void join_and_read(const size_t *len, size_t n)
{
	struct sp_bytes packed[4], joined, out;
	const struct sp_bytes *part[4];
	size_t all = 0;

	for (size_t i = 0; i < n; i++) {
		const struct sp_bytes in = {pattern(len[i]), len[i]};

		cr_assert_eq(sp_gzip_pack(&in, &packed[i]), 0);
		part[i] = &packed[i];
		all += len[i];
		free(in.data);
	}
	cr_assert_eq(sp_gzip_join(part, n, &joined), 0);
	cr_assert_eq(sp_gzip_unpack(joined.data, joined.len, all, &out), 0);
	cr_assert_eq(out.len, all);
	for (size_t i = 0, at = 0; i < n; at += len[i++]) {
		uint8_t *in = pattern(len[i]);

		cr_expect_eq(memcmp(out.data + at, in, len[i]), 0, "%zu", i);
		free(in);
		free(packed[i].data);
	}
	free(out.data);
	cr_expect_eq(sp_gzip_unpack(joined.data, joined.len - 1, all, &out), -EINVAL);
	/* Behind the end of one member there may only be another one. */
	joined.data = realloc(joined.data, joined.len + 1);
	joined.data[joined.len] = 0;
	cr_expect_eq(sp_gzip_unpack(joined.data, joined.len + 1, all, &out), -EBADMSG);
	free(joined.data);
}

Test(gzip, joins_files_to_one_member, .timeout = 20)
{
	join_and_read((const size_t[]){1000}, 1);
	join_and_read((const size_t[]){0, 0}, 2);
	join_and_read((const size_t[]){1, 70000, 0, 300000}, 4);
	join_and_read((const size_t[]){300000, 7, 12345, 1}, 4);
}

Test(gzip, joins_only_what_it_has_packed, .timeout = 20)
{
	const struct sp_bytes in = {pattern(5000), 5000};
	struct sp_bytes packed, out;
	const struct sp_bytes *part[2] = {&packed, &packed};

	cr_assert_eq(sp_gzip_pack(&in, &packed), 0);
	cr_expect_eq(sp_gzip_join(part, 0, &out), -EINVAL);
	packed.len--;
	cr_expect_eq(sp_gzip_join(part, 2, &out), -EINVAL);
	packed.len++;
	packed.data[3] = 8; /* a name follows */
	cr_expect_eq(sp_gzip_join(part, 2, &out), -EINVAL);
	packed.data[3] = 0;
	packed.len = 19;
	cr_expect_eq(sp_gzip_join(part, 2, &out), -EINVAL);
	packed.len = 0;
	cr_expect_eq(sp_gzip_join(part, 1, &out), -EINVAL);
	cr_expect_null(out.data);
	free(packed.data);
	free(in.data);
}

Test(gzip, stops_at_the_bound, .timeout = 20)
{
	const struct sp_bytes in = {pattern(100000), 100000};
	struct sp_bytes packed, out;

	cr_assert_eq(sp_gzip_pack(&in, &packed), 0);
	cr_expect_eq(sp_gzip_unpack(packed.data, packed.len, 99999, &out), -E2BIG);
	cr_expect_null(out.data);
	cr_expect_eq(sp_gzip_unpack(packed.data, packed.len, 100000, &out), 0);
	free(out.data);
	free(packed.data);
	free(in.data);
}

Test(gzip, refuses_damage, .timeout = 20)
{
	const struct sp_bytes in = {pattern(5000), 5000};
	struct sp_bytes packed, out;

	cr_assert_eq(sp_gzip_pack(&in, &packed), 0);
	for (size_t len = 0; len < packed.len; len++)
		cr_assert_eq(sp_gzip_unpack(packed.data, len, 10000, &out), -EINVAL, "%zu", len);
	packed.data[packed.len - 6] ^= 1; /* an error in the checksum */
	cr_expect_eq(sp_gzip_unpack(packed.data, packed.len, 10000, &out), -EINVAL);
	cr_expect_not(sp_gzip_is((const uint8_t *)"\x1f", 1));
	free(packed.data);
	free(in.data);
}

Test(gzip, reads_all_members_and_nothing_else, .timeout = 20)
{
	const struct sp_bytes in = {pattern(5000), 5000};
	struct sp_bytes packed, out;
	uint8_t *both;

	cr_assert_eq(sp_gzip_pack(&in, &packed), 0);
	both = malloc(packed.len * 2);
	memcpy(both, packed.data, packed.len);
	memcpy(both + packed.len, packed.data, packed.len);
	cr_assert_eq(sp_gzip_unpack(both, packed.len * 2, 10000, &out), 0);
	cr_assert_eq(out.len, 10000);
	cr_expect_eq(memcmp(out.data, in.data, 5000), 0);
	cr_expect_eq(memcmp(out.data + 5000, in.data, 5000), 0);
	free(out.data);
	cr_expect_eq(sp_gzip_unpack(both, packed.len * 2, 9999, &out), -E2BIG);
	cr_expect_eq(sp_gzip_unpack(both, packed.len * 2 - 1, 10000, &out), -EINVAL);
	for (size_t len = 1; len < packed.len; len++)
		cr_expect_neq(sp_gzip_unpack(both, packed.len + len, 10000, &out), 0);
	memset(both + packed.len, 0, packed.len);
	cr_expect_eq(sp_gzip_unpack(both, packed.len * 2, 10000, &out), -EBADMSG);
	cr_expect_eq(sp_gzip_unpack(both, packed.len + 1, 10000, &out), -EBADMSG);
	cr_expect_null(out.data);
	free(both);
	free(packed.data);
	free(in.data);
}
