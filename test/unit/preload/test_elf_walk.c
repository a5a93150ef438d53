/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding symbols in loaded objects. "Our" object is this program, so everything after it in load order counts. The
 * test compares with dlsym(). No program links with the C library's own libthread_db.so.1.
 */
#include "preload/elf/elf_walk.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "preload/elf/relocations.h"
#include "preload/elf/resolve.h"
#include "preload/exporter/exporter.h"
#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/vdso_clock_sig.h"

#define PRIVATE_OBJECT "libthread_db.so.1"

/* This definition is ours, and the C library has one too. */
SP_EXPORT int getpagesize(void)
{
	return 4711;
}

static void *open_private(void)
{
	void *object = dlopen(PRIVATE_OBJECT, RTLD_LAZY | RTLD_LOCAL);

	cr_assert_not_null(object, "%s", dlerror());
	return object;
}

TestSuite(elf_walk, .timeout = 20);

Test(elf_walk, tells_the_size_of_a_variable)
{
	struct sp_elf_range libc = sp_elf_object_at(dlsym(RTLD_NEXT, "gnu_get_libc_version"));
	size_t size = 0;

	cr_assert_eq(sp_elf_variable_in(&libc, "program_invocation_name", &size),
		     dlsym(RTLD_NEXT, "program_invocation_name"));
	cr_assert_eq(size, sizeof(char *));
	cr_assert_null(sp_elf_variable_in(&libc, "no_such_variable", &size));
	cr_assert_eq(size, 0);
}

Test(elf_walk, finds_what_dlsym_finds)
{
	const char *const names[] = {
		"malloc",          "pthread_create",      "sigaction",         "_exit",
		"dlopen",          "quick_exit",          "__libc_start_main", "environ",
		"_dl_find_object", "criterion_initialize"};

	for (size_t i = 0; i < SP_ARRAY_LEN(names); i++) {
		void *want = dlsym(RTLD_NEXT, names[i]);

		cr_assert_not_null(want, "%s", names[i]);
		cr_assert_eq(sp_elf_find(names[i], NULL), want, "%s", names[i]);
	}
}

/*
 * On x86-64 the C library also has old versions of these functions, with other code. Its table lists an old version
 * before or after the default version.
 */
Test(elf_walk, prefers_the_default_version)
{
	const char *const names[] = {"pthread_cond_wait", "realpath",     "regexec",
				     "posix_spawn",       "timer_delete", "sched_setaffinity",
				     "lio_listio64",      "sem_init"};

	for (size_t i = 0; i < SP_ARRAY_LEN(names); i++)
		cr_assert_eq(sp_elf_find(names[i], NULL), dlsym(RTLD_NEXT, names[i]), "%s",
			     names[i]);
#if defined(__x86_64__)
	cr_assert_neq(sp_elf_find("realpath", NULL), dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.2.5"),
		      "the witness must tell versions apart");
#endif
}

Test(elf_walk, finds_nothing_where_there_is_nothing)
{
	cr_assert_null(sp_elf_find("", NULL));
	cr_assert_null(sp_elf_find("sp_no_such_symbol_anywhere", NULL));
	cr_assert_null(sp_elf_find("mallo", NULL));
	cr_assert_null(sp_elf_find("mallocx", NULL));
}

Test(elf_walk, passes_over_our_own_object)
{
	void *found = sp_elf_find("getpagesize", NULL);

	cr_assert_eq(getpagesize(), 4711);
	cr_assert_not_null(found);
	cr_assert_neq(found, (void *)(uintptr_t)getpagesize);
	cr_assert_eq(found, dlsym(RTLD_NEXT, "getpagesize"));
}

Test(elf_walk, finds_an_object_that_was_opened_privately)
{
	cr_assert_null(sp_elf_find("td_init", NULL));
	void *object = open_private();

	cr_assert_null(dlsym(RTLD_DEFAULT, "td_init"), "dlsym does not");
	cr_assert_eq(sp_elf_find("td_init", NULL), dlsym(object, "td_init"));
	cr_assert_eq(dlclose(object), 0);
	cr_assert_null(sp_elf_find("td_init", NULL));
}

