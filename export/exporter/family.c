/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "export/exporter/family.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "export/export.h"
#include "export/exporter/confinement.h"
#include "export/exporter/limits.h"
#include "export/exporter/member.h"
#include "export/exporter/rights.h"
#include "export/util/clock.h"
#include "export/util/turn.h"
#include "region_version.h"
#include "sampler/region/region.h"

#define PIDFD_OPEN_NR 434L /* the same everywhere; headers may be older */
/*
 * A server that forks for each request, or replaces its workers, has moments without a child that
 * records spans. Starting an exporter takes 20 ms of CPU time; staying for this long costs nothing.
 */
#define LINGER_NS (10 * SP_NS_PER_S)
/* At most this many joins in a row; then the present members have their turn. */
#define JOINS_MAX 64U
#define JOINS_NS (100 * SP_NS_PER_MS)
/*
 * If accept() fails for want of descriptors or memory, the socket stays readable, and is ignored
 * for this long.
 */
#define DEAF_NS SP_NS_PER_S
/*
 * Any process of the network namespace may connect, as often as it likes. After this many strangers
 * in ten seconds, we accept only every tenth of a second, and the kernel queues fewer of them. A
 * process that wants to join tries for longer than that (preload/exporter/exporter.c), and finds
 * room each time when we have emptied the queue.
 */
#define STRANGERS_MAX 64U
#define STRANGERS_NS (10 * SP_NS_PER_S)
#define STRANGERS_DEAF_NS (100 * SP_NS_PER_MS)
#define STRANGERS_BACKLOG 512
/*
 * After this many strangers, we do not wait for a process of our user that has not sent its message
 * yet.
 */
#define STRANGERS_SLOW 8U
/* Events of one epoll_wait(); the next one returns further ones. */
#define EVENTS 64
/* Of each member: pidfd, folder, memory map, status. */
#define DESCRIPTORS 4U
/* For connections, files that are read, and the libraries' files. */
#define DESCRIPTORS_OTHER 64U
/* One part in so many of the limit; off_cpu/ uses it for files of threads. */
#define DESCRIPTORS_THREADS 8U

/*
 * A process that wants to be served connects to the socket of its family and hands over its region
 * (sampler/region/region.h). Any process of any user may connect, so everything is checked.
 */
#define BACKLOG 4096
#define HANDED 3U /* descriptors of a message */
/*
 * How long we wait for a process of our user that was preempted between connect() and its message.
 */
#define PATIENCE_US 50000

struct join {
	struct sp_host_descriptors fds;
	uint32_t pid; /* as the kernel tells it */
	/* the same program and environment; for other processes no file is opened */
	bool is_of_family;
};

/*
 * Makes this process the listener, so that processes that connect from now on see our number.
 * Closes the socket and returns -1 if it is not a listening one.
 */
