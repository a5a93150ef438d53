/* SPDX-License-Identifier: Apache-2.0 */
/* Perf maps: the exporter reads the right file, uses the lines of the right form, and names frames by them. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/objects/perf_map.h"
#include "export/symbols/symbolize.h"
#include "test/unit/emulated.h"

static char path[64];

static void set_up(void)
{
	(void)snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	(void)unlink(path);
}

static void tear_down(void)
{
	(void)unlink(path);
}

TestSuite(perf_map, .init = set_up, .fini = tear_down);

static void write_map(const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
}

/* Writes each line that was passed on as a line of text. */
static void list(void *arg, uint64_t start, uint64_t end, const char *name, size_t len)
{
	(void)fprintf(arg, "%llx-%llx %.*s\n", (unsigned long long)start, (unsigned long long)end,
		      (int)len, name);
}

static char *contents(size_t *lines)
{
	int fd = sp_perf_map_open("/proc/self");
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	cr_assert_geq(fd, 0);
	cr_assert_not_null(out);
	sp_perf_map_read(fd, list, out);
	close(fd);
	(void)fclose(out);
	*lines = 0;
	for (size_t i = 0; i < len; i++)
		*lines += text[i] == '\n';
	return text;
}

Test(perf_map, hands_over_the_lines_of_the_right_form, .timeout = 20)
{
	static const char map[] = "1000 20 py::handle_order:/srv/a b.py\n"
				  "0x2000 0x10 with prefix\n"
				  "\n"
				  "3000\n"
				  "3000 \n"
				  "3000 10\n"
				  "3000 0 empty\n"
				  "3000 zz no number\n"
				  "zz 10 no number\n"
				  "fffffffffffffff0 20 beyond the end\n"
				  "11112222333344445 10 more than 64 bits\n"
				  "4000 8 last\n"
				  "5000 8 not yet whole";
	size_t lines;
	char *text;

	write_map(map, sizeof(map) - 1);

	text = contents(&lines);
	cr_expect_str_eq(text, "1000-1020 py::handle_order:/srv/a b.py\n"
			       "2000-2010 with prefix\n"
			       "4000-4008 last\n");
	free(text);
}

Test(perf_map, passes_over_a_line_without_end_and_takes_what_follows, .timeout = 20)
{
	size_t lines, len = (size_t)200 << 10;
	char *map = malloc(len + 64);
	char *text;
	int n;

	cr_assert_not_null(map);
	n = sprintf(map, "1000 10 first\n2000 10 ");
	memset(map + n, 'x', len - (size_t)n);
	len += (size_t)sprintf(map + len, "\n3000 10 last\n");
	write_map(map, len);

	text = contents(&lines);
	cr_expect_str_eq(text, "1000-1010 first\n3000-3010 last\n");
	free(text);
	free(map);
}

Test(perf_map, reads_every_line_of_a_file_of_many_pieces, .timeout = 20)
{
	FILE *out = fopen(path, "we");
	size_t lines;
	char *text;

	cr_assert_not_null(out);
	for (unsigned i = 1; i <= 20000; i++)
		(void)fprintf(out, "%x0 10 function number %u\n", i, i);
	cr_assert_eq(fclose(out), 0);

	text = contents(&lines);
	cr_expect_eq(lines, 20000);
	cr_expect_not_null(strstr(text, "\n4e200-4e210 function number 20000\n"));
	free(text);
}

Test(perf_map, reads_the_newest_part_of_a_file_that_is_too_large, .timeout = 60)
{
	const off_t hole = (off_t)65 << 20;
	static const char first[] = "1000 10 first\n";
	static const char last[] = "\n3000 10 last\n";
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	size_t lines;
	char *text;

	cr_assert_eq(pwrite(fd, first, sizeof(first) - 1, 0), (ssize_t)sizeof(first) - 1);
	cr_assert_eq(pwrite(fd, last, sizeof(last) - 1, hole), (ssize_t)sizeof(last) - 1);
	close(fd);

	text = contents(&lines);
	cr_expect_str_eq(text, "3000-3010 last\n");
	free(text);
}

Test(perf_map, reads_only_a_regular_file_of_the_user_of_the_process, .timeout = 20)
{
	cr_expect_eq(sp_perf_map_open("/proc/self"), -ENOENT);
	cr_assert_eq(symlink("/proc/self/status", path), 0);
	cr_expect_eq(sp_perf_map_open("/proc/self"), -ELOOP);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(sp_perf_map_open("/proc/self"), -EPERM);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_expect_eq(sp_perf_map_open("/proc/self"), -EPERM);
	cr_assert_eq(rmdir(path), 0);
	write_map("1000 10 mine\n", 13);
	if (geteuid() != 0)
		cr_skip_test("only root can give a file away");
	cr_assert_eq(chown(path, 65534, 65534), 0);
	cr_expect_eq(sp_perf_map_open("/proc/self"), -EPERM);
	cr_expect_eq(sp_perf_map_open("/proc/1/no such folder"), -ESRCH);
}

/* Addresses and their names, as a profile asks for them. */
struct asked {
	struct sp_modules *modules, *copy;
	struct sp_symbolizer *symbolizer;
};