Test(elf_walk, leaves_the_hosts_dlerror_alone)
{
	(void)dlsym(RTLD_DEFAULT, "sp_no_such_symbol_anywhere");
	cr_assert_null(sp_elf_find("another_that_is_missing", NULL));

	const char *why = dlerror();

	cr_assert_not_null(why);
	cr_assert_not_null(strstr(why, "sp_no_such_symbol_anywhere"));
}

Test(elf_walk, asks_for_names_that_belong_together)
{
	static const char *const all[] = {"td_ta_new", "td_thr_get_info", NULL};
	static const char *const one_missing[] = {"td_ta_new", "sp_no_such_symbol", NULL};
	static const char *const elsewhere[] = {"malloc", NULL};
	static const char *const none[] = {NULL};
	void *object = open_private();
	void *want = dlsym(object, "td_init");

	cr_assert_eq(sp_elf_find("td_init", all), want);
	cr_assert_eq(sp_elf_find("td_init", none), want);
	cr_assert_null(sp_elf_find("td_init", one_missing));
	cr_assert_null(sp_elf_find("td_init", elsewhere), "in another object is not together");
}

/* The vDSO's addresses are not relocated in place, and some kernels give it only the old hash table. */
Test(elf_walk, reads_the_kernels_own_object)
{
#if defined(__x86_64__)
	const char *name = "__vdso_clock_gettime";
#else
	const char *name = "__kernel_clock_gettime";
#endif
	int (*gettime)(clockid_t, struct timespec *) =
		(int (*)(clockid_t, struct timespec *))sp_elf_find(name, NULL);
	struct timespec ts = {0, 0};

	if (gettime == NULL)
		cr_skip_test("no vDSO here");
	cr_assert_eq(gettime(CLOCK_REALTIME, &ts), 0);
	cr_assert_gt(ts.tv_sec, 1700000000);
}

Test(elf_walk, tells_which_object_an_address_lies_in)
{
	void *object = open_private();
	void *function = dlsym(object, "td_init");
	struct sp_elf_range range = sp_elf_object_at(function);
	int on_the_stack = 0;

	cr_assert_neq(range.size, 0);
	cr_assert(sp_elf_within(&range, function));
	cr_assert(sp_elf_within(&range, (const void *)range.start));
	cr_assert_not(sp_elf_within(&range, (const void *)(range.start + range.size)));
	cr_assert_not(sp_elf_within(&range, (void *)(uintptr_t)getpagesize));
	cr_assert_eq(sp_elf_find_in(&range, "td_init"), function);
	cr_assert_null(sp_elf_find_in(&range, "malloc"), "that is another object's");
	cr_assert_eq(sp_elf_object_at(&on_the_stack).size, 0);
}

Test(elf_walk, finds_names_at_a_header_without_the_loader)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	void *function = dlsym(open_private(), "td_init");
	struct sp_elf_range range = sp_elf_object_at(function);

	cr_expect_eq(sp_elf_find_at((const void *)range.start, "td_init"), function);
	cr_expect_null(sp_elf_find_at((const void *)range.start, "malloc"));
	/* Emulators have none. */
	if (vdso == NULL)
		return;
	range = sp_elf_object_at(vdso);
	cr_expect_not_null(sp_elf_find_at(vdso, SP_VDSO_CLOCK_NAME));
	cr_expect_eq(sp_elf_find_at(vdso, SP_VDSO_CLOCK_NAME),
		     sp_elf_find_in(&range, SP_VDSO_CLOCK_NAME));
}