static int make_ours(int fd)
{
	int on = 0;
	int type = 0;
	socklen_t len = sizeof(on);

	if (fd < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on != 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET &&
	    listen(fd, BACKLOG) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 &&
	    fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
		return fd;
	(void)close(fd);
	return -1;
}

/* Takes the descriptors of a message, if it is complete; otherwise closes all of them. */
static int take_descriptors(struct msghdr *m, int fd[HANDED])
{
	unsigned n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
		const unsigned char *at = CMSG_DATA(c);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t have = c->cmsg_len - CMSG_LEN(0); have >= sizeof(int);
		     have -= sizeof(int), at += sizeof(int)) {
			int one;

			memcpy(&one, at, sizeof(one));
			if (n < HANDED)
				fd[n++] = one;
			else
				(void)close(one);
		}
	}
	if (n == HANDED && (m->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
		return 0;
	while (n != 0)
		(void)close(fd[--n]);
	return -EPROTO;
}

static int receive(int connection, struct sp_family_join *message, int fd[HANDED], int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
	struct iovec part = {.iov_base = message, .iov_len = sizeof(*message)};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(connection, &m, MSG_CMSG_CLOEXEC | flags);

	if (got < 0)
		return -EPROTO;
	if (take_descriptors(&m, fd) != 0)
		return -EPROTO;
	if (got == (ssize_t)sizeof(*message) && message->version == SP_REGION_VERSION)
		return 0;
	for (unsigned i = 0; i < HANDED; i++)
		(void)close(fd[i]);
	return -EPROTO;
}

static int take(int connection, uint64_t environment, bool is_patient, struct join *out)
{
	const struct timeval patience = {.tv_usec = PATIENCE_US};
	struct sp_family_join message;
	struct ucred who = {.pid = 0};
	socklen_t len = sizeof(who);
	int fd[HANDED];
	int err;

	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0)
		return -EPROTO;
	/*
	 * We receive nothing from strangers. A descriptor may belong to a file system in user
	 * space, and closing it would wait for the process that serves it. If the message is never
	 * received, the kernel drops the descriptor without that wait.
	 */
	if (who.uid != geteuid())
		return -EPROTO;
	if (setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0)
		return -EPROTO;
	err = receive(connection, &message, fd, is_patient ? 0 : MSG_DONTWAIT);
	if (err != 0)
		return err;
	*out = (struct join){
		.fds = {.region = fd[0], .folder = fd[1], .maps = fd[2], .joined = true},
		.pid = (uint32_t)who.pid,
		/* In another pid namespace the process would have another number in its message. */
		.is_of_family = who.pid > 0 && (uint32_t)who.pid == message.pid &&
				message.environment == environment,
	};
	return 0;
}

/*
 * Accepts the next process that wants to join. environment: ours, see sp_family_environment(). 0;
 * -EAGAIN: nobody waits; -EMFILE: somebody may wait, but there is no descriptor or memory to
 * accept, and the socket stays readable; -EPROTO: it sent no valid message, or is another user.
 * With is_patient, waits up to 50 ms for a slow process of our user.
 */
static int next_join(int listener, uint64_t environment, bool is_patient, struct join *out)
{
	int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	int err;

	if (connection < 0 && (errno == EINTR || errno == ECONNABORTED))
		return -EPROTO;
	/* After shutdown(), accept() fails with EINVAL when the queue is empty. */
	if (connection < 0)
		return errno == EAGAIN || errno == EINVAL ? -EAGAIN : -EMFILE;
	err = take(connection, environment, is_patient, out);
	(void)close(connection);
	return err;
}

struct family {
	struct sp_export_family ops;
	const struct sp_config *config;
	struct sp_member *members; /* oldest first */
	uint32_t count;            /* living members */
	uint32_t most;             /* limit for count */
	uint64_t bytes;            /* of all regions, SP_LIMITS_REGIONS at most */
	struct sp_family_hook hook;
	int event;    /* an eventfd: a member has a request */
	int epoll;    /* watches event, listener, and the pidfds of the leader and of the members */
	int listener; /* -1 = no process can join */
	uint64_t deaf_until_ns; /* no process is accepted before; 0 = at once */
	uint32_t strangers;     /* connections of strangers since strangers_ns */
	uint64_t strangers_ns;
	uint64_t environment; /* our own sp_family_environment() */
	int leader; /* a pidfd of the process that executed the program; -1 = gone, or unknown */
	uint64_t linger_ns; /* how long we wait for processes while there is none; 0 = not set */
	struct sp_confinement confinement; /* of the process that started us, at our beginning */
};

/*
 * Other processes may have copies of the descriptor, which would keep it in the set after we close
 * it.
 */
static void forget_descriptor(const struct family *f, int fd)
{
	if (fd >= 0)
		(void)epoll_ctl(f->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* One-shot: the pidfd of an ended process stays readable. */
static void wait_for_end(const struct family *f, struct sp_member *m)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = m};

	m->waiter.is_told_of_end =
		m->host.pidfd >= 0 && epoll_ctl(f->epoll, EPOLL_CTL_ADD, m->host.pidfd, &e) == 0;
}

