/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to wait, for test/hosts/waits.c: each blocks its thread once, for wait_ms, in a function of its own name. If
 * another thread ends the wait, it is the helper, which has its own function. Calls that end with EINTR are counted;
 * any other failure ends the program.
 */
#ifndef TEST_HOSTS_WAITS_H
#define TEST_HOSTS_WAITS_H

#include <alloca.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"

extern char **environ;

static int turns = 4;
static int wait_ms = 200;
static _Atomic int interrupted;

/* The objects for a wait, and the helper thread that ends it when told to. */
struct helper {
	pthread_t thread;
	sem_t go;
	sem_t ready;
	int fd;
	int other_end;
	pthread_mutex_t mutex;
	struct sockaddr_in address;
	char *pages;
};

static struct timespec span_of(int ms)
{
	return (struct timespec){ms / 1000, ms % 1000 * 1000000L};
}

static struct timeval time_of(int ms)
{
	return (struct timeval){ms / 1000, ms % 1000 * 1000};
}

static void pass(int ms)
{
	struct timespec ts = span_of(ms);

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		interrupted++;
}

static void count(long result)
{
	if (result < 0 && errno == EINTR)
		interrupted++;
	HOST_CHECK(result >= 0);
}

/* The call must have ended by its timeout. */
static void count_timeout(long result, int error)
{
	if (result < 0 && errno == EINTR)
		interrupted++;
	HOST_CHECK(result < 0 && errno == error);
}

/* The ways to wait. */

#define WAY __attribute__((noinline))

WAY static void wait_sleep(struct helper *h)
{
	(void)h;
	pass(wait_ms);
}

/* An uninterrupted sleep has no remaining time. */
WAY static void wait_nanosleep(struct helper *h)
{
	const struct timespec ts = span_of(wait_ms);
	struct timespec rest = {-1, -1};

	(void)h;
	count(syscall(SYS_nanosleep, &ts, &rest));
	HOST_CHECK(rest.tv_sec == -1 && rest.tv_nsec == -1);
}

/* Its frame needs the frame pointer. */
WAY static void sleep_in_alloca(int bytes)
{
	volatile char *room = alloca((size_t)bytes);

	room[0] = 1;
	pass(wait_ms);
	room[bytes - 1] = 1;
}

WAY static void wait_alloca(struct helper *h)
{
	sleep_in_alloca(200 + (h == NULL));
	__asm__ volatile(""); /* no tail call */
}

WAY static void wait_cond(struct helper *h)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec end;
	int64_t ns = host_clock_ns(CLOCK_REALTIME) + (int64_t)wait_ms * 1000000;

	(void)h;
	end = (struct timespec){ns / 1000000000, ns % 1000000000};
	pthread_mutex_lock(&mutex);
	while (pthread_cond_timedwait(&cond, &mutex, &end) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&mutex);
}

WAY static void wait_mutex(struct helper *h)
{
	pthread_mutex_lock(&h->mutex);
	pthread_mutex_unlock(&h->mutex);
}

WAY static void wait_futex(struct helper *h)
{
	const struct timespec ts = span_of(wait_ms);
	uint32_t word = 0;

	(void)h;
	count_timeout(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &ts), ETIMEDOUT);
}

/* For another thread, and for the clock. */
WAY static void wait_semop(struct helper *h)
{
	struct sembuf op = {.sem_op = -1};

	count(semop(h->fd, &op, 1));
}

WAY static void wait_semtimedop(struct helper *h)
{
	const struct timespec ts = span_of(wait_ms);
	struct sembuf op = {.sem_op = -1};

	count_timeout(semtimedop(h->fd, &op, 1, &ts), EAGAIN);
}

WAY static void wait_read(struct helper *h)
{
	char byte;

	count(read(h->fd, &byte, 1));
}

WAY static void wait_recv(struct helper *h)
{
	char byte;

	count(recv(h->fd, &byte, 1, 0));
}

