/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C workloads of the single-step oracle. Each covers code whose call frame information differs in
 * kind: compiled C, hand-written vector code, PLT stubs, the loader's resolver, the vDSO, code
 * that switches register sets (longjmp), and thread creation.
 */
#include "test/step/workloads.h"

#include <ctype.h>
#include <dlfcn.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static volatile uintptr_t sink;

static void run_stdio(void)
{
	char text[512];
	char *buf = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&buf, &len);
	int a = 0;
	double b = 0;

	fprintf(f, "%d %5.3f %s %#lx %c %-20s|%a\n", 42, 3.25, "text", 0xdeadUL, 'x', "left", 1.5);
	fputs("more\n", f);
	fclose(f);
	sink += (uintptr_t)sscanf(buf, "%d %lf", &a, &b);
	snprintf(text, sizeof(text), "%zu %.17g %e %lld %%", len, b, 1e300, (long long)a);
	free(buf);
	f = tmpfile();
	if (f != NULL) {
		for (int i = 0; i < 3; i++)
			fputs(text, f);
		rewind(f);
		while (fgets(text, sizeof(text), f) != NULL)
			sink += strlen(text);
		fclose(f);
	}
}

static void run_string(void)
{
	static char a[5000];
	static char b[5000];

	for (size_t n = 1; n < 4600; n = n * 2 + 7) {
		memset(a, 'x', n);
		a[n] = '\0';
		memcpy(b, a, n + 1);
		memmove(b + 1, b, n);
		sink += strlen(a) + (uintptr_t)memcmp(a, b, n) + (uintptr_t)strcmp(a, b);
		sink += (uintptr_t)strchr(a, 'y') + (uintptr_t)strrchr(a, 'x') +
			(uintptr_t)memchr(a, 'z', n) + (uintptr_t)memrchr(a, 'z', n);
		sink += (uintptr_t)strncasecmp(a, b, n) + strnlen(a, n / 2) + strspn(a, "x");
		stpcpy(b, a);
		strncpy(b, a, n);
		sink += (uintptr_t)strstr(a, "xxy") + strcspn(a, "abc") +
			(uintptr_t)strpbrk(a, "q");
	}
	strcpy(a, "one two  three");
	for (char *save, *t = strtok_r(a, " ", &save); t != NULL; t = strtok_r(NULL, " ", &save))
		sink += (uintptr_t)toupper((unsigned char)*t);
	sink += wcslen(L"wide text") + (uintptr_t)wmemchr(L"wide", L'd', 4);
}

