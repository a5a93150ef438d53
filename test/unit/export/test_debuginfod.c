/* SPDX-License-Identifier: Apache-2.0 */
/* The message after a question that led to no debug file. */
#include "export/symbols/debuginfod.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/unit/scratch.h"

static char text[256];

static void set_up(void)
{
	scratch_make();
	unsetenv("DEBUGINFOD_CACHE_PATH");
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", in_scratch("home"), 1);
}

TestSuite(debuginfod, .init = set_up, .fini = scratch_remove, .timeout = 20);

/* Whether the user is told of a file that no server has, which happens only without a folder. */
static bool lacks_folder(void)
{
	text[0] = '\0';
	if (!sp_debuginfod_complains(-ENOENT, text, sizeof(text)))
		return false;
	cr_expect_not_null(strstr(text, "(No such file or directory): set DEBUGINFOD_CACHE_PATH"),
			   "%s", text);
	return true;
}

static void make(const char *name)
{
	cr_assert_eq(mkdir(in_scratch(name), 0700), 0);
}

Test(debuginfod, tells_that_the_home_does_not_exist)
{
	cr_expect(lacks_folder());
	make("home");
	make("home/.cache");
	cr_expect(lacks_folder());
	make("home/.cache/debuginfod_client");
	cr_expect(!lacks_folder());
}

Test(debuginfod, knows_the_folder_of_former_versions)
{
	make("home");
	make("home/.debuginfod_client_cache");
	cr_expect(!lacks_folder());
	setenv("XDG_CACHE_HOME", in_scratch("caches"), 1);
	cr_expect(!lacks_folder());
}

Test(debuginfod, looks_into_the_folder_of_caches_if_one_is_named)
{
	make("home");
	make("home/.cache");
	make("home/.cache/debuginfod_client");
	setenv("XDG_CACHE_HOME", "", 1);
	cr_expect(!lacks_folder());
	setenv("XDG_CACHE_HOME", in_scratch("caches"), 1);
	cr_expect(lacks_folder());
	make("caches");
	make("caches/debuginfod_client");
	cr_expect(!lacks_folder());
}

Test(debuginfod, looks_only_into_the_folder_that_is_named)
{
	make("home");
	make("home/.cache");
	make("home/.cache/debuginfod_client");
	setenv("DEBUGINFOD_CACHE_PATH", in_scratch("named"), 1);
	cr_expect(lacks_folder());
	make("named");
	setenv("HOME", in_scratch("nowhere"), 1);
	cr_expect(!lacks_folder());
}

/* The library takes the folder of the root directory then, which may exist or not. */
Test(debuginfod, does_without_a_home)
{
	bool has_one = eaccess("/.debuginfod_client_cache", W_OK) == 0 ||
		       eaccess("/.cache/debuginfod_client", W_OK) == 0;

	/* A folder in the working directory does not count. */
	cr_assert_eq(chdir(scratch), 0);
	make(".debuginfod_client_cache");
	make("(null)");
	make("(null)/.debuginfod_client_cache");
	unsetenv("HOME");
	cr_expect_eq(lacks_folder(), !has_one);
	setenv("XDG_CACHE_HOME", in_scratch("caches"), 1);
	make("caches");
	make("caches/debuginfod_client");
	cr_expect(!lacks_folder());
}

Test(debuginfod, tells_that_there_was_no_answer)
{
	setenv("DEBUGINFOD_CACHE_PATH", in_scratch(""), 1);
	cr_expect(sp_debuginfod_complains(-ECONNREFUSED, text, sizeof(text)));
	cr_expect_str_eq(text, "the servers of DEBUGINFOD_URLS gave no answer (Connection "
			       "refused): they are asked "
			       "again later");
	setenv("DEBUGINFOD_CACHE_PATH", in_scratch("nowhere"), 1);
	cr_expect(sp_debuginfod_complains(-EACCES, text, sizeof(text)));
	cr_expect_not_null(strstr(text, "(Permission denied): set DEBUGINFOD_CACHE_PATH"), "%s",
			   text);
}

Test(debuginfod, says_nothing_of_a_file_a_question_broken_off_or_none)
{
	setenv("DEBUGINFOD_CACHE_PATH", in_scratch("nowhere"), 1);
	cr_expect(!sp_debuginfod_complains(0, text, sizeof(text)));
	cr_expect(!sp_debuginfod_complains(5, text, sizeof(text)));
	cr_expect(!sp_debuginfod_complains(-EAGAIN, text, sizeof(text)));
	cr_expect(!sp_debuginfod_complains(-ENOSYS, text, sizeof(text)));
}