static void listen_to(const struct family *f, int operation, bool is_deaf)
{
	struct epoll_event e = {.events = is_deaf ? 0 : EPOLLIN};

	if (f->listener >= 0)
		(void)epoll_ctl(f->epoll, operation, f->listener, &e);
}

static void close_listener(struct family *f)
{
	forget_descriptor(f, f->listener);
	if (f->listener >= 0)
		(void)close(f->listener);
	f->listener = -1;
}

/* Whether there are other members. */
static bool serves_others(const struct family *f, const struct sp_waiter *process)
{
	for (const struct sp_member *m = f->members; m != NULL; m = m->next)
		if (&m->waiter != process && m->waiter.view != NULL && !m->waiter.gone)
			return true;
	return false;
}

/*
 * The process has become another user, and its children will look for an exporter of that user. The
 * kernel tells them which user listens, so the thread that has changed its user makes the socket.
 * Another exporter of that user may have the name already. The name has a "p", because a change of
 * users makes processes non-dumpable, and other processes of that user never could read us.
 */
static void listen_as_user(struct family *f, uint64_t loaded_ns)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, SP_FAMILY_NAME,
			      "", "p", (unsigned long long)loaded_ns, (unsigned)geteuid());
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd >= 0 && (bind(fd, (const struct sockaddr *)&address,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
				     (socklen_t)length) != 0 ||
			listen(fd, BACKLOG) != 0)) {
		(void)close(fd);
		fd = -1;
	}
	f->listener = make_ours(fd);
	listen_to(f, EPOLL_CTL_ADD, false);
}

/*
 * An exporter needs at most the rights of each process that it serves. If we followed a worker that
 * became another user, we could not serve the others any more. So we follow only a process that is
 * alone, or the one that started us, which may be unable to start another exporter
 * (preload/lifecycle/lifecycle.c); the others are told to start one. Each thread has rights of its
 * own: the calling thread follows here, and the watching threads are restarted with its rights.
 */
static int follow(void *self, const struct sp_waiter *process)
{
	struct family *f = self;
	uid_t user = geteuid();
	int err;

	if (process->host->joined && serves_others(f, process))
		return -EBUSY;
	for (struct sp_member *m = f->members; m != NULL; m = m->next)
		sp_watch_stop(&m->waiter.watch);
	err = sp_rights_follow();
	if (geteuid() != user) {
		close_listener(f);
		if (!f->hook.ends)
			listen_as_user(f, process->view->region->program_loaded_ns);
	}
	for (struct sp_member *m = f->members; m != NULL; m = m->next)
		if (m->waiter.view != NULL && !m->waiter.gone)
			(void)sp_watch_start(&m->waiter.watch, &m->view.region->wake, f->event);
	return err;
}

static void count(struct family *f, const struct sp_member *m)
{
	f->count++;
	f->bytes += m->view.bytes;
}

static void discount(struct family *f, const struct sp_member *m)
{
	f->count--;
	f->bytes -= m->view.bytes;
}

static void append(struct family *f, struct sp_member *m)
{
	struct sp_member **at = &f->members;

	while (*at != NULL)
		at = &(*at)->next;
	*at = m;
	count(f, m);
}

static void forget(struct family *f, struct sp_member *m)
{
	struct sp_member **at = &f->members;

	while (*at != NULL && *at != m)
		at = &(*at)->next;
	if (*at != NULL) {
		*at = m->next;
		if (!m->retired)
			discount(f, m);
	}
	forget_descriptor(f, m->host.pidfd);
	sp_member_close(m);
	free(m);
}

/*
 * Tells the process to start an exporter of its own, or, if this exporter ends, to join the next
 * one of the family. Not a region of another build, whose words are at other places.
 */
