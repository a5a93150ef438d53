/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the library of tiny_library.h. Context: tests. Callers: test/unit/export/. */
#define _GNU_SOURCE
#include "tiny_library.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/unit/emulated.h"

static const char source[] =
	"static inline int twice(int x) { __asm__ volatile(\"nop\"); return x * 2; }\n"
	"static int walk(const int *p, int n) { int s = 0; while (n--) s += twice(p[n]); return s; "
	"}\n"
	"extern int puts(const char *);\n"
	"int outer(const int *p, int n) { puts(\"x\"); return walk(p, n) + twice(n); }\n"
	"__attribute__((cold, noinline)) int cold(int x) { return puts(\"y\") + x; }\n"
	"static __attribute__((noinline)) int hidden(int x) { return puts(\"z\") * x; }\n"
	"int (*hidden_at)(int) = hidden;\n";

void tiny_library(const char *flags, char path[TINY_PATH_MAX])
{
	char command[512];
	FILE *cc;
	int fd;

	if (emulated())
		cr_skip_test("the compiler makes code for another processor");
	(void)snprintf(path, TINY_PATH_MAX, "/tmp/spanprof-tiny-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
	(void)snprintf(command, sizeof(command), "gcc -x c -O2 -fPIC -shared %s -o %s -", flags,
		       path);
	cc = popen(command, "w");
	cr_assert_not_null(cc);
	cr_assert_eq(fwrite(source, 1, sizeof(source) - 1, cc), sizeof(source) - 1);
	cr_assert_eq(pclose(cc), 0, "%s", command);
}
