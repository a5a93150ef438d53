/* SPDX-License-Identifier: Apache-2.0 */
/* The library of test/hosts/reload.c, which is built several times under other names and in other sizes. */
#include "test/hosts/host.h"

#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)

__attribute__((visibility("default"))) const char reload_room[RELOAD_BYTES] = {1};

__attribute__((noinline)) static void CONCAT(work_of_, RELOAD_NAME)(int ms)
{
	host_burn_ms(ms);
	__asm__ volatile("" ::: "memory");
}

__attribute__((visibility("default"))) void burn(int ms);

void burn(int ms)
{
	CONCAT(work_of_, RELOAD_NAME)(ms);
	__asm__ volatile("" ::: "memory");
}
