/* SPDX-License-Identifier: Apache-2.0 */
/* Short names of functions. short_names.sh checks that the page has the same names. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/short_name.h"

static struct sp_short_name name;

Test(short_name, leave_out_what_is_in_brackets)
{
	static const char *const names[][3] = {
		{"shop::(anonymous namespace)::Handler<shop::Json, std::allocator<char> >::handle("
		 "shop::Request const&)",
		 "shop::Handler::handle", "Handler::handle"},
		{"void std::__invoke_impl<void, F>(F&&)", "std::__invoke_impl",
		 "std::__invoke_impl"},
		{"a::B::get() const &", "a::B::get", "B::get"},
		{"a::b::Run::go(int)::{lambda(int)#1}::operator()(int) const",
		 "a::b::Run::go::{lambda#1}", "Run::go::{lambda#1}"},
		{"<alloc::vec::Vec<T> as core::ops::Drop>::drop", "alloc::vec::Vec::drop",
		 "Vec::drop"},
		{"bool a::operator<(a::b const&, a::b const&) [clone .cold]", "a::operator<",
		 "a::operator<"},
		{"a::b::c (src/deep/c.cc:12)", "a::b::c (c.cc:12)", "b::c (c.cc:12)"},
		{"f<(1", "f<(1", "f<(1"},
		{"[unsampled cpu]", "[unsampled cpu]", "[unsampled cpu]"},
		{"::", "::", "::"},
		{"", "", ""},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		sp_short_name(names[i][0], &name);
		cr_expect_str_eq(name.with_namespaces, names[i][1]);
		cr_expect_str_eq(name.last_parts, names[i][2]);
	}
}

/* For any name, a shorter limit gives no longer name. */
Test(short_name, of_anything_are_no_longer)
{
	static const char *const parts[] = {"operator", "<",  "<",        ">",    ">",
					    "(",        ")",  "::",       "::",   " ",
					    "->",       "{",  "}",        "a",    " as ",
					    "const",    " &", "[clone ",  "]",    ".",
					    "/",        " (", "\xc3\xa9", "::::", " && "};
	static char full[SP_SHORT_NAME_MAX + 1];

	srand(47);
	for (unsigned round = 0; round < 20000; round++) {
		/* Some names have the greatest length. */
		size_t most = round % 100 == 0 ? SP_SHORT_NAME_MAX : (size_t)(rand() % 60);
		size_t len = 0;

		for (;;) {
			const char *part =
				parts[(size_t)rand() % (sizeof(parts) / sizeof(parts[0]))];

			if (len + strlen(part) > most)
				break;
			memcpy(full + len, part, strlen(part));
			len += strlen(part);
		}
		full[len] = '\0';
		sp_short_name(full, &name);
		cr_assert_leq(strlen(name.with_namespaces), len, "%s", full);
		cr_assert_leq(strlen(name.last_parts), strlen(name.with_namespaces), "%s", full);
	}
}
