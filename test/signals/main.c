/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one case. Usage: cases <name> <signal number>, or cases --list, which prints "name|words".
 */
#include "test/signals/cases.h"

#include <stddef.h>

#include "test/hosts/host.h"

struct row {
	const char *name;
	const char *words;
	void (*run)(int signo);
};

#define ROW_(name, words) {#name, words, case_##name},
static const struct row rows[] = {FOR_EACH_CASE(ROW_)};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (argc > 1 && strcmp(argv[1], "--list") == 0) {
			printf("%s|%s\n", rows[i].name, rows[i].words);
		} else if (argc > 2 && strcmp(argv[1], rows[i].name) == 0) {
			rows[i].run(atoi(argv[2]));
			printf("end\n");
			return 21;
		}
	}
	return argc > 1 && strcmp(argv[1], "--list") == 0 ? 0 : 1;
}