/* SO_RCVTIMEO */
WAY static void wait_recv_timeout(struct helper *h)
{
	char byte;

	count_timeout(recv(h->fd, &byte, 1, 0), EAGAIN);
}

/* Connects to a socket that does not answer, until SO_SNDTIMEO. */
WAY static void wait_connect(struct helper *h)
{
	const struct timeval time = time_of(wait_ms);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	HOST_CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) == 0);
	count_timeout(connect(fd, (struct sockaddr *)&h->address, sizeof(h->address)), EINPROGRESS);
	HOST_CHECK(close(fd) == 0);
}

WAY static void wait_flock(struct helper *h)
{
	count(flock(h->fd, LOCK_EX));
	count(flock(h->fd, LOCK_UN));
}

WAY static void wait_child(struct helper *h)
{
	char text[16];
	char *argv[] = {"sleep", text, NULL};
	pid_t pid;

	(void)h;
	(void)snprintf(text, sizeof(text), "%d.%03d", wait_ms / 1000, wait_ms % 1000);
	HOST_CHECK(posix_spawnp(&pid, "sleep", NULL, NULL, argv, environ) == 0);
	count(waitpid(pid, NULL, 0));
}

WAY static void wait_poll(struct helper *h)
{
	struct pollfd p = {.fd = h->fd, .events = POLLPRI};

	count(poll(&p, 1, wait_ms));
}

WAY static void wait_select(struct helper *h)
{
	struct timeval tv = time_of(wait_ms);

	(void)h;
	count(select(0, NULL, NULL, NULL, &tv));
}

WAY static void wait_epoll(struct helper *h)
{
	struct epoll_event event;

	count(epoll_wait(h->fd, &event, 1, wait_ms));
}

/* Not in a system call: waits for a page that the helper fills. */
WAY static void wait_fault(struct helper *h)
{
	HOST_CHECK(*(volatile char *)h->pages == 0);
	h->pages += 4096;
}

/* A quarter of the time in each of three places; in the last quarter it computes. */
WAY static void wait_mixed(struct helper *h)
{
	int ms = wait_ms;

	(void)h;
	host_burn_ms(ms / 4);
	pass(ms / 2);
	host_burn_ms(ms / 4);
}

/* Prepares the objects. False if this system does not have them. */

static bool make_pipe(struct helper *h)
{
	int fd[2];

	HOST_CHECK(pipe2(fd, O_CLOEXEC) == 0);
	h->fd = fd[0];
	h->other_end = fd[1];
	return true;
}

static int listen_at(struct sockaddr_in *address, int backlog)
{
	socklen_t len = sizeof(*address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_in){.sin_family = AF_INET};
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	HOST_CHECK(bind(fd, (struct sockaddr *)address, sizeof(*address)) == 0);
	HOST_CHECK(listen(fd, backlog) == 0);
	HOST_CHECK(getsockname(fd, (struct sockaddr *)address, &len) == 0);
	return fd;
}

static int connect_to(const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	HOST_CHECK(connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0);
	return fd;
}

/* A connection over the loopback device; prints the port, because names of waits contain it. */
static bool make_connection(struct helper *h)
{
	int listener = listen_at(&h->address, 1);

	h->fd = connect_to(&h->address);
	h->other_end = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	HOST_CHECK(h->other_end >= 0);
	printf("port %d\n", ntohs(h->address.sin_port));
	return true;
}

/* The queue has room for one connection, which nobody accepts, so the kernel drops further ones. */
static bool make_black_hole(struct helper *h)
{
	h->other_end = listen_at(&h->address, 0);
	h->fd = connect_to(&h->address);
	printf("hole %d\n", ntohs(h->address.sin_port));
	return true;
}

static bool make_mute_socket(struct helper *h)
{
	const struct timeval time = time_of(wait_ms);
	int fd[2];

	HOST_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
	h->fd = fd[0];
	HOST_CHECK(setsockopt(h->fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) == 0);
	return true;
}

