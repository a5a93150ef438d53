/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program without tracing. Prints whether the kernel gave it more rights than its caller has, and which object with
 * a given name is mapped into it; then uses CPU time. Linked dynamically as plain and statically as static. Usage:
 * plain <milliseconds> <part of an object's path>
 */
#include <sys/auxv.h>

#include "test/hosts/host.h"

static int is_mapped(const char *part)
{
	char line[4096];
	FILE *file = fopen("/proc/self/maps", "re");
	int found = 0;

	HOST_CHECK(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
		found |= strstr(line, part) != NULL;
	fclose(file);
	return found;
}

int main(int argc, char **argv)
{
	HOST_CHECK(argc > 2);
	host_burn_ms(atoi(argv[1]));
	printf("secure %lu\nmapped %d\n", getauxval(AT_SECURE), is_mapped(argv[2]));
	return 20;
}
