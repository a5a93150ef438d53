/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time of processes below a host that has no profile. The host is the test; getrusage() and clocks are the oracle. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "export/exporter/descendants.h"
#include "export/util/clock.h"
#include "host_double.h"
#include "test/unit/scratch.h"

#define CHILD_NS (150 * SP_NS_PER_MS)
/* Stat files have ticks of ten milliseconds, of user and of system time. */
#define TICKS_NS (20 * SP_NS_PER_MS)

static struct sp_view view;
static struct sp_host seen;
static struct sp_descendants *below;
static uint32_t served;

static void set_up(void)
{
	scratch_make();
	host_make();
	host_open(&view, &seen);
	below = sp_descendants_new();
	cr_assert_not_null(below);
}

static void tear_down(void)
{
	sp_descendants_free(below);
	scratch_remove();
}

TestSuite(descendants, .init = set_up, .fini = tear_down, .timeout = 60);

static bool is_served(void *arg, uint32_t pid)
{
	(void)arg;
	return pid == served;
}

static struct sp_core_cpu look(void)
{
	struct sp_core_cpu cpu;

	sp_descendants_scan(below, &seen, is_served, NULL);
	sp_descendants_results(below, &cpu);
	return cpu;
}

static void burn(uint64_t ns)
{
	struct timespec t;

	do
		(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	while ((uint64_t)t.tv_sec * SP_NS_PER_S + (uint64_t)t.tv_nsec < ns);
}

/* A child that uses CPU time, says so, and stays until it is killed. */
struct child {
	pid_t pid;
	int said[2];
};

static struct child start(const char *name, uint64_t ns, void (*also)(void))
{
	struct child c;
	char byte;

	cr_assert_eq(pipe2(c.said, O_CLOEXEC), 0);
	c.pid = fork();
	cr_assert_geq(c.pid, 0);
	if (c.pid == 0) {
		if (name != NULL)
			(void)prctl(PR_SET_NAME, name);
		if (also != NULL)
			also();
		burn(ns);
		(void)!write(c.said[1], "", 1);
		for (;;)
			(void)pause();
	}
	cr_assert_eq(read(c.said[0], &byte, 1), 1);
	close(c.said[0]);
	close(c.said[1]);
	return c;
}

static void end(const struct child *c)
{
	cr_assert_eq(kill(c->pid, SIGKILL), 0);
	cr_assert_eq(waitpid(c->pid, NULL, 0), c->pid);
}

/* Of children that were waited for, as the kernel tells their parent. */
static uint64_t waited_ns(void)
{
	struct rusage u;

	cr_assert_eq(getrusage(RUSAGE_CHILDREN, &u), 0);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * SP_NS_PER_S +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static void expect_about(uint64_t is, uint64_t expected, const char *what)
{
	uint64_t by = is > expected ? is - expected : expected - is;

	cr_expect_leq(by, TICKS_NS, "%s: %.3f s, not %.3f s", what, (double)is / 1e9,
		      (double)expected / 1e9);
}

Test(descendants, of_a_child_without_the_profiler_are_told_by_its_name)
{
	static const char hostile[] = "a) R 1 \n\"\x1b";
	struct child c = start(hostile, CHILD_NS, NULL);
	struct sp_core_cpu cpu = look();

	cr_assert_eq(cpu.programs, 1);
	cr_expect_str_eq(cpu.program[0].name, hostile);
	cr_expect_eq(cpu.program[0].processes, 1);
	cr_expect_eq(cpu.program[0].why, SP_UNPROFILED_ENVIRONMENT);
	expect_about(cpu.program[0].ns, CHILD_NS, "a living child");
	cr_expect_eq(cpu.waited_ns, 0);
	end(&c);
	cpu = look();
	cr_assert_eq(cpu.programs, 1);
	cr_expect_eq(cpu.program[0].processes, 1);
	expect_about(cpu.program[0].ns, waited_ns(), "a child that has ended");
	expect_about(cpu.waited_ns, waited_ns(), "children that have ended");
	cr_expect_leq(cpu.unknown_ns, TICKS_NS, "it was known");
}

/* Where the kernel put the variables of this program: from and to. */
static void find_variables(char **from, char **to)
{
	FILE *file = fopen("/proc/self/stat", "re");
	unsigned long long begin = 0;
	unsigned long long end = 0;
	char text[2048];
	char *at;

	cr_assert_not_null(file);
	cr_assert_not_null(fgets(text, sizeof(text), file));
	(void)fclose(file);
	at = strrchr(text, ')');
	/* The 50th and the 51st of proc(5). */
	for (unsigned i = 2; i < 50; i++)
		at = strchr(at + 1, ' ');
	cr_assert_eq(sscanf(at, "%llu %llu", &begin, &end), 2);
	*from = (char *)(uintptr_t)begin;
	*to = (char *)(uintptr_t)end;
	cr_assert_gt(end - begin, 64);
}

static char filling;

/* As PostgreSQL and nginx do, and as programs do that keep a title of spaces. */
static void set_title(void)
{
	char *from;
	char *to;

	find_variables(&from, &to);
	memset(from, filling, (size_t)(to - from));
	memcpy(from, "writer: a=b", 11);
	from[12] = 'x';
}

static void clear_variables(void)
{
	char *from;
	char *to;

	find_variables(&from, &to);
	memset(from, 0, (size_t)(to - from));
}

Test(descendants, that_wrote_over_their_variables_are_not_told_as_without_them)
{
	void (*const ways[])(void) = {set_title, set_title, clear_variables};

	for (unsigned i = 0; i < 3; i++) {
		struct sp_core_cpu cpu;
		struct child c;

		filling = i == 0 ? '\0' : ' ';
		c = start("titled", CHILD_NS, ways[i]);
		cpu = look();
		cr_assert_eq(cpu.programs, 1, "%u", i);
		cr_expect_eq(cpu.program[0].why, SP_UNPROFILED_OTHER, "%u", i);
		sp_descendants_free(below);
		below = sp_descendants_new();
		end(&c);
	}
}

Test(descendants, with_no_variables_at_all_are_told_as_without_ours)
{
	char *none[] = {NULL};
	char name[] = "sleep";
	char seconds[] = "100";
	char *words[] = {name, seconds, NULL};
	struct sp_core_cpu cpu;
	struct child c = {.pid = fork()};

	if (c.pid == 0) {
		(void)execve("/bin/sleep", words, none);
		_exit(127);
	}
	/*
	 * In the middle of an exec it has its name, and nothing else that could be read; then it is judged once more. It
	 * takes the limit of the suite to find that it is never judged so.
	 */
	do
		cpu = look();
	while (cpu.programs != 1 || strcmp(cpu.program[0].name, "sleep") != 0 ||
	       cpu.program[0].why != SP_UNPROFILED_ENVIRONMENT);
	end(&c);
}

Test(descendants, that_nobody_saw_are_told_by_their_sum)
{
	struct sp_core_cpu cpu;

	for (unsigned i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			burn(CHILD_NS / 20);
			_exit(0);
		}
		cr_assert_eq(waitpid(pid, NULL, 0), pid);
	}
	cpu = look();
	cr_expect_eq(cpu.programs, 0);
	cr_expect_geq(waited_ns(), CHILD_NS);
	expect_about(cpu.unknown_ns, waited_ns(), "children of milliseconds");
}

Test(descendants, that_the_exporter_serves_are_known)
{
	struct child c = start(NULL, CHILD_NS, NULL);
	struct child unseen;
	struct sp_core_cpu cpu;

	served = (uint32_t)c.pid;
	cr_expect_eq(look().programs, 0);
	sp_descendants_ended(below, served, CHILD_NS);
	end(&c);
	/* Between two looks. */
	unseen = start(NULL, CHILD_NS, NULL);
	sp_descendants_ended(below, (uint32_t)unseen.pid, CHILD_NS);
	end(&unseen);
	cpu = look();
	cr_expect_eq(cpu.programs, 0);
	cr_expect_geq(cpu.waited_ns, 2 * CHILD_NS - TICKS_NS);
	cr_expect_leq(cpu.unknown_ns, 2 * TICKS_NS);
}

static void map_the_object(void)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/libspanprof.so", scratch);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (ftruncate(fd, 4096) != 0 ||
	    mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		_exit(1);
}