static bool make_epoll(struct helper *h)
{
	h->fd = epoll_create1(EPOLL_CLOEXEC);
	return true;
}

static char lock_path[] = "/tmp/waits.XXXXXX";

static bool make_file(struct helper *h)
{
	h->fd = mkostemp(lock_path, O_CLOEXEC);
	return true;
}

static int semaphores[2];
static int semaphores_n;

/* Semaphores outlive their program unless it removes them. */
static void remove_semaphores(void)
{
	while (semaphores_n > 0)
		(void)semctl(semaphores[--semaphores_n], 0, IPC_RMID);
}

static bool make_semaphore(struct helper *h)
{
	h->fd = semget(IPC_PRIVATE, 1, 0600);
	HOST_CHECK(h->fd >= 0);
	semaphores[semaphores_n++] = h->fd;
	return semaphores_n > 1 || atexit(remove_semaphores) == 0;
}

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

/* Pages that are missing until the helper fills them; an unprivileged user may have none. */
static bool make_pages(struct helper *h)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	size_t bytes = (size_t)turns * 4096;

	h->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (h->fd < 0) {
		printf("without userfaultfd: %s\n", strerror(errno));
		return false;
	}
	h->pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	HOST_CHECK(h->pages != MAP_FAILED);
	reg.range = (struct uffdio_range){.start = (uintptr_t)h->pages, .len = bytes};
	HOST_CHECK(ioctl(h->fd, UFFDIO_API, &api) == 0);
	HOST_CHECK(ioctl(h->fd, UFFDIO_REGISTER, &reg) == 0);
	return true;
}

/* The work of the helpers meanwhile. */

static void *feed(void *arg)
{
	struct helper *h = arg;
	char byte = 'x';

	for (int i = 0; i < turns; i++) {
		sem_wait(&h->go);
		sem_post(&h->ready);
		pass(wait_ms);
		HOST_CHECK(write(h->other_end, &byte, 1) == 1);
	}
	return NULL;
}

static void *hold_mutex(void *arg)
{
	struct helper *h = arg;

	for (int i = 0; i < turns; i++) {
		sem_wait(&h->go);
		pthread_mutex_lock(&h->mutex);
		sem_post(&h->ready);
		pass(wait_ms);
		pthread_mutex_unlock(&h->mutex);
	}
	return NULL;
}

static void *hold_file(void *arg)
{
	struct helper *h = arg;
	int fd = open(lock_path, O_RDWR | O_CLOEXEC);

	HOST_CHECK(fd >= 0);
	for (int i = 0; i < turns; i++) {
		sem_wait(&h->go);
		HOST_CHECK(flock(fd, LOCK_EX) == 0);
		sem_post(&h->ready);
		pass(wait_ms);
		HOST_CHECK(flock(fd, LOCK_UN) == 0);
	}
	return NULL;
}

static void *raise_semaphore(void *arg)
{
	struct helper *h = arg;
	struct sembuf op = {.sem_op = 1};

	for (int i = 0; i < turns; i++) {
		sem_wait(&h->go);
		sem_post(&h->ready);
		pass(wait_ms);
		HOST_CHECK(semop(h->fd, &op, 1) == 0);
	}
	return NULL;
}

static void *fill_pages(void *arg)
{
	struct helper *h = arg;

	for (int i = 0; i < turns; i++) {
		struct uffdio_zeropage zero = {.range.len = 4096};
		struct uffd_msg msg;

		sem_wait(&h->go);
		sem_post(&h->ready);
		HOST_CHECK(read(h->fd, &msg, sizeof(msg)) == sizeof(msg));
		pass(wait_ms);
		zero.range.start = msg.arg.pagefault.address & ~UINT64_C(4095);
		HOST_CHECK(ioctl(h->fd, UFFDIO_ZEROPAGE, &zero) == 0);
	}
	return NULL;
}

#endif
