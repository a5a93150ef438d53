/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the kernel's names of threads. */
#include "sampler/thread_name.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char nothing[SP_THREAD_NAME_BYTES];

/* The calling thread's name is that, padded, by either way of asking. */
static void expect_own(const char *name)
{
	char padded[SP_THREAD_NAME_BYTES] = "";
	char got[SP_THREAD_NAME_BYTES];

	memcpy(padded, name, strlen(name));
	memset(got, 'x', sizeof(got));
	sp_thread_name_own(got);
	cr_expect_arr_eq(got, padded, sizeof(got), "asked: %.16s", got);
	memset(got, 'x', sizeof(got));
	sp_thread_name_of((uint32_t)syscall(SYS_gettid), got);
	cr_expect_arr_eq(got, padded, sizeof(got), "read: %.16s", got);
}

Test(thread_name, is_what_was_set_last, .timeout = 20)
{
	cr_assert_eq(prctl(PR_SET_NAME, "first"), 0);
	expect_own("first");
	cr_assert_eq(prctl(PR_SET_NAME, "a"), 0);
	expect_own("a");
}

Test(thread_name, may_have_fifteen_bytes_of_any_kind, .timeout = 20)
{
	cr_assert_eq(prctl(PR_SET_NAME, "fifteen-bytes-x and more"), 0);
	expect_own("fifteen-bytes-x");
	cr_assert_eq(prctl(PR_SET_NAME, "\xff\x80 \n) S 1\n\n"), 0);
	expect_own("\xff\x80 \n) S 1\n\n");
	cr_assert_eq(prctl(PR_SET_NAME, ""), 0);
	expect_own("");
}

struct other {
	uint32_t tid;
	sem_t there;
	sem_t done;
};

static void *be_other(void *arg)
{
	struct other *o = arg;

	cr_assert_eq(prctl(PR_SET_NAME, "other"), 0);
	o->tid = (uint32_t)syscall(SYS_gettid);
	sem_post(&o->there);
	sem_wait(&o->done);
	return NULL;
}

Test(thread_name, of_another_thread_is_its_own_and_of_none_is_empty, .timeout = 20)
{
	char got[SP_THREAD_NAME_BYTES];
	struct other o;
	pthread_t thread;

	sem_init(&o.there, 0, 0);
	sem_init(&o.done, 0, 0);
	cr_assert_eq(prctl(PR_SET_NAME, "asker"), 0);
	cr_assert_eq(pthread_create(&thread, NULL, be_other, &o), 0);
	sem_wait(&o.there);
	sp_thread_name_of(o.tid, got);
	cr_expect_str_eq(got, "other");
	sem_post(&o.done);
	pthread_join(thread, NULL);

	/* no thread of this process */
	sp_thread_name_of(1, got);
	cr_expect_arr_eq(got, nothing, sizeof(got));
	expect_own("asker");
}
