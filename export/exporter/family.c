/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "export/exporter/family.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "export/exporter/limits.h"
#include "export/exporter/member.h"
#include "export/exporter/rights.h"
#include "export/util/clock.h"
#include "export/util/turn.h"
#include "region_version.h"
#include "sampler/region/region.h"

#define PIDFD_OPEN_NR 434L /* the same everywhere; headers may be older */
/*
 * Servers that fork for each request, or replace their workers, have moments without a child that
 * records spans. To start an exporter takes 20 ms of CPU time, to stay for a while costs nothing.
 */
#define LINGER_NS (10 * SP_NS_PER_S)
/* In a row; then those that are there have their turn. */
#define JOINS_MAX 64U
#define JOINS_NS (100 * SP_NS_PER_MS)
/* A socket whose processes cannot be accepted stays readable, and is not looked at for so long. */
#define DEAF_NS SP_NS_PER_S
/* At once; of more, the next wait tells. */
#define EVENTS 64
/* Of each member: its pidfd, its folder, its memory map, its status. */
#define DESCRIPTORS 4U
/* For connections, files that are read, and what libraries open. */
#define DESCRIPTORS_OTHER 64U
/* A share of the limit, which off_cpu/ uses for files of threads. */
#define DESCRIPTORS_THREADS 8U

/*
 * Processes that want to be served connect to the socket of their family and hand over their region
 * (sampler/region/region.h). Any process of any user may connect, so all of it is checked.
 */
#define BACKLOG 4096
#define HANDED 3U /* descriptors */
/* Of a process of our user that has connected and was preempted before it sent anything. */
#define PATIENCE_US 50000

struct join {
	struct sp_host_descriptors fds;
	uint32_t pid;      /* the kernel's word */
	bool is_of_family; /* the same program and environment; of others nothing may be opened */
};

/*
 * Makes the socket ours: who connects from now on is told our process number. -1, and closes it, if it is
 * not one that listens.
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

/* What came with a message, if that is a whole one; else all of it is closed. */
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

static int receive(int connection, struct sp_family_join *message, int fd[HANDED])
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
	struct iovec part = {.iov_base = message, .iov_len = sizeof(*message)};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(connection, &m, MSG_CMSG_CLOEXEC);

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

static int take(int connection, uint64_t environment, struct join *out)
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
	 * Of strangers nothing is received: to close a descriptor of a file system in user space is to
	 * wait for the process that serves it. Never received, it is dropped without asking that one.
	 */
	if (who.uid != geteuid())
		return -EPROTO;
	if (setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0)
		return -EPROTO;
	err = receive(connection, &message, fd);
	if (err != 0)
		return err;
	*out = (struct join){
		.fds = {.region = fd[0], .folder = fd[1], .maps = fd[2], .joined = true},
		.pid = (uint32_t)who.pid,
		/* In another pid namespace it would have another number there. */
		.is_of_family = who.pid > 0 && (uint32_t)who.pid == message.pid &&
				message.environment == environment,
	};
	return 0;
}

/*
 * The next one that has come. environment: of ours, see sp_family_environment(). 0; -EAGAIN there is none;
 * -EMFILE there may be one, but nothing is left to take it by, and the socket stays readable; -EPROTO: there
 * was one, but it handed over nothing, or is of another user. Waits up to 50 ms for one of our user that was slow.
 */
static int next_join(int listener, uint64_t environment, struct join *out)
{
	int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	int err;

	if (connection < 0 && (errno == EINTR || errno == ECONNABORTED))
		return -EPROTO;
	/* Shut down, it says EINVAL when nobody is left in it. */
	if (connection < 0)
		return errno == EAGAIN || errno == EINVAL ? -EAGAIN : -EMFILE;
	err = take(connection, environment, out);
	(void)close(connection);
	return err;
}

struct family {
	struct sp_export_family ops;
	const struct sp_config *config;
	struct sp_member *members; /* oldest first */
	uint32_t count;            /* without those that have ended */
	uint32_t most;             /* members */
	uint64_t bytes;            /* of their regions, SP_LIMITS_REGIONS at most */
	struct sp_family_hook hook;
	int event;    /* an eventfd: a member asks for something */
	int epoll;    /* it, the listener, and the pidfds of the leader and of the members */
	int listener; /* -1 = nobody can join */
	uint64_t deaf_until_ns; /* nobody can be accepted until then; 0 = at once */
	uint64_t environment;   /* sp_family_environment() of ours */
	int leader; /* a pidfd of the process that executed the program; -1 = gone, or unknown */
	uint64_t linger_ns; /* until when somebody may come while there is nobody; 0 = not set */
};