static void begin(struct asked *a)
{
	a->modules = sp_modules_new("/proc/self", -1);
	cr_assert_eq(sp_modules_refresh(a->modules), 0);
	a->copy = sp_modules_copy(a->modules);
	cr_assert_not_null(a->copy);
	a->symbolizer = sp_symbolizer_new(a->copy, &sp_symbolizer_options_default);
	cr_assert_not_null(a->symbolizer);
}

static void want(struct asked *a, const uint64_t *pc, unsigned n)
{
	sp_symbolizer_begin(a->symbolizer);
	for (unsigned i = 0; i < n; i++)
		sp_symbolizer_want(a->symbolizer, pc[i], sp_modules_epoch(a->copy));
	while (sp_symbolizer_step(a->symbolizer, 1000000))
		;
	sp_symbolizer_end(a->symbolizer);
}

static const char *name_of(const struct asked *a, uint64_t pc)
{
	struct sp_frame f;

	sp_symbolize(a->symbolizer, pc, sp_modules_epoch(a->copy), &f);
	cr_expect_str_eq(f.name, f.line[f.lines - 1].name);
	return f.name;
}

static void end(const struct asked *a)
{
	sp_symbolizer_free(a->symbolizer);
	sp_modules_free(a->copy);
	sp_modules_free(a->modules);
}

Test(perf_map, names_generated_code, .timeout = 20)
{
	uint64_t code = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Unordered, and the first one twice. */
	const uint64_t pc[] = {code + 0x2f, code, code + 0x10, code + 0x2f, code + 0x30,
			       0x10,        1,    code + 0x40, code + 0x41};
	struct asked a;
	char map[512];
	int n = snprintf(map, sizeof(map),
			 "%llx 10 old name\n%llx 20 py::f:/a.py\n%llx 10 new name\n"
			 "%llx 1 a\377b\n10 1 gone\n",
			 (unsigned long long)code, (unsigned long long)code + 0x10,
			 (unsigned long long)code, (unsigned long long)code + 0x40);

	write_map(map, (size_t)n);

	begin(&a);
	want(&a, pc, sizeof(pc) / sizeof(pc[0]));
	cr_expect_str_eq(name_of(&a, code), "new name");
	cr_expect_str_eq(name_of(&a, code + 0x10), "py::f:/a.py");
	cr_expect_str_eq(name_of(&a, code + 0x2f), "py::f:/a.py");
	cr_expect_str_eq(name_of(&a, code + 0x30), "[anon]");
	cr_expect_str_eq(name_of(&a, code + 0x40), "a\357\277\275b", "U+FFFD");
	cr_expect_str_eq(name_of(&a, code + 0x41), "[anon]");
	cr_expect_str_eq(name_of(&a, 0x10), "gone", "code that is not mapped any more");
	cr_expect_str_eq(name_of(&a, 1), "[unknown]");
	cr_expect_str_eq(name_of(&a, code + 0x20), "[anon]", "an address that nobody wanted");
	end(&a);
}

Test(perf_map, leaves_generated_code_without_a_name_where_there_is_no_file, .timeout = 20)
{
	int memory = memfd_create("jit", MFD_CLOEXEC);
	struct asked a;
	uint64_t code[2];

	cr_assert_eq(ftruncate(memory, 4096), 0);
	code[0] = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0);
	code[1] = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	begin(&a);
	want(&a, code, 2);
	cr_expect_str_eq(name_of(&a, code[0]), "[anon]");
	cr_expect_str_eq(name_of(&a, code[1]), "[anon]");
	end(&a);
}

Test(perf_map, is_read_anew_for_each_profile, .timeout = 20)
{
	const uint64_t pc[] = {0x10, 0x20};
	struct asked a;

	write_map("10 1 first\n20 1 too\n", 20);
	begin(&a);
	want(&a, pc, 2);
	cr_expect_str_eq(name_of(&a, 0x20), "too");

	write_map("10 1 second\n", 12);
	want(&a, pc, 1);
	cr_expect_str_eq(name_of(&a, 0x10), "second");
	cr_expect_str_eq(name_of(&a, 0x20), "[unknown]");
	end(&a);
}

/* A profile asks for an address once for each stack that contains it. */
Test(perf_map, names_addresses_that_come_half_a_million_times, .timeout = 60)
{
	const unsigned times = 500000;
	uint64_t *pc = malloc(times * sizeof(*pc));
	struct asked a;

	cr_assert_not_null(pc);
	for (unsigned i = 0; i < times; i++)
		pc[i] = 0x10 + i / (times / 8);
	write_map("10 7 early\n17 1 late\n", 21);
	begin(&a);
	want(&a, pc, times);
	cr_expect_str_eq(name_of(&a, 0x10), "early");
	cr_expect_str_eq(name_of(&a, 0x17), "late");

	for (unsigned i = 0; i < times; i++)
		pc[i] = 0x10 + i;
	want(&a, pc, times);
	cr_expect_str_eq(name_of(&a, 0x10), "early",
			 "too many addresses, and the first have names");
	end(&a);
	free(pc);
}