static void refuse(const struct family *f, struct sp_view *v, int err)
{
	if (v->region != NULL && err != -EPROTO)
		(void)sp_view_answer(v, f->hook.ends ? SP_EXPORTER_MOVED : SP_EXPORTER_REFUSED);
}

/*
 * Begins to serve the process. False if it has waited for too long: then it goes on without us, and
 * its region is not ours.
 */
static bool take_in(struct sp_member *m)
{
	atomic_store_explicit(&m->view.region->exporter_began, sp_host_own_start(),
			      memory_order_relaxed);
	atomic_store_explicit(&m->view.region->exporter_pid, getpid(), memory_order_relaxed);
	m->working = sp_view_answer(&m->view, SP_EXPORTER_WORKING);
	return m->working;
}

/*
 * A process that has fewer rights than we have, or is more confined, could make us open files for
 * it. Our parent must not join either, because it would find us among its children when it waits
 * for them.
 */
static bool may_join(const struct family *f, const struct sp_member *m, const struct join *j)
{
	return m->host.pid == j->pid && m->host.pid != (uint32_t)getppid() &&
	       m->view.bytes <= SP_LIMITS_REGIONS - f->bytes && sp_rights_compare(&m->host) == 0 &&
	       sp_rights_filters() <= sp_confinement_own_filters() &&
	       sp_confinement_compare(&f->confinement, &m->host.confinement) == SP_CONFINED_NOT;
}

/*
 * For processes that are not of our family or for which there is no room, we open nothing but the
 * region, to tell them.
 */
static void turn_away(const struct family *f, const struct join *j)
{
	struct sp_view v;

	refuse(f, &v, sp_view_open(&v, j->fds.region));
	sp_view_close(&v);
	sp_host_decline(&j->fds);
}

static void join(struct family *f, const struct join *j)
{
	bool has_room = f->count < f->most && !f->hook.ends;
	struct sp_member *m = j->is_of_family && has_room ? calloc(1, sizeof(*m)) : NULL;
	int err;

	if (m == NULL) {
		turn_away(f, j);
		return;
	}
	err = sp_member_open(m, &j->fds, f->config);
	if (err != 0 || !may_join(f, m, j) || !take_in(m)) {
		refuse(f, &m->view, err);
		sp_member_close(m);
		free(m);
		return;
	}
	append(f, m);
	sp_member_watch(m, f->event, &f->hook);
	wait_for_end(f, m);
	f->linger_ns = 0;
}

static void become_deaf(struct family *f, uint64_t ns)
{
	f->deaf_until_ns = sp_clock_mono_ns() + ns;
	listen_to(f, EPOLL_CTL_MOD, true);
}

static void count_stranger(struct family *f, uint64_t now)
{
	if (now - f->strangers_ns > STRANGERS_NS) {
		if (f->strangers >= STRANGERS_MAX)
			(void)listen(f->listener, BACKLOG);
		f->strangers = 0;
		f->strangers_ns = now;
	}
	if (f->strangers++ == STRANGERS_MAX)
		(void)listen(f->listener, STRANGERS_BACKLOG);
}

static void let_join(struct family *f)
{
	uint64_t begun = sp_clock_mono_ns();
	uint32_t strangers = 0;
	struct join j;

	for (unsigned i = 0; f->listener >= 0 && i < JOINS_MAX && strangers < BACKLOG;) {
		int err = next_join(f->listener, f->environment, f->strangers < STRANGERS_SLOW, &j);

		if (err == -EMFILE)
			become_deaf(f, DEAF_NS);
		if (err == -EAGAIN || err == -EMFILE)
			break;
		if (err == 0) {
			join(f, &j);
			i++;
		} else {
			count_stranger(f, begun);
			strangers++;
		}
		if (sp_clock_mono_ns() - begun > JOINS_NS)
			break;
	}
	if (strangers != 0 && f->strangers > STRANGERS_MAX && f->listener >= 0 &&
	    f->deaf_until_ns == 0)
		become_deaf(f, STRANGERS_DEAF_NS);
}