static void have_a_child(void)
{
	if (fork() == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)prctl(PR_SET_NAME, "below");
		burn(CHILD_NS);
		for (;;)
			(void)pause();
	}
}

static void have_a_child_with_the_object(void)
{
	map_the_object();
	have_a_child();
}

Test(descendants, that_have_the_profiler_tell_of_those_below_them_themselves)
{
	struct child c = start("above", CHILD_NS, have_a_child_with_the_object);

	cr_expect_eq(look().programs, 0);
	cr_expect_eq(look().programs, 0);
	end(&c);
}

Test(descendants, below_a_child_without_the_profiler_are_found)
{
	struct child c = start("above", CHILD_NS, have_a_child);
	struct sp_core_cpu cpu;
	bool found = false;

	/* The process below uses its time while the looks go on. The suite's limit ends them. */
	while (!found) {
		cpu = look();
		for (unsigned p = 0; p < cpu.programs; p++)
			found |= strcmp(cpu.program[p].name, "below") == 0 &&
				 cpu.program[p].ns >= CHILD_NS - TICKS_NS;
	}
	end(&c);
}

/* The exporter is a child of a child of the host. Neither is a program of the host's. */
Test(descendants, that_are_the_profiler_itself_are_none)
{
	int status = 0;
	pid_t keeper = fork();

	if (keeper == 0) {
		pid_t exporter = fork();

		if (exporter == 0) {
			burn(CHILD_NS);
			(void)look();
			_exit((int)look().programs);
		}
		_exit(waitpid(exporter, &status, 0) == exporter ? WEXITSTATUS(status) : 99);
	}
	cr_assert_eq(waitpid(keeper, &status, 0), keeper);
	cr_expect_eq(status, 0, "%d programs", WEXITSTATUS(status));
}

