/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A system call by its instruction, which no function of the C library and no hook sees. Returns the result, or a
 * negative errno.
 */
#ifndef TEST_RAW_CALL_H
#define TEST_RAW_CALL_H

static inline long raw(long number, long a, long b, const void *c)
{
#if defined(__x86_64__)
	long rc;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return rc;
#else
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register const void *x2 __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#endif
}

#endif
