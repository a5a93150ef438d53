/* SPDX-License-Identifier: Apache-2.0 */
/* A C program that loads a Go shared object later, and works in C and in Go. Usage: goshared <shared object> */
#include <dlfcn.h>

#include "test/hosts/host.h"

int main(int argc, char **argv)
{
	void *object;
	long (*work)(int);

	HOST_CHECK(argc > 1);
	host_burn_ms(100);
	object = dlopen(argv[1], RTLD_NOW);
	HOST_CHECK(object != NULL);
	work = (long (*)(int))(uintptr_t)dlsym(object, "SharedWork");
	HOST_CHECK(work != NULL);
	for (int i = 0; i < 3; i++) {
		printf("%ld\n", work(30000000));
		host_burn_ms(50);
	}
	return 21;
}