static int compare_int(const void *a, const void *b)
{
	return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static void run_qsort(void)
{
	int v[60];
	void *root = NULL;

	for (int i = 0; i < 60; i++)
		v[i] = (i * 7919) % 101;
	qsort(v, 60, sizeof(v[0]), compare_int);
	sink += (uintptr_t)bsearch(&v[7], v, 60, sizeof(v[0]), compare_int);
	for (int i = 0; i < 20; i++)
		tsearch(&v[i], &root, compare_int);
	for (int i = 0; i < 20; i++)
		tdelete(&v[i], &root, compare_int);
}

static void run_malloc(void)
{
	void *p[64] = {0};

	for (unsigned i = 0; i < 400; i++) {
		unsigned k = (i * 37) % 64;
		size_t size = (i * 2654435761U) % 3000 + (i % 50 == 0 ? 200000 : 1);

		if (i % 3 == 0) {
			void *bigger = realloc(p[k], size);

			if (bigger != NULL)
				p[k] = bigger;
		} else {
			free(p[k]);
			p[k] = i % 2 ? malloc(size) : calloc(1, size);
		}
	}
	for (unsigned i = 0; i < 64; i++)
		free(p[i]);
	sink += (uintptr_t)aligned_alloc(4096, 8192);
}

static void run_numbers(void)
{
	static const char *const text[] = {"3.14159265358979", "1e-310", "0x1.8p3", "inf",
					   "123456789012345678901234567890"};
	double x = 0;

	for (unsigned i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		x += strtod(text[i], NULL);
	for (double v = 0.1; v < 1e6; v *= 37)
		x += sin(v) + cos(v) + tan(v) + exp(-v) + log(v) + pow(v, 0.3) + lgamma(v) +
		     atan2(v, 2) + fmod(v, 0.7) + cbrt(v) + erf(v);
	sink += (uintptr_t)strtoull("18446744073709551615", NULL, 10) + (uintptr_t)(x > 0);
}

static void run_regex(void)
{
	regmatch_t m[3];
	regex_t re;

	if (regcomp(&re, "^([a-z]+)[0-9]{2,3}(x|yz)*$", REG_EXTENDED) != 0)
		return;
	sink += (uintptr_t)regexec(&re, "hello123xyzx", 3, m, 0);
	sink += (uintptr_t)regexec(&re, "HELLO", 3, m, 0);
	regfree(&re);
}

/* Nothing else calls these functions, so each call goes through the loader's resolver once. */
static void run_lazy_plt(void)
{
	sink += (uintptr_t)getppid() + (uintptr_t)labs(-5) + (uintptr_t)ffsl(64);
	sink += (uintptr_t)getpagesize() + (uintptr_t)gethostid();
	sink += (uintptr_t)fabs(fdim((double)sink, 2)) + (uintptr_t)logb(8.0 + (double)sink);
	sink += (uintptr_t)wcsncmp(L"a", L"b", 1) + (uintptr_t)strverscmp("1.2", "1.10");
}

static void run_dlopen(void)
{
	unsigned long (*crc)(unsigned long, const unsigned char *, unsigned);
	void *lib = dlopen("libz.so.1", RTLD_LAZY | RTLD_LOCAL);

	if (lib == NULL)
		return;
	*(void **)&crc = dlsym(lib, "crc32");
	if (crc != NULL)
		sink += crc(0, (const unsigned char *)"some bytes to sum", 17);
	dlclose(lib);
	sink += (uintptr_t)dlopen("there-is-no-such-library.so", RTLD_NOW);
}

static void run_deflate(void)
{
	static unsigned char in[1500];
	static unsigned char out[4000];
	int (*deflate)(unsigned char *, unsigned long *, const unsigned char *, unsigned long, int);
	unsigned long n = sizeof(out);
	static void *lib;

	for (unsigned i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * i >> 5);
	/* Stays loaded, because snapshots are walked later. */
	if (lib == NULL)
		lib = dlopen("libz.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (lib == NULL)
		return;
	*(void **)&deflate = dlsym(lib, "compress2");
	if (deflate != NULL)
		sink += (uintptr_t)deflate(out, &n, in, sizeof(in), 6);
}

static void *thread_main(void *arg)
{
	return arg;
}

static void run_pthread(void)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_t t;

	pthread_once(&once, run_lazy_plt);
	for (int i = 0; i < 3; i++) {
		if (pthread_create(&t, NULL, thread_main, NULL) != 0)
			return;
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		pthread_join(t, NULL);
	}
}

static void run_clock(void)
{
	struct timespec ts;
	struct timeval tv;
	struct tm tm;
	char text[64];
	time_t now = time(NULL);

	for (int i = 0; i < 5; i++) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		clock_gettime(CLOCK_REALTIME_COARSE, &ts);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
		gettimeofday(&tv, NULL);
	}
	sink += strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S%z", localtime_r(&now, &tm));
	sink += (uintptr_t)mktime(&tm);
}

static jmp_buf jump_target;
static volatile int jump_now = 1; /* without it the compiler assumes endless recursion */

static __attribute__((noinline)) void jump_from(int depth)
{
	char space[64];

	memset(space, depth, sizeof(space));
	sink += (uintptr_t)space[5];
	if (depth > 0)
		jump_from(depth - 1);
	else if (jump_now)
		longjmp(jump_target, 1);
	sink += (uintptr_t)space[6];
}

static void run_longjmp(void)
{
	for (volatile int i = 0; i < 4; i++) {
		if (setjmp(jump_target) == 0)
			jump_from(5);
	}
}

static void run_locale(void)
{
	locale_t loc = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
	char text[32];

	if (loc == NULL)
		return;
	uselocale(loc);
	sink += wcstombs(text, L"\u00e4\u20ac", sizeof(text));
	snprintf(text, sizeof(text), "%ls", L"\u00fc");
	sink += (uintptr_t)strcoll(text, "abc");
	uselocale(LC_GLOBAL_LOCALE);
	freelocale(loc);
}

/* Alignment beyond the ABI's makes gcc find the frame through a saved argument pointer (DRAP). */
static __attribute__((noinline)) uintptr_t realigned(unsigned n)
{
	__attribute__((aligned(64))) char aligned[256];
	char *flexible = __builtin_alloca(n);

	memset(aligned, (int)n, sizeof(aligned));
	memset(flexible, 1, n);
	return (uintptr_t)aligned[n % 256] + (uintptr_t)flexible[n / 2];
}

static void run_alloca(void)
{
	for (unsigned n = 16; n < 300; n += 77)
		sink += realigned(n);
}

const struct workload workloads[] = {
	{"lazy plt", run_lazy_plt, false, 1},    {"stdio", run_stdio, false, 1},
	{"string", run_string, false, 1},        {"qsort", run_qsort, false, 1},
	{"malloc", run_malloc, false, 1},        {"strtod, libm", run_numbers, false, 1},
	{"regex", run_regex, false, 1},          {"dlopen", run_dlopen, false, 1},
	{"zlib", run_deflate, false, 1},         {"pthread", run_pthread, false, 1},
	{"clock, vdso", run_clock, false, 1},    {"longjmp", run_longjmp, false, 1},
	{"locale", run_locale, false, 1},        {"alloca, drap", run_alloca, false, 1},
	{"stl", workload_stl, false, 1},         {"throw", workload_throw, false, 1},
	{"libcrypto", workload_crypto, true, 1}, {"rsa", workload_rsa, true, 31},
	{"p-256", workload_p256, true, 5},
};
const unsigned workloads_n = sizeof(workloads) / sizeof(workloads[0]);