Test(elf_walk, finds_many_names_of_one_object_or_of_any)
{
	static const char *const names[] = {"td_init", "malloc", "no_such_function"};
	struct sp_elf_range range = sp_elf_object_at(dlsym(open_private(), "td_init"));
	void *found[] = {NULL, NULL, NULL};
	void *known = &range;

	sp_elf_find_each(&range, names, found, 3);
	cr_expect_eq(found[0], sp_elf_find_in(&range, "td_init"));
	cr_expect_neq(found[0], NULL);
	cr_expect_null(found[1], "that is another object's");
	sp_elf_find_each(NULL, names, found, 3);
	cr_expect_eq(found[0], sp_elf_find_in(&range, "td_init"));
	cr_expect_eq(found[1], sp_elf_find("malloc", NULL));
	cr_expect_neq(found[1], NULL);
	cr_expect_null(found[2]);
	sp_elf_find_each(NULL, names, &known, 1);
	cr_expect_eq(known, &range, "what is known already stays");
}

Test(elf_walk, an_object_is_alive_until_it_is_unloaded)
{
	void *object = open_private();
	struct sp_elf_range range = sp_elf_object_at(dlsym(object, "td_init"));
	unsigned long long adds = sp_elf_adds();
	unsigned long long unloads = range.unloads;

	cr_assert(sp_elf_alive(&range));
	cr_assert_not(range.permanent);
	cr_assert_eq(dlclose(object), 0);
	cr_assert_not(sp_elf_alive(&range));
	range = sp_elf_object_at(dlsym(open_private(), "td_init"));
	cr_assert_gt(sp_elf_adds(), adds);
	cr_assert_gt(range.unloads, unloads);
}

Test(elf_walk, what_is_here_at_startup_stays)
{
	struct sp_elf_range range;

	sp_elf_startup();
	range = sp_elf_object_at(dlsym(RTLD_NEXT, "malloc"));
	cr_assert(range.permanent);
	cr_assert_not(sp_elf_object_at(dlsym(open_private(), "td_init")).permanent);
}

Test(elf_walk, what_a_constructor_before_ours_opened_may_be_closed)
{
	void *object = open_private();
	struct sp_elf_range range;

	sp_elf_startup();
	range = sp_elf_object_at(dlsym(object, "td_init"));

	cr_assert_not(range.permanent);
	cr_assert_eq(dlclose(object), 0);
	cr_assert_not(sp_elf_alive(&range));
	cr_assert(sp_elf_object_at(dlsym(RTLD_NEXT, "malloc")).permanent);
}

Test(elf_walk, finds_every_definition)
{
	void *found[4] = {NULL, NULL, NULL, NULL};

	cr_assert_eq(sp_elf_find_all("td_init", found, 4), 0);
	(void)open_private();
	cr_assert_eq(sp_elf_find_all("td_init", found, 4), 1);
	cr_assert_eq(found[0], sp_elf_find("td_init", NULL));
	cr_assert_eq(sp_elf_find_all("td_init", NULL, 0), 1, "counts what has no room");
}

static unsigned asked;

static const void *leave(const struct sp_elf_range *importer SP_UNUSED, const char *name SP_UNUSED,
			 const void *now, bool lazy)
{
	asked += now == NULL && lazy;
	return NULL;
}

static const void *take_strlen(const struct sp_elf_range *importer SP_UNUSED, const char *name,
			       const void *now, bool lazy)
{
	return now == NULL && lazy && strcmp(name, "strlen") == 0 ? leave : NULL;
}

/* Below a seccomp filter the kernel cannot be asked whether the loader has finished an object. */
Test(elf_walk, an_object_in_which_nothing_is_to_be_changed_need_not_be_finished)
{
	cr_assert(sp_relocations_visit(leave));
	cr_assert_eq(asked, 0);
	sp_seccomp_begin();
	cr_assert(sp_relocations_visit(leave));
	cr_assert_gt(asked, 0);
	cr_assert_not(sp_relocations_visit(take_strlen));
	sp_seccomp_take_back();
}

