/* SPDX-License-Identifier: Apache-2.0 */
/* For how many new addresses debug information is read again. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <unistd.h>

#include "export/symbols/debug_file.h"
#include "export/symbols/line_finder.h"
#include "export/util/clock.h"
#include "sampler/base/compiler.h"
#include "tiny_library.h"

static struct sp_modules *modules;
static struct sp_symbol_tables *tables;
static struct sp_line_cache cache = {.limit = 1 << 20};
static struct sp_line_finder *finder;
static const struct sp_module *module;
static char path[TINY_PATH_MAX];
static void *library;
static uint64_t outer;

static void set_up(void)
{
	static const struct sp_symbol_sources sources = {
		.debug_root = SP_DEBUG_ROOT,
		.symbols = true,
		.dwarf = true,
	};

	tiny_library("-g", path);
	library = dlopen(path, RTLD_NOW);
	cr_assert_not_null(library, "%s", dlerror());
	outer = (uintptr_t)dlsym(library, "outer");
	modules = sp_modules_new("/proc/self", -1);
	tables = sp_symbol_tables_new(&sources, 1 << 20);
	finder = sp_line_finder_new(tables, &cache, 1 << 20);
	cr_assert_eq(sp_modules_refresh(modules), 0);
	module = sp_modules_find(modules, outer, sp_modules_epoch(modules));
	cr_assert_not_null(module);
}

static void tear_down(void)
{
	sp_line_finder_free(finder);
	sp_symbol_tables_free(tables);
	sp_line_cache_clear(&cache);
	sp_modules_free(modules);
	if (library != NULL)
		dlclose(library);
	unlink(path);
}

TestSuite(line_finder, .init = set_up, .fini = tear_down);

/* Asks for n addresses from outer + from on. */
static void look_up(unsigned from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sp_line_finder_want(finder, module, outer - module->bias + from + i);
	while (sp_line_finder_step(finder, SP_NS_PER_S))
		;
	sp_line_finder_end(finder);
}

static bool is_known(unsigned offset)
{
	const struct sp_cached_line *line;
	unsigned n;

	return sp_line_cache_get(&cache, module->serial, outer - module->bias + offset, &line, &n);
}

/* As if reading had taken a second of CPU time, and had been so many seconds ago. */
static void read_ago(unsigned s)
{
	struct sp_symbol_table *t = sp_symbol_tables_peek(tables, module);

	t->dwarf_cost_ns = SP_NS_PER_S;
	t->dwarf_read_ns = sp_clock_mono_ns() - s * SP_NS_PER_S;
}

Test(line_finder, knows_what_reading_cost, .timeout = 20)
{
	look_up(0, 1);

	cr_assert(is_known(0));
	cr_expect_gt(sp_symbol_tables_peek(tables, module)->dwarf_cost_ns, 0);
	cr_expect_gt(sp_symbol_tables_peek(tables, module)->dwarf_read_ns, 0);
}

Test(line_finder, puts_off_costly_reading_for_few_addresses, .timeout = 20)
{
	look_up(0, 1);
	read_ago(100);
	look_up(1, 10);

	cr_expect_not(is_known(1));
	cr_expect_eq(sp_line_finder_late(finder), 10);
}

/* As if the library's debug information were in a file of its own, and large. */
static void look_up_in_large_file(unsigned from, unsigned n)
{
	struct sp_symbol_table *t;

	look_up(0, 1);
	t = sp_symbol_tables_peek(tables, module);
	t->dwarf_cost_ns = 0;
	t->dwarf_apart = true;
	t->dwarf_need = (uint64_t)100 << 20;
	look_up(from, n);
}

Test(line_finder, leaves_dear_debug_files_alone_when_told_so, .timeout = 20)
{
	sp_line_finder_spend(finder, 100 * SP_NS_PER_MS);
	look_up_in_large_file(1, 3);

	cr_expect_not(is_known(1));
	cr_expect_eq(sp_line_finder_late(finder), 3);

	sp_line_finder_spend(finder, UINT64_MAX);
	look_up(1, 3);

	cr_expect(is_known(1), "left alone for good");
	cr_expect_eq(sp_line_finder_late(finder), 3);
}

Test(line_finder, reads_debug_files_that_are_worth_it, .timeout = 20)
{
	sp_line_finder_spend(finder, SP_NS_PER_S);
	look_up_in_large_file(1, 3);

	cr_expect(is_known(1));
	cr_expect_eq(sp_line_finder_late(finder), 0);
}

Test(line_finder, reads_what_the_object_itself_holds, .timeout = 20)
{
	sp_line_finder_spend(finder, 0);
	look_up(0, 1);

	cr_expect(is_known(0));
	cr_expect_eq(sp_line_finder_late(finder), 0);
}

Test(line_finder, reads_small_debug_files, .timeout = 20)
{
	sp_line_finder_spend(finder, 0);
	look_up(0, 1);
	sp_symbol_tables_peek(tables, module)->dwarf_cost_ns = 0;
	sp_symbol_tables_peek(tables, module)->dwarf_apart = true;
	look_up(1, 1);

	cr_expect(is_known(1));
	cr_expect_gt(sp_symbol_tables_peek(tables, module)->dwarf_need, 0);
}

Test(line_finder, counts_once_what_is_asked_for_in_several_rounds, .timeout = 20)
{
	look_up(0, 1);
	read_ago(100);
	for (unsigned round = 0; round < 3; round++) {
		sp_line_finder_want(finder, module, outer - module->bias + 1);
		cr_expect_not(sp_line_finder_step(finder, SP_NS_PER_S));
	}
	sp_line_finder_end(finder);

	cr_expect_eq(sp_line_finder_late(finder), 1);
}

Test(line_finder, reads_again_for_as_many_addresses_as_are_worth_it, .timeout = 20)
{
	look_up(0, 1);
	read_ago(300);
	look_up(1, 10);
	read_ago(3000);
	look_up(11, 1);

	cr_expect(is_known(1));
	cr_expect(is_known(11));
	cr_expect_eq(sp_line_finder_late(finder), 0);
}

Test(line_finder, reads_debug_files_again_more_seldom, .timeout = 20)
{
	look_up(0, 1);
	sp_symbol_tables_peek(tables, module)->dwarf_apart = true;
	read_ago(900);
	look_up(1, 10);

	cr_expect_not(is_known(1));

	read_ago(1100);
	look_up(1, 10);

	cr_expect(is_known(1));
}

Test(line_finder, reads_again_at_once_what_is_cheap, .timeout = 20)
{
	look_up(0, 1);
	sp_symbol_tables_peek(tables, module)->dwarf_cost_ns = SP_NS_PER_MS;
	look_up(1, 1);

	cr_expect(is_known(1));
}
