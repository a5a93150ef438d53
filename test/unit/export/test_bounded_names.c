/* SPDX-License-Identifier: Apache-2.0 */
/* Names of threads as labels: one id per text, valid UTF-8, and a bound. */
#include "export/profile/bounded_names.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core_double.h"

static struct sp_bounded_names *names;
static bool over;

static void start(void)
{
	core_reset();
	names = sp_thread_names_new(&core.ops);
	cr_assert_not_null(names);
}

static void end(void)
{
	sp_bounded_names_free(names);
}

TestSuite(thread_names, .init = start, .fini = end, .timeout = 20);

static uint32_t put(const char *name)
{
	char raw[SP_THREAD_NAME_BYTES] = "";
	uint32_t id;

	memcpy(raw, name, strnlen(name, SP_THREAD_NAME_BYTES));
	core.counter[SP_COUNT_THREAD_NAMES_OTHER] = 0;
	id = sp_thread_names_put(names, raw);
	over = core.counter[SP_COUNT_THREAD_NAMES_OTHER] == 1;
	return id;
}

static void expect_text(uint32_t id, const char *text)
{
	size_t len;
	const char *got = sp_thread_names_text(names, id, &len);

	cr_expect_eq(len, strlen(text));
	cr_expect_arr_eq(got, text, len, "%.*s", (int)len, got);
}

Test(thread_names, have_one_id_each)
{
	uint32_t worker = put("worker");
	uint32_t other = put("worker2");

	cr_expect_neq(worker, other);
	cr_expect_eq(put("worker"), worker);
	expect_text(worker, "worker");
	expect_text(other, "worker2");
	cr_expect_not(over);
}

Test(thread_names, are_never_empty)
{
	cr_expect_eq(put(""), 0);
	expect_text(0, "(unknown)");
	expect_text(4711, "(unknown)");
	cr_expect_not(over);
}

Test(thread_names, become_valid_text_before_they_are_compared)
{
	uint32_t id = put("caf\xe9");

	expect_text(id, "caf\xef\xbf\xbd");
	cr_expect_eq(put("caf\xff"), id);
	expect_text(put("\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xff\xff\xff\xff\xff\xff\xff"),
		    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
		    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
		    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	expect_text(put("fifteen-bytes-x"), "fifteen-bytes-x");
	/* without its NUL, which the kernel never leaves out */
	expect_text(put("sixteen-bytes-xy"), "sixteen-bytes-x");
}

Test(thread_names, past_the_limit_are_other_and_told)
{
	uint32_t first = put("worker-0");
	char name[SP_THREAD_NAME_BYTES];

	for (unsigned i = 1; i < SP_THREAD_NAMES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "worker-%u", i);
		expect_text(put(name), name);
		cr_assert_not(over);
	}
	expect_text(put("one more"), "(other)");
	cr_expect(over);
	cr_expect_eq(put("worker-0"), first, "known ones stay");
	cr_expect_not(over);
	cr_expect_eq(put(""), 0);
	expect_text(put("another"), "(other)");
	cr_expect(over);
}