/* More programs than there is room for: their time is not lost. */
Test(descendants, of_many_programs_are_one)
{
	enum { CHILDREN = SP_PROGRAMS_MAX + 4 };

	struct child c[CHILDREN];
	struct sp_core_cpu cpu;
	uint64_t ns = 0;
	unsigned processes = 0;
	char name[16];

	for (unsigned i = 0; i < CHILDREN; i++) {
		(void)snprintf(name, sizeof(name), "program-%u", i);
		c[i] = start(name, 3 * TICKS_NS, NULL);
	}
	cr_expect_eq(look().programs, 0, "they may just have been executed");
	cpu = look();
	for (unsigned i = 0; i < cpu.programs; i++) {
		ns += cpu.program[i].ns;
		processes += cpu.program[i].processes;
	}
	cr_expect_eq(cpu.programs, SP_PROGRAMS_MAX);
	cr_expect_str_eq(cpu.program[SP_PROGRAMS_MAX - 1].name, "(other)");
	cr_expect_eq(processes, CHILDREN);
	cr_expect_geq(ns, CHILDREN * 2 * TICKS_NS);
	for (unsigned i = 0; i < CHILDREN; i++)
		end(&c[i]);
}

Test(descendants, are_bounded)
{
	enum { CHILDREN = 400 };

	struct sp_core_cpu cpu;
	unsigned processes = 0;

	for (unsigned i = 0; i < CHILDREN; i++) {
		if (fork() != 0)
			continue;
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)pause();
	}
	for (unsigned i = 0; i < 1000 && processes < 256; i++) {
		cpu = look();
		processes = cpu.programs != 0 ? cpu.program[0].processes : 0;
	}
	cpu = look();
	cr_assert_eq(cpu.programs, 1);
	cr_expect_eq(cpu.program[0].processes, 256);
	sp_descendants_scan(NULL, &seen, is_served, NULL);
	sp_descendants_ended(NULL, 1, 1);
	sp_descendants_results(NULL, &cpu);
	cr_expect_eq(cpu.programs, 0);
}