/* From now on nobody can connect; processes that have connected are still in the queue. */
static void close_door(struct family *f)
{
	if (f->listener < 0)
		return;
	(void)shutdown(f->listener, SHUT_RDWR);
	let_join(f);
	close_listener(f);
}

static void begin_end(void *self)
{
	struct family *f = self;

	f->hook.ends = true;
	close_door(f);
}

static struct sp_member *find_member(void *self, uint32_t pid)
{
	const struct family *f = self;
	struct sp_member *m = f->members;

	while (m != NULL && (m->host.pid != pid || m->waiter.gone || m->retired))
		m = m->next;
	return m;
}

static void wait_for_family(void *self, uint32_t timeout_ms)
{
	struct family *f = self;
	struct epoll_event event[EVENTS];
	uint32_t ms =
		f->members == NULL && f->linger_ns != 0 ? LINGER_NS / SP_NS_PER_MS : timeout_ms;
	uint64_t told;
	uint64_t now;
	bool had;
	int n;

	now = sp_clock_mono_ns();
	if (f->deaf_until_ns != 0 && now >= f->deaf_until_ns) {
		f->deaf_until_ns = 0;
		listen_to(f, EPOLL_CTL_MOD, false);
	}
	/* Rounded up: otherwise we would poll during the last part of a millisecond. */
	if (f->deaf_until_ns != 0 && ms > (f->deaf_until_ns - now) / SP_NS_PER_MS)
		ms = (uint32_t)((f->deaf_until_ns - now) / SP_NS_PER_MS) + 1;
	had = sp_turn_set(false);
	n = epoll_wait(f->epoll, event, EVENTS, ms < INT32_MAX ? (int)ms : INT32_MAX);
	(void)sp_turn_set(had);
	for (int i = 0; i < n; i++)
		if (event[i].data.ptr != NULL)
			((struct sp_member *)event[i].data.ptr)->waiter.has_died = true;
	/* The read does not block. The number of requests does not matter. */
	if (n > 0 && read(f->event, &told, sizeof(told)) < 0)
		errno = 0;
	if (n > 0 && f->deaf_until_ns == 0)
		let_join(f);
}

static void wake_family(void *self)
{
	const struct family *f = self;
	const uint64_t one = 1;

	/* A write to a full counter fails, but then the reader wakes anyway. */
	if (write(f->event, &one, sizeof(one)) < 0)
		errno = 0;
}

static const struct sp_core_ops *next(void *self)
{
	struct family *f = self;

	for (struct sp_member *m = f->members; m != NULL; m = m->next) {
		if (m->handed)
			continue;
		m->handed = true;
		return &m->ops;
	}
	return NULL;
}

static void ended(void *self, const struct sp_core_ops *ops)
{
	struct family *f = self;
	struct sp_member *m = ops->arg;

	discount(f, m);
	forget_descriptor(f, m->host.pidfd);
	m->waiter.is_told_of_end = false;
	m->retired = sp_member_retire(m) == 0;
	if (!m->retired)
		count(f, m);
}

static void left(void *self, const struct sp_core_ops *ops, int err)
{
	struct family *f = self;
	struct sp_member *m = ops->arg;

	sp_member_send_end(m, err);
	/*
	 * The host waits for our end, and our exit gives back everything faster than a cleanup
	 * here.
	 */
	if (f->hook.ends && m == f->members && m->next == NULL)
		f->members = NULL;
	else
		forget(f, m);
}

static bool leader_lives(const struct family *f)
{
	struct pollfd p = {.fd = f->leader, .events = POLLIN};

	return f->leader >= 0 && poll(&p, 1, 0) != 1;
}

