/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "export/exporter/family.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "export/exporter/join.h"
#include "export/exporter/limits.h"
#include "export/exporter/rights.h"
#include "export/util/clock.h"

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

/* Other processes may have copies of a descriptor, with which it would stay in the set after it is closed. */
static void forget_descriptor(const struct sp_family *f, int fd)
{
	if (fd >= 0)
		(void)epoll_ctl(f->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* Once: its end is told by a pidfd that stays readable from then on. */
static void wait_for_end(const struct sp_family *f, struct sp_member *m)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = m};

	m->waiter.is_told_of_end =
		m->host.pidfd >= 0 && epoll_ctl(f->epoll, EPOLL_CTL_ADD, m->host.pidfd, &e) == 0;
}

static void listen_to(const struct sp_family *f, int operation, bool is_deaf)
{
	struct epoll_event e = {.events = is_deaf ? 0 : EPOLLIN};

	if (f->listener >= 0)
		(void)epoll_ctl(f->epoll, operation, f->listener, &e);
}

static void close_listener(struct sp_family *f)
{
	forget_descriptor(f, f->listener);
	if (f->listener >= 0)
		(void)close(f->listener);
	f->listener = -1;
}

/* Besides that one. */
static bool serves_others(const struct sp_family *f, const struct sp_waiter *process)
{
	for (const struct sp_member *m = f->members; m != NULL; m = m->next)
		if (&m->waiter != process && m->waiter.view != NULL && !m->waiter.gone)
			return true;
	return false;
}

/*
 * A worker that became another user would take us with it, away from the others, as each process needs an
 * exporter with at most its own rights. So we follow only a process that is alone. Rights are each
 * thread's own. Whoever looks for us looks for the user that we were.
 */
static int follow(void *self, const struct sp_waiter *process)
{
	struct sp_family *f = self;
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

static void count(struct sp_family *f, const struct sp_member *m)
{
	f->count++;
	f->bytes += m->view.bytes;
}

static void discount(struct sp_family *f, const struct sp_member *m)
{
	f->count--;
	f->bytes -= m->view.bytes;
}

static void append(struct sp_family *f, struct sp_member *m)
{
	struct sp_member **at = &f->members;

	while (*at != NULL)
		at = &(*at)->next;
	*at = m;
	count(f, m);
}

static void forget(struct sp_family *f, struct sp_member *m, int err)
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
	sp_member_close(m, err);
	free(m);
}

/*
 * It starts an exporter of its own, or the next one of the family where this one ends. Of another
 * build the words lie elsewhere.
 */
static void refuse(const struct sp_family *f, struct sp_view *v, int err)
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
static bool may_join(const struct sp_family *f, const struct sp_member *m, const struct sp_join *j)
{
	return m->host.pid == j->pid && m->host.pid != (uint32_t)getppid() &&
	       m->view.bytes <= SP_LIMITS_REGIONS - f->bytes && sp_rights_compare(&m->host) == 0;
}

/* Of those of no family, and of those for whom there is no room, nothing is opened but the region. */
static void turn_away(const struct sp_family *f, const struct sp_join *j)
{
	struct sp_view v;

	refuse(f, &v, sp_view_open(&v, j->fds.region));
	sp_view_close(&v);
	sp_host_decline(&j->fds);
}

static void join(struct sp_family *f, const struct sp_join *j)
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
		sp_member_abandon(m);
		free(m);
		return;
	}
	append(f, m);
	sp_member_watch(m, f->event, &f->hook);
	wait_for_end(f, m);
	f->linger_ns = 0;
}

static void let_join(struct sp_family *f)
{
	uint64_t begun = sp_clock_mono_ns();
	struct sp_join j;

	for (unsigned i = 0; f->listener >= 0 && i < JOINS_MAX; i++) {
		int err = sp_join_take(f->listener, f->environment, &j);

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
static void close_door(struct sp_family *f)
{
	if (f->listener < 0)
		return;
	(void)shutdown(f->listener, SHUT_RDWR);
	let_join(f);
	close_listener(f);
}

static void begin_end(void *self)
{
	struct sp_family *f = self;

	f->hook.ends = true;
	close_door(f);
}

static void wait_for_family(void *self, uint32_t timeout_ms)
{
	struct sp_family *f = self;
	struct epoll_event event[EVENTS];
	uint32_t ms =
		f->members == NULL && f->linger_ns != 0 ? LINGER_NS / SP_NS_PER_MS : timeout_ms;
	uint64_t told;
	int n;

	if (f->deaf_until_ns != 0 && sp_clock_mono_ns() >= f->deaf_until_ns) {
		f->deaf_until_ns = 0;
		listen_to(f, EPOLL_CTL_MOD, false);
	}
	if (f->deaf_until_ns != 0 && ms > DEAF_NS / SP_NS_PER_MS)
		ms = DEAF_NS / SP_NS_PER_MS;
	n = epoll_wait(f->epoll, event, EVENTS, ms < INT32_MAX ? (int)ms : INT32_MAX);
	for (int i = 0; i < n; i++)
		if (event[i].data.ptr != NULL)
			((struct sp_member *)event[i].data.ptr)->waiter.has_died = true;
	/* It does not block; how often somebody asked is of no interest. */
	if (n > 0 && read(f->event, &told, sizeof(told)) < 0)
		errno = 0;
	if (n > 0)
		let_join(f);
}

static const struct sp_core_ops *next(void *self)
{
	struct sp_family *f = self;

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
	struct sp_family *f = self;
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
	forget(self, ops->arg, err);
}

static bool leader_lives(const struct sp_family *f)
{
	struct pollfd p = {.fd = f->leader, .events = POLLIN};

	return f->leader >= 0 && poll(&p, 1, 0) != 1;
}

static bool is_open(void *self)
{
	struct sp_family *f = self;
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

int sp_family_init(struct sp_family *f, const struct sp_host_descriptors *first, int listener,
		   const struct sp_config *config)
{
	struct sp_member *m = calloc(1, sizeof(*m));
	struct epoll_event asked = {.events = EPOLLIN};
	struct epoll_event gone = {.events = EPOLLIN | EPOLLONESHOT};
	int err;

	*f = (struct sp_family){
		.ops = {.arg = f,
			.wait = wait_for_family,
			.next = next,
			.ended = ended,
			.left = left,
			.open = is_open},
		.config = config,
		.hook = {.follow = follow, .end = begin_end, .arg = f},
		.event = -1,
		.epoll = -1,
		.leader = -1,
		.listener = sp_join_listen(listener),
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

void sp_family_fini(struct sp_family *f, int err)
{
	while (f->members != NULL)
		forget(f, f->members, err);
	close_listener(f);
	if (f->leader >= 0)
		(void)close(f->leader);
	if (f->epoll >= 0)
		(void)close(f->epoll);
	if (f->event >= 0)
		(void)close(f->event);
}
