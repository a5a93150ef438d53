/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, processes, loaded objects, stacks, faults, memory and masks, a round of each. */
#define _GNU_SOURCE
#include "test/storm/workers.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "test/hosts/host.h"

extern char **environ;

static void *brief(void *arg)
{
	host_burn_ms(2);
	if (arg != NULL)
		pthread_exit(arg);
	return NULL;
}

void storm_churn(void)
{
	pthread_t thread[4];

	for (long i = 0; i < 4; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, brief, (void *)(i & 1)) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

static void *until_cancelled(void *arg)
{
	for (;;) {
		host_burn_ms(1);
		pthread_testcancel();
	}
	return arg;
}

void storm_cancel(void)
{
	struct timespec moment = {0, 3000000};
	pthread_t thread;

	HOST_CHECK(pthread_create(&thread, NULL, until_cancelled, NULL) == 0);
	nanosleep(&moment, NULL);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

static void *detached(void *arg)
{
	host_burn_ms(2);
	atomic_store((_Atomic int *)arg, 1);
	return NULL;
}

void storm_detach(void)
{
	static _Atomic int done;
	pthread_t thread;

	atomic_store(&done, 0);
	HOST_CHECK(pthread_create(&thread, NULL, detached, &done) == 0);
	pthread_detach(thread);
	while (!atomic_load(&done))
		sched_yield();
}

static void wait_for(pid_t child, int wanted)
{
	int status = -1;

	HOST_CHECK(child > 0);
	while (waitpid(child, &status, 0) < 0)
		HOST_CHECK(errno == EINTR);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted)
		fprintf(stderr, "a child ended with wait status %d\n", status);
	HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
}

/* The child works, allocates and ends by _exit, while the parent's other threads held any lock. */
void storm_forks(void)
{
	pid_t child = fork();

	if (child == 0) {
		void *p;

		host_burn_ms(3);
		p = malloc(100000);
		free(p);
		_exit(p != NULL ? 31 : 1);
	}
	wait_for(child, 31);
}

void storm_vforks(void)
{
	char *const argv[] = {"true", NULL};
	pid_t child = vfork();

	if (child == 0) {
		execve("/bin/true", argv, environ);
		_exit(1);
	}
	wait_for(child, 0);
	HOST_CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) == 0);
	wait_for(child, 0);
}

void storm_plugins(void)
{
	void *plugin = dlopen(storm_plugin, RTLD_NOW | RTLD_LOCAL);

	HOST_CHECK(plugin != NULL);
	HOST_CHECK(dlsym(plugin, "storm_throw_once") != NULL);
	HOST_CHECK(dlclose(plugin) == 0);
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(unsigned long *)data += info->dlpi_phnum;
	return 0;
}

void storm_phdrs(void)
{
	unsigned long n = 0;

	for (int i = 0; i < 200; i++)
		dl_iterate_phdr(visit, &n);
	HOST_CHECK(n > 0);
}

static __thread ucontext_t inside;
static __thread ucontext_t outside;

static void coroutine(void)
{
	for (;;) {
		host_burn_ms(1);
		HOST_CHECK(swapcontext(&inside, &outside) == 0);
	}
}

void storm_contexts(void)
{
	size_t size = 16384;
	char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	HOST_CHECK(stack != MAP_FAILED);
	HOST_CHECK(getcontext(&inside) == 0);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = size;
	inside.uc_link = NULL;
	makecontext(&inside, coroutine, 0);
	for (int i = 0; i < 3; i++)
		HOST_CHECK(swapcontext(&outside, &inside) == 0);
	munmap(stack, size);
}

static __thread sigjmp_buf place;

static void leave(int signo)
{
	(void)signo;
	siglongjmp(place, 1);
}

void storm_faults(void)
{
	static __thread char memory[32768];
	static volatile int *volatile const nowhere = (int *)16;
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};
	stack_t off = {.ss_flags = SS_DISABLE};
	struct sigaction act;

	memset(&act, 0, sizeof(act));
	act.sa_handler = leave;
	act.sa_flags = SA_ONSTACK;
	HOST_CHECK(sigaction(SIGSEGV, &act, NULL) == 0);
	HOST_CHECK(sigaltstack(&stack, NULL) == 0);
	if (sigsetjmp(place, 1) == 0)
		*nowhere = 1;
	HOST_CHECK(sigaltstack(&off, NULL) == 0);
}

void storm_heap(void)
{
	void *p[64];

	for (size_t i = 0; i < 64; i++)
		HOST_CHECK((p[i] = malloc(16 + i * i * 64)) != NULL);
	for (size_t i = 0; i < 64; i++)
		HOST_CHECK((p[i] = realloc(p[i], 32 + i * 640)) != NULL);
	for (size_t i = 0; i < 64; i++)
		free(p[i]);
}

void storm_masks(void)
{
	sigset_t all;
	sigset_t before;
	sigset_t inside_it;

	sigfillset(&all);
	HOST_CHECK(pthread_sigmask(SIG_BLOCK, &all, &before) == 0);
	storm_churn();
	HOST_CHECK(pthread_sigmask(SIG_SETMASK, &before, &inside_it) == 0);
	HOST_CHECK(sigismember(&inside_it, storm_signal) == 1);
	HOST_CHECK(sigismember(&before, storm_signal) == 0);
}

/* A sender other than the profiler sends the sampling signal to every thread. */
void storm_strikes(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;

	HOST_CHECK(tasks != NULL);
	while ((entry = readdir(tasks)) != NULL) {
		int tid = atoi(entry->d_name);

		for (int i = 0; tid > 0 && i < 20; i++)
			syscall(SYS_tgkill, getpid(), tid, storm_signal);
	}
	closedir(tasks);
}