static bool is_open(void *self)
{
	struct family *f = self;
	uint64_t now = sp_clock_mono_ns();

	if (f->members != NULL)
		return true;
	if (f->linger_ns == 0)
		f->linger_ns = now + LINGER_NS;
	if (f->listener >= 0 && leader_lives(f) && now < f->linger_ns)
		return true;
	close_door(f);
	return f->members != NULL;
}

/* Leaves a descriptor to refuse the next process, and some to read files of the members. */
static uint32_t most_members(const struct sp_config *config)
{
	struct rlimit limit = {.rlim_cur = 0};

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	if (sp_config_wants_waits(config))
		limit.rlim_cur -= limit.rlim_cur / DESCRIPTORS_THREADS;
	if (limit.rlim_cur >= DESCRIPTORS_OTHER + SP_FAMILY_MAX * DESCRIPTORS)
		return SP_FAMILY_MAX;
	if (limit.rlim_cur < DESCRIPTORS_OTHER + DESCRIPTORS)
		return 1;
	return (uint32_t)(limit.rlim_cur - DESCRIPTORS_OTHER) / DESCRIPTORS;
}

/*
 * If we are the leader's child, the leader may wait for our end, so we do not wait for the
 * leader's.
 */
static int find_leader(const struct sp_member *first)
{
	pid_t pid = first->view.region->program_pid;

	if (pid <= 0 || pid == getppid())
		return -1;
	return (int)syscall(PIDFD_OPEN_NR, pid, 0);
}

/*
 * 0 or a negative errno for the first process, as sp_member_open(); fini() has to be called after
 * both.
 */
static int init(struct family *f, const struct sp_host_descriptors *first, int listener,
		const struct sp_config *config)
{
	struct sp_member *m = calloc(1, sizeof(*m));
	struct epoll_event asked = {.events = EPOLLIN};
	struct epoll_event gone = {.events = EPOLLIN | EPOLLONESHOT};
	int err;

	*f = (struct family){
		.ops = {.arg = f,
			.ends_process = true,
			.wait = wait_for_family,
			.wake = wake_family,
			.next = next,
			.ended = ended,
			.left = left,
			.open = is_open},
		.config = config,
		.hook = {.follow = follow, .end = begin_end, .find = find_member, .arg = f},
		.event = -1,
		.epoll = -1,
		.leader = -1,
		.listener = make_ours(listener),
		.environment = sp_family_environment(environ),
		.most = most_members(config),
	};
	if (m == NULL)
		return -ENOMEM;
	/*
	 * The host may have left out some of the descriptors in `first`. The next file that is
	 * opened would get such a number and pass for the host's. So the member checks its
	 * descriptors before any file is opened here.
	 */
	err = sp_member_open(m, first, config);
	f->confinement = m->host.confinement;
	append(f, m);
	f->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->event >= 0)
		f->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (err == 0 && (f->event < 0 || f->epoll < 0 ||
			 epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->event, &asked) != 0))
		err = -errno;
	listen_to(f, EPOLL_CTL_ADD, false);
	if (err == 0 && f->listener >= 0)
		f->leader = find_leader(m);
	if (f->leader >= 0)
		(void)epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->leader, &gone);
	if (err == 0) {
		sp_member_watch(m, f->event, &f->hook);
		wait_for_end(f, m);
	}
	return err;
}

/* err: why the remaining members cannot be served; 0 = they were served. */
static void fini(struct family *f, int err)
{
	while (f->members != NULL) {
		sp_member_send_end(f->members, err);
		forget(f, f->members);
	}
	close_listener(f);
	if (f->leader >= 0)
		(void)close(f->leader);
	if (f->epoll >= 0)
		(void)close(f->epoll);
	if (f->event >= 0)
		(void)close(f->event);
}

int sp_family_serve(const struct sp_host_descriptors *first, int listener,
		    sp_family_configure configure)
{
	struct family family;
	int err = init(&family, first, listener, configure());

	if (err == 0)
		err = sp_export_run(&family.ops);
	fini(&family, err);
	return err;
}
