/* SPDX-License-Identifier: Apache-2.0 */
/*
 * True in an emulator of another processor (test/aarch64): its /proc is that of the emulator, and its address space
 * is not laid out as the kernel does it for a program.
 */
#ifndef SP_TEST_EMULATED_H
#define SP_TEST_EMULATED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((unused)) static bool emulated(void)
{
	return getenv("TEST_EMULATOR") != NULL;
}

/*
 * Whether threads may have the smallest stacks of x86-64, 16 KiB, for nothing but their own frames. aarch64's C
 * library requires 128 KiB, and an emulator has its own frames there.
 */
__attribute__((unused)) static bool has_small_stacks(void)
{
	pthread_attr_t attr;

	return !emulated() && pthread_attr_init(&attr) == 0 &&
	       pthread_attr_setstacksize(&attr, 16384) == 0;
}

/* Runs a shell command in which $SELF is this program's file. The caller ends it by pclose. */
__attribute__((unused)) static FILE *ask_shell(const char *command)
{
	char self[4096];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length < 0)
		return NULL;
	self[length] = '\0';
	return setenv("SELF", self, 1) == 0 ? popen(command, "r") : NULL;
}

#endif
