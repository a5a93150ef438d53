/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program without an SDK that could be hooked. Its spans are published in OpenTelemetry's thread context, by the
 * program itself, by a library (publisher_linked), or by a library that the program opens (publisher_opens).
 *
 *   publisher          two spans of 60 ms, first one after the other, then on two threads at a time. There they
 *                      last three times as long, because a thread's first sample may be late.
 *                      60 ms between the spans, and 60 ms before them on the threads, are in no span
 *   publisher bad      the variable points to no record, or to a false record: 10 ms each
 *   publisher roots MS for MS: the second span again and again, on new threads, with a process
 *                      context that names the record's attribute for the local root
 *   publisher fork     one span of 60 ms in a child, while the parent has none
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/hosts/lib/publisher.h"

#define WORK_MS 60
#define BAD_MS 10
#define PAGE 4096

#ifdef PUBLISHER_OPENS
static publisher_publish *publish_;
static publisher_point *point_;
static publisher_publish_process *publish_process_;

static void open_library(void)
{
	void *library = dlopen("libpublisher.so", RTLD_NOW | RTLD_LOCAL);

	HOST_CHECK(library != NULL);
	publish_ = (publisher_publish *)dlsym(library, "publish");
	point_ = (publisher_point *)dlsym(library, "point");
	publish_process_ = (publisher_publish_process *)dlsym(library, "publish_process");
	HOST_CHECK(publish_ != NULL && point_ != NULL && publish_process_ != NULL);
}
#else
#define publish_ publish
#define point_ point
#define publish_process_ publish_process

static void open_library(void)
{
}
#endif

static void work(uint64_t span, uint64_t root, int ms)
{
	publish_(span, root);
	host_burn_ms(ms);
	publish_(0, 0);
}

static void *in_thread(void *arg)
{
	/* In no span: each variable that may be this thread's is read. */
	host_burn_ms(WORK_MS);
	work((uint64_t)(uintptr_t)arg, 0, 3 * WORK_MS);
	return NULL;
}

static void spans(void)
{
	pthread_t thread[2];

	work(UINT64_C(0x1111111111111111), 0, WORK_MS);
	host_burn_ms(WORK_MS);
	work(UINT64_C(0x2222222222222222), UINT64_C(0x2000000000000002), WORK_MS);
	for (uintptr_t i = 0; i < 2; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, in_thread,
					  (void *)(UINT64_C(0x3333333333333330) + i)) == 0);
	for (int i = 0; i < 2; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
}

/* Each has a record that is invalid, or unreadable, or has unreadable attributes. */
static void bad(void)
{
	char *two =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint16_t most = UINT16_MAX;

	HOST_CHECK(two != MAP_FAILED && munmap(two + PAGE, PAGE) == 0);
	memset(two, 0xee, PAGE);
	void *const records[] = {
		(void *)(uintptr_t)2,
		two + PAGE,
		two + PAGE - 20,
		two + PAGE - 27,
		two + 1,
		two,
		(void *)(UINTPTR_MAX - 9),
		(void *)(uintptr_t)0xffff800000000000,
		(void *)(uintptr_t)0x00007ffffffffff0,
		(void *)(uintptr_t)0x8000000000000000,
	};

	for (unsigned i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
		point_(records[i]);
		host_burn_ms(BAD_MS);
	}
	/* A valid record that claims more attributes than there are. */
	memset(two + PAGE - 28, 0x44, 24);
	two[PAGE - 4] = 1;
	memcpy(two + PAGE - 2, &most, 2);
	point_(two + PAGE - 28);
	host_burn_ms(WORK_MS);
	/* Unmapped between one sample and the next. */
	HOST_CHECK(munmap(two, PAGE) == 0);
	host_burn_ms(BAD_MS);
	point_(NULL);
}

static void in_child(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		work(UINT64_C(0x5555555555555555), 0, WORK_MS);
		exit(0);
	}
	HOST_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void *of_root(void *arg)
{
	work(UINT64_C(0x2222222222222222), UINT64_C(0x2000000000000002), WORK_MS);
	return arg;
}

/* Each new thread is a hooked call, in which the profiler now and then checks things. */
static void roots(int ms)
{
	int64_t end = host_wall_ms() + ms;
	pthread_t thread;

	publish_process_();
	while (host_wall_ms() < end) {
		HOST_CHECK(pthread_create(&thread, NULL, of_root, NULL) == 0);
		HOST_CHECK(pthread_join(thread, NULL) == 0);
	}
}

int main(int argc, char **argv)
{
	open_library();
	if (argc > 1 && strcmp(argv[1], "bad") == 0)
		bad();
	else if (argc > 2 && strcmp(argv[1], "roots") == 0)
		roots(atoi(argv[2]));
	else if (argc > 1 && strcmp(argv[1], "fork") == 0)
		in_child();
	else
		spans();
	return 41;
}
