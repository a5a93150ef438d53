/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With BY_DLSYM a driver takes each function of its SDK from dlsym(), as ctypes, LuaJIT or a cffi module does;
 * BY_DLSYM is then the library's name. A driver wraps its calls in SDK(function).
 */
#ifndef TEST_CONFORMANCE_BYNAME_H
#define TEST_CONFORMANCE_BYNAME_H

#ifdef BY_DLSYM

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static inline void *byname(const char *name)
{
	static void *library;
	void *found;

	if (library == NULL)
		library = dlopen(BY_DLSYM, RTLD_NOW | RTLD_LOCAL);
	found = library != NULL ? dlsym(library, name) : NULL;
	if (found == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(98);
	}
	return found;
}

#define SDK(function) ((__typeof__(&(function)))byname(#function))

#else

#define SDK(function) (function)

#endif

#endif