Test(elf_walk, knows_what_an_object_needs)
{
	void *function = dlsym(open_private(), "td_init");
	struct sp_elf_range private = sp_elf_object_at(function);
	struct sp_elf_range library = sp_elf_object_at(dlsym(RTLD_NEXT, "gnu_get_libc_version"));

	cr_assert(sp_elf_needs(function, &library));
	cr_assert(sp_elf_needs(function, &private), "an object itself counts");
	cr_assert_not(sp_elf_needs((const void *)library.start, &private));
	cr_assert_not(sp_elf_needs((void *)(uintptr_t)getpagesize, &private));
}

Test(elf_walk, tells_whether_names_belong_to_an_address)
{
	static const char *const all[] = {"td_ta_new", NULL};
	static const char *const missing[] = {"sp_no_such_symbol", NULL};
	void *function = dlsym(open_private(), "td_init");

	cr_assert(sp_elf_belongs("td_init", function, all));
	cr_assert_not(sp_elf_belongs("td_init", function, missing));
	cr_assert_not(sp_elf_belongs("td_ta_new", function, all), "that is at another address");
	cr_assert_not(sp_elf_belongs("td_init", NULL, all));
}

Test(elf_walk, knows_our_own_object)
{
	cr_assert_str_eq(sp_elf_own_path(), "", "the loader has no name for the program itself");
}

/* So the folder comes from the kernel's path of the mapping. */
Test(exporter_path, lies_beside_our_own_object, .timeout = 20)
{
	char own[SP_EXPORTER_PATH_MAX] = "";
	char path[SP_EXPORTER_PATH_MAX];

	cr_assert_gt(readlink("/proc/self/exe", own, sizeof(own) - 1), 0);
	strcpy(strrchr(own, '/') + 1, "spanprof-exporter");

	cr_assert_eq(chdir("/"), 0);
	cr_assert(sp_exporter_path(path));
	cr_assert_str_eq(path, own);
}

Test(resolve, finds_the_real_function_again_and_again, .timeout = 20)
{
	void *want = dlsym(RTLD_NEXT, "sigaction");

	cr_assert_eq(sp_next(SP_NEXT_sigaction), want);
	cr_assert_eq(sp_next(SP_NEXT_sigaction), want);
	cr_assert_eq(sp_resolve("sigaction"), want);
}

Test(resolve, a_miss_is_asked_again, .timeout = 20)
{
	cr_assert_null(sp_next(SP_NEXT_otel_tracer_start_span));
	cr_assert_null(sp_next(SP_NEXT_otel_tracer_start_span));
	cr_assert_null(sp_resolve("td_init"));
	(void)open_private();
	cr_assert_not_null(sp_resolve("td_init"));
}

Test(elf_walk, tells_the_path_of_an_object_and_the_end_of_a_long_one)
{
	void *object = open_private();
	const void *inside = dlsym(object, "td_init");
	char path[256];
	char end[sizeof(PRIVATE_OBJECT)];

	cr_assert_not_null(inside);
	sp_elf_path_at(inside, path, sizeof(path));
	sp_elf_path_at(inside, end, sizeof(end));

	cr_expect_eq(path[0], '/');
	cr_expect_str_eq(strrchr(path, '/') + 1, PRIVATE_OBJECT);
	cr_expect_str_eq(end, PRIVATE_OBJECT);
	sp_elf_path_at(__func__, path, sizeof(path));
	cr_expect_str_eq(path, "", "of the program");
	sp_elf_path_at(NULL, path, sizeof(path));
	cr_expect_str_eq(path, "", "of nothing");
	dlclose(object);
}

Test(elf_walk, finds_thread_local_variables_and_no_others, .timeout = 10)
{
	struct sp_elf_tls tls;

	/* the C library, which comes after the program, defines errno; libm only refers to it */
	cr_assert_not_null(dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL));
	sp_elf_find_tls("errno", &tls);
	cr_expect_eq(tls.n, 1);
	cr_expect_not(tls.before_ours);
	sp_elf_find_tls("malloc", &tls);
	cr_expect_eq(tls.n, 0);
	cr_expect_null(sp_elf_find("errno", NULL));
}