/* Other processes may have copies of a descriptor, with which it would stay in the set after it is closed. */
static void forget_descriptor(const struct family *f, int fd)
{
	if (fd >= 0)
		(void)epoll_ctl(f->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* Once: its end is told by a pidfd that stays readable from then on. */
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

/* Besides that one. */
static bool serves_others(const struct family *f, const struct sp_waiter *process)
{
	for (const struct sp_member *m = f->members; m != NULL; m = m->next)
		if (&m->waiter != process && m->waiter.view != NULL && !m->waiter.gone)
			return true;
	return false;
}

/*
 * A worker that became another user would take us with it, away from the others, as each process needs an
 * exporter with at most its own rights. So we follow only a process that is alone. Rights are each
 * thread's own: the calling one follows, and with it those that watch. Whoever looks for us looks for the user that
 * we were.
 */
static int follow(void *self, const struct sp_waiter *process)
{
	struct family *f = self;
	uid_t user = geteuid();
	int err;

	if (serves_others(f, process))
		return -EBUSY;
	for (struct sp_member *m = f->members; m != NULL; m = m->next)
		sp_watch_stop(&m->waiter.watch);
	err = sp_rights_follow();
	if (geteuid() != user)
		close_listener(f);
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
 * It starts an exporter of its own, or the next one of the family where this one ends. Of another
 * build the words lie elsewhere.
 */
static void refuse(const struct family *f, struct sp_view *v, int err)
{
	if (v->region != NULL && err != -EPROTO)
		(void)sp_view_answer(v, f->hook.ends ? SP_EXPORTER_MOVED : SP_EXPORTER_REFUSED);
}

/* A process that has waited for too long goes on without us, and its region is none of ours then. */
static bool take_in(struct sp_member *m)
{
	atomic_store_explicit(&m->view.region->exporter_began, sp_host_own_start(),
			      memory_order_relaxed);
	atomic_store_explicit(&m->view.region->exporter_pid, getpid(), memory_order_relaxed);
	m->working = sp_view_answer(&m->view, SP_EXPORTER_WORKING);
	return m->working;
}

/*
 * Whoever has fewer rights than we have must not get files opened by ours, and our parent would find us
 * among its children when it waits for them.
 */
static bool may_join(const struct family *f, const struct sp_member *m, const struct join *j)
{
	return m->host.pid == j->pid && m->host.pid != (uint32_t)getppid() &&
	       m->view.bytes <= SP_LIMITS_REGIONS - f->bytes && sp_rights_compare(&m->host) == 0;
}

/* Of those of no family, and of those for whom there is no room, nothing is opened but the region. */
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

static void let_join(struct family *f)
{
	uint64_t begun = sp_clock_mono_ns();
	struct join j;

	for (unsigned i = 0; f->listener >= 0 && i < JOINS_MAX; i++) {
		int err = next_join(f->listener, f->environment, &j);

		if (err == -EMFILE) {
			f->deaf_until_ns = sp_clock_mono_ns() + DEAF_NS;
			listen_to(f, EPOLL_CTL_MOD, true);
		}
		if (err == -EAGAIN || err == -EMFILE)
			return;
		if (err == 0)
			join(f, &j);
		if (sp_clock_mono_ns() - begun > JOINS_NS)
			return;
	}
}

/* Nobody can connect any more; who has before is in the queue still. */
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

static void wait_for_family(void *self, uint32_t timeout_ms)
{
	struct family *f = self;
	struct epoll_event event[EVENTS];
	uint32_t ms =
		f->members == NULL && f->linger_ns != 0 ? LINGER_NS / SP_NS_PER_MS : timeout_ms;
	uint64_t told;
	bool had;
	int n;

	if (f->deaf_until_ns != 0 && sp_clock_mono_ns() >= f->deaf_until_ns) {
		f->deaf_until_ns = 0;
		listen_to(f, EPOLL_CTL_MOD, false);
	}
	if (f->deaf_until_ns != 0 && ms > DEAF_NS / SP_NS_PER_MS)
		ms = DEAF_NS / SP_NS_PER_MS;
	had = sp_turn_set(false);
	n = epoll_wait(f->epoll, event, EVENTS, ms < INT32_MAX ? (int)ms : INT32_MAX);
	(void)sp_turn_set(had);
	for (int i = 0; i < n; i++)
		if (event[i].data.ptr != NULL)
			((struct sp_member *)event[i].data.ptr)->waiter.has_died = true;
	/* It does not block; how often somebody asked is of no interest. */
	if (n > 0 && read(f->event, &told, sizeof(told)) < 0)
		errno = 0;
	if (n > 0)
		let_join(f);
}

static void wake_family(void *self)
{
	const struct family *f = self;
	const uint64_t one = 1;

	/* If its counter is full, it is awake. */
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

	sp_member_tell_end(m, err);
	/* The host waits for our end, which gives everything back sooner than we could. */
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

/* So many that there is always a descriptor left to refuse the next one, and to look at the others. */
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

/* Where we are its child, it may wait for us to end. */
static int find_leader(const struct sp_member *first)
{
	pid_t pid = first->view.region->program_pid;

	if (pid <= 0 || pid == getppid())
		return -1;
	return (int)syscall(PIDFD_OPEN_NR, pid, 0);
}

/* 0 or a negative errno for the first process, as sp_member_open(); fini() is right after either. */
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
		.hook = {.follow = follow, .end = begin_end, .arg = f},
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
	 * The host may have left out descriptors of those in first. Their numbers are free then, and
	 * the next file that is opened gets one of them and would be taken for the host's. So the
	 * member looks at its descriptors before anything is opened here.
	 */
	err = sp_member_open(m, first, config);
	append(f, m);
	f->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (err == 0 && (f->event < 0 || f->epoll < 0 ||
			 epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->event, &asked) != 0))
		err = -ENOMEM;
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

/* err: why those that are left cannot be served; 0 = they have been. */
static void fini(struct family *f, int err)
{
	while (f->members != NULL) {
		sp_member_tell_end(f->members, err);
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
