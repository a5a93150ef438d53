/* SPDX-License-Identifier: Apache-2.0 */
/* The double's reader of protobuf's wire format. */
#include "test/pyroscope/wire.h"

#include <criterion/criterion.h>
#include <errno.h>

static struct pd_bytes bytes(const char *s, size_t len)
{
	return (struct pd_bytes){(const uint8_t *)s, len};
}

#define BYTES(s) bytes(s, sizeof(s) - 1)

Test(wire, reads_every_type, .timeout = 20)
{
	struct pd_bytes in = BYTES("\x08\x96\x01"
				   "\x11\x01\x00\x00\x00\x00\x00\x00\x80"
				   "\x1a\x02hi"
				   "\x25\x02\x00\x00\x00");
	struct pd_field f;

	cr_assert_eq(pd_wire_next(&in, &f), 1);
	cr_assert(f.number == 1 && f.type == PD_WIRE_VARINT && f.value == 150);
	cr_assert_eq(pd_wire_next(&in, &f), 1);
	cr_assert(f.number == 2 && f.type == PD_WIRE_FIXED64 && f.value == 0x8000000000000001);
	cr_assert_eq(pd_wire_next(&in, &f), 1);
	cr_assert(f.number == 3 && f.type == PD_WIRE_BYTES && pd_bytes_is(f.bytes, "hi"));
	cr_assert_eq(pd_wire_next(&in, &f), 1);
	cr_assert(f.number == 4 && f.type == PD_WIRE_FIXED32 && f.value == 2);
	cr_assert_eq(pd_wire_next(&in, &f), 0);
}

Test(wire, reads_the_largest_number_and_refuses_larger, .timeout = 20)
{
	struct pd_bytes good = BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	struct pd_bytes large = BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
	struct pd_bytes longer = BYTES("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");
	struct pd_field f;

	cr_assert_eq(pd_wire_next(&good, &f), 1);
	cr_assert_eq(f.value, UINT64_MAX);
	cr_assert_eq(pd_wire_next(&large, &f), -EBADMSG);
	cr_assert_eq(pd_wire_next(&longer, &f), -EBADMSG);
}

Test(wire, refuses_what_is_not_protobuf, .timeout = 20)
{
	static const struct {
		const char *text;
		size_t len;
	} bad[] = {
		{"\x08", 1},      /* no value */
		{"\x08\x80", 2},  /* half a value */
		{"\x00\x01", 2},  /* field 0 */
		{"\x0b", 1},      /* group */
		{"\x0c", 1},      /* end of group */
		{"\x0e\x01", 2},  /* no such type */
		{"\x0a\x02x", 3}, /* longer than the message */
		{"\x09\0\0\0\0\0\0\0", 8},
		{"\x0d\0\0\0", 4},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pd_bytes in = bytes(bad[i].text, bad[i].len);
		struct pd_field f;

		cr_expect_eq(pd_wire_next(&in, &f), -EBADMSG, "case %zu", i);
		cr_expect_eq(pd_wire_count(bytes(bad[i].text, bad[i].len), 1), -EBADMSG);
	}
}

Test(wire, reads_numbers_packed_and_unpacked_together, .timeout = 20)
{
	struct pd_bytes in = BYTES("\x08\x01"
				   "\x0a\x03\x02\x80\x01"
				   "\x10\x63"
				   "\x0a\x00"
				   "\x08\x03");
	struct pd_arena a = {0};
	uint64_t *values = NULL;
	size_t count = 0;

	cr_assert_eq(pd_wire_numbers(&a, in, 1, &values, &count), 0);

	cr_assert_eq(count, 4);
	cr_assert(values[0] == 1 && values[1] == 2 && values[2] == 128 && values[3] == 3);
	pd_arena_fini(&a);
}

Test(wire, refuses_numbers_that_end_half_way, .timeout = 20)
{
	struct pd_arena a = {0};
	uint64_t *values = NULL;
	size_t count = 0;

	cr_assert_eq(pd_wire_numbers(&a, BYTES("\x0a\x02\x01\x80"), 1, &values, &count), -EBADMSG);
	cr_assert_eq(pd_wire_numbers(&a, BYTES("\x0a\x01\x80"), 1, &values, &count), -EBADMSG);
	cr_assert_eq(pd_wire_numbers(&a, BYTES("\x0d\0\0\0\0"), 1, &values, &count), -EBADMSG);
	pd_arena_fini(&a);
}

Test(wire, message_takes_the_last_value_and_skips_the_unknown, .timeout = 20)
{
	uint64_t v[4] = {0};

	cr_assert_eq(pd_wire_message(BYTES("\x08\x01\x12\x01x\x08\x02\x50\x07"), v, 3, 1 << 2), 0);
	cr_assert_eq(v[1], 2);
	cr_assert_eq(pd_wire_message(BYTES("\x12\x01x"), v, 3, 0), -EBADMSG);
}
