/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes below a host (descendants.h). The kernel counts the CPU time of each living
 * process. When a process has ended and its parent has waited for it, the kernel adds its time to
 * the parent's sum of ended children. The exporter follows each process that it has seen until its
 * end, and subtracts from that sum the time that the process had at the last look. The rest of the
 * sum belongs to processes that no look has seen.
 *
 * A program chooses its own name, and may write anything into its files in /proc. Names are
 * bounded, and made printable before they are shown. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/exporter/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "export/util/clock.h"
#include "sampler/base/compiler.h"
#include "sampler/base/process.h"

/* At most this many processes are known at a time. */
#define PROCESSES_MAX 256U
#define PROCESSES_FIRST 4U
/* At most this many threads of a process are asked for their children. */
#define TASKS_MAX 64U
/* CPU time of the exporter: on a busy machine it waits for a processor meanwhile. */
#define LOOK_MOST_NS (5 * SP_NS_PER_MS)
/* At most this much of a memory map or an environment is read. */
#define TEXT_MOST ((size_t)1 << 20)
#define OBJECT "/libspanprof"
/*
 * A program that was just executed has loaded no object yet. A process counts as unprofiled if two
 * looks found it without our object, or if it has used this much CPU time.
 */
#define YOUNG_NS (100 * SP_NS_PER_MS)

struct process {
	uint32_t pid;
	uint32_t parent;
	uint64_t start; /* start time, as in its stat file */
	uint64_t stack;
	char name[SP_PROGRAM_NAME];
	enum sp_unprofiled why;
	bool is_confirmed;
	bool has_ended;
	bool is_told; /* its exporter has told its end: own_ns is all CPU time that it has used */
	uint64_t own_ns;
	uint64_t waited_ns; /* CPU time of the children that it has waited for */
};

struct sp_descendants {
	struct process *process; /* grows when processes come */
	unsigned room;
	unsigned n;
	struct sp_core_program ended[SP_PROGRAMS_MAX]; /* processes that have ended, by name */
	unsigned programs;
	uint32_t host;
	uint64_t own_ns;
	uint64_t waited_ns; /* CPU time of the children that the host has waited for */
	uint64_t known_ns;  /* the part of waited_ns whose processes were known */
};

struct sp_descendants *sp_descendants_new(void)
{
	return calloc(1, sizeof(struct sp_descendants));
}

void sp_descendants_free(struct sp_descendants *d)
{
	if (d != NULL)
		free(d->process);
	free(d);
}

static ssize_t read_file(int root, uint32_t pid, const char *name, char *buf, size_t cap)
{
	struct sp_host process;
	char path[32];
	ssize_t got;

	(void)snprintf(path, sizeof(path), "%" PRIu32, pid);
	process.proc = openat(root, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (process.proc < 0)
		return -errno;
	got = sp_host_read(&process, name, buf, cap);
	(void)close(process.proc);
	return got;
}

static uint64_t ticks_ns(uint64_t ticks)
{
	return ticks * (SP_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void take_times(const char *stat, uint64_t *own_ns, uint64_t *waited_ns)
{
	char state;

	*own_ns = ticks_ns(sp_proc_stat(stat, SP_STAT_USER, &state) +
			   sp_proc_stat(stat, SP_STAT_SYSTEM, &state));
	*waited_ns = ticks_ns(sp_proc_stat(stat, SP_STAT_WAITED_USER, &state) +
			      sp_proc_stat(stat, SP_STAT_WAITED_SYSTEM, &state));
}

static void take_name(const char *stat, char name[SP_PROGRAM_NAME])
{
	const char *begin = strchr(stat, '(');
	const char *end = strrchr(stat, ')');
	size_t len = begin != NULL && end > begin ? (size_t)(end - begin - 1) : 0;

	memset(name, 0, SP_PROGRAM_NAME);
	if (len != 0)
		memcpy(name, begin + 1, len < SP_PROGRAM_NAME ? len : SP_PROGRAM_NAME - 1);
}

/* False if the process is gone, or another one has its number. */
static bool read_process(int root, struct process *p)
{
	char text[1024];
	uint64_t start;
	char state;

	if (read_file(root, p->pid, "stat", text, sizeof(text)) <= 0)
		return false;
	start = sp_proc_stat(text, SP_STAT_START, &state);
	if (start == 0 || (p->start != 0 && p->start != start) || state == 'X')
		return false;
	p->start = start;
	p->parent = (uint32_t)sp_proc_stat(text, SP_STAT_PARENT, &state);
	p->stack = sp_proc_stat(text, SP_STAT_STACK, &state);
	take_name(text, p->name);
	if (!p->is_told)
		take_times(text, &p->own_ns, &p->waited_ns);
	return true;
}

/*
 * Checks that memory looks as the kernel lays out the variables of a program: strings NAME=VALUE,
 * each followed by a NUL.
 */
struct variables {
	bool in_string;
	bool has_equals;
	bool is_broken;
};

static void take_variables(struct variables *v, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		v->is_broken |= text[i] == '\0' && !v->has_equals;
		v->has_equals = text[i] != '\0' && (v->has_equals || text[i] == '=');
		v->in_string = text[i] != '\0';
	}
}

/*
 * Whether the file contains the text, which may be between NUL bytes. -1 = it cannot be read, or is
 * empty. variables: also checks that the file has the form of variables; NULL = no check.
 */
static int file_has(int root, uint32_t pid, const char *name, const char *text,
		    struct variables *variables)
{
	char path[64];
	char buf[8192];
	size_t len = strlen(text);
	size_t have = 0;
	size_t sum = 0;
	ssize_t got = 0;
	bool found = false;
	int fd;

	(void)snprintf(path, sizeof(path), "%" PRIu32 "/%s", pid, name);
	errno = 0;
	fd = openat(root, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	while (fd >= 0 && !found && sum < TEXT_MOST &&
	       (got = read(fd, buf + have, sizeof(buf) - have)) > 0) {
		if (variables != NULL)
			take_variables(variables, buf + have, (size_t)got);
		have += (size_t)got;
		sum += (size_t)got;
		found = memmem(buf, have, text, len) != NULL;
		if (have >= len) {
			memmove(buf, buf + have - (len - 1), len - 1);
			have = len - 1;
		}
	}
	if (fd >= 0)
		(void)close(fd);
	return found ? 1 : fd < 0 || got < 0 || sum == 0 ? -1 : 0;
}

/*
 * Whether the variables of the process lack our object. A program that sets its title as
 * setproctitle() does overwrites its variables; then the answer is false, because they do not show
 * with which variables it was executed.
 */
static bool has_lost_object(int root, uint32_t pid)
{
	struct variables v = {.in_string = false};
	int has = file_has(root, pid, "environ", OBJECT, &v);

	return (has == 0 || (has < 0 && errno == 0)) && !v.is_broken && !v.in_string;
}

static enum sp_unprofiled find_reason(int root, uint32_t pid)
{
	ElfW(auxv_t) vector[64] = {{.a_type = AT_NULL}};
	bool is_lost = has_lost_object(root, pid);
	/* Read after the variables: if the process ends in between, both are empty. */
	ssize_t bytes = read_file(root, pid, "auxv", (char *)vector, sizeof(vector));
	bool has_loader = false;

	for (size_t i = 0; bytes > 0 && i < (size_t)bytes / sizeof(vector[0]); i++) {
		if (vector[i].a_type == AT_SECURE && vector[i].a_un.a_val != 0)
			return SP_UNPROFILED_SECURE;
		has_loader |= vector[i].a_type == AT_BASE && vector[i].a_un.a_val != 0;
	}
	if (bytes > 0 && !has_loader)
		return SP_UNPROFILED_STATIC;
	return bytes > 0 && is_lost ? SP_UNPROFILED_ENVIRONMENT : SP_UNPROFILED_OTHER;
}

struct look {
	struct sp_descendants *d;
	int root;
	uint32_t exporter; /* our number in that /proc; 0 = not visible */
	uint32_t keeper;   /* our parent, which may be a child of the host */
	bool (*is_served)(void *arg, uint32_t pid);
	void *arg;
	uint64_t end_ns;
};

/*
 * A process that has ended and is not waited for yet has no memory map any more, and counts as
 * profiled.
 */
static enum sp_unprofiled judge(const struct look *l, uint32_t pid)
{
	int has;

	if (l->is_served(l->arg, pid))
		return SP_UNPROFILED_NOT;
	has = file_has(l->root, pid, "maps", OBJECT, NULL);
	if (has < 0)
		return errno == EACCES || errno == EPERM ? SP_UNPROFILED_UNSEEN : SP_UNPROFILED_NOT;
	return has > 0 ? SP_UNPROFILED_NOT : find_reason(l->root, pid);
}

static struct process *find(struct sp_descendants *d, uint32_t pid)
{
	for (unsigned i = 0; i < d->n; i++)
		if (d->process[i].pid == pid)
			return &d->process[i];
	return NULL;
}

/*
 * Adds a process to the sum of its name and reason. When all places are taken, the last one is the
 * sum of all other programs.
 */
static void add_to(struct sp_core_program *list, unsigned *n, const char *name,
		   enum sp_unprofiled why, uint64_t ns)
{
	unsigned i = 0;

	while (i < *n && (list[i].why != why || strcmp(list[i].name, name) != 0))
		i++;
	if (i == SP_PROGRAMS_MAX) {
		i--;
		(void)snprintf(list[i].name, sizeof(list[i].name), "(other)");
		list[i].why = SP_UNPROFILED_OTHER;
	} else if (i == *n) {
		list[i] = (struct sp_core_program){.why = why};
		(void)snprintf(list[i].name, sizeof(list[i].name), "%s", name);
		(*n)++;
	}
	list[i].processes++;
	list[i].ns += ns;
}

static bool counts(const struct process *p)
{
	return p->why != SP_UNPROFILED_NOT &&
	       (p->is_confirmed || p->own_ns + p->waited_ns >= YOUNG_NS);
}

/*
 * A process has ended. If its parent lives, the parent's sum of ended children has its time from
 * now on.
 */
static void settle(struct sp_descendants *d, const struct process *p)
{
	const struct process *parent = find(d, p->parent);
	bool is_lost = parent == NULL || parent->has_ended;

	if (p->parent == d->host || (parent != NULL && parent->has_ended))
		d->known_ns +=
			counts(p) || p->why == SP_UNPROFILED_NOT ? p->own_ns + p->waited_ns : 0;
	if (counts(p) && is_lost)
		add_to(d->ended, &d->programs, p->name, p->why, p->own_ns + p->waited_ns);
}

static void refresh(const struct look *l)
{
	struct sp_descendants *d = l->d;
	unsigned kept = 0;

	for (unsigned i = 0; i < d->n; i++) {
		struct process *p = &d->process[i];
		struct process before = *p;

		p->has_ended = !read_process(l->root, p);
		if (p->has_ended ||
		    (p->stack == before.stack && strcmp(p->name, before.name) == 0 &&
		     (p->why == SP_UNPROFILED_NOT || p->is_confirmed)))
			continue;
		p->why = judge(l, p->pid);
		/*
		 * A process that has begun to exit has no map and no variables any more: the former
		 * reason stays.
		 */
		if (before.why != SP_UNPROFILED_NOT && p->stack == 0 && before.stack != 0)
			p->why = before.why;
		p->is_confirmed = p->why != SP_UNPROFILED_NOT && before.why != SP_UNPROFILED_NOT;
	}
	for (unsigned i = 0; i < d->n; i++)
		if (d->process[i].has_ended)
			settle(d, &d->process[i]);
	for (unsigned i = 0; i < d->n; i++)
		if (!d->process[i].has_ended)
			d->process[kept++] = d->process[i];
	d->n = kept;
}

static bool make_room(struct sp_descendants *d)
{
	unsigned room = d->room != 0 ? 2 * d->room : PROCESSES_FIRST;
	struct process *more;

	if (d->n < d->room || d->n == PROCESSES_MAX)
		return d->n < d->room;
	more = realloc(d->process, room * sizeof(*more));
	if (more == NULL)
		return false;
	d->process = more;
	d->room = room;
	return true;
}

static void meet(const struct look *l, uint32_t pid)
{
	struct sp_descendants *d = l->d;
	struct process p = {.pid = pid};

	if (pid == 0 || pid == d->host || pid == l->exporter || pid == l->keeper ||
	    find(d, pid) != NULL || !make_room(d) || !read_process(l->root, &p))
		return;
	p.why = judge(l, pid);
	d->process[d->n++] = p;
}

/* Finds the children of one thread, whose numbers the kernel lists. */
static void meet_children(const struct look *l, int tasks, const char *tid)
{
	char path[64];
	char text[4096];
	size_t have = 0;
	ssize_t got;
	int fd;

	(void)snprintf(path, sizeof(path), "%.20s/children", tid);
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	while (fd >= 0 && sp_clock_thread_ns() < l->end_ns && l->d->n < PROCESSES_MAX &&
	       (got = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		char *at = text;
		char *end;

		have += (size_t)got;
		text[have] = '\0';
		while ((end = strchr(at, ' ')) != NULL) {
			meet(l, (uint32_t)strtoul(at, NULL, 10));
			at = end + 1;
		}
		have = strlen(at);
		memmove(text, at, have);
	}
	if (fd >= 0)
		(void)close(fd);
}

static void look_below(const struct look *l, uint32_t pid)
{
	char path[32];
	const struct dirent *task;
	DIR *tasks;
	unsigned left = TASKS_MAX;
	int fd;

	(void)snprintf(path, sizeof(path), "%" PRIu32 "/task", pid);
	fd = openat(l->root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tasks = fd >= 0 ? fdopendir(fd) : NULL;
	if (tasks == NULL && fd >= 0)
		(void)close(fd);
	while (tasks != NULL && left != 0 && sp_clock_thread_ns() < l->end_ns &&
	       (task = readdir(tasks)) != NULL) {
		if (task->d_name[0] == '.')
			continue;
		meet_children(l, dirfd(tasks), task->d_name);
		left--;
	}
	if (tasks != NULL)
		(void)closedir(tasks);
}

/*
 * Finds our own number and the keeper's in that /proc. The keeper may be a child of the host, the
 * exporter is the keeper's child, and the keeper's map may be closed to us.
 */
static void find_ours(struct look *l)
{
	char text[1024] = "";
	char state;

	if (readlinkat(l->root, "self", text, sizeof(text) - 1) <= 0)
		return;
	l->exporter = (uint32_t)strtoul(text, NULL, 10);
	if (read_file(l->root, l->exporter, "stat", text, sizeof(text)) > 0)
		l->keeper = (uint32_t)sp_proc_stat(text, SP_STAT_PARENT, &state);
}

void sp_descendants_scan(struct sp_descendants *d, const struct sp_host *h,
			 bool (*is_served)(void *arg, uint32_t pid), void *arg)
{
	struct look l = {.d = d,
			 .root = -1,
			 .is_served = is_served,
			 .arg = arg,
			 .end_ns = sp_clock_thread_ns() + LOOK_MOST_NS};
	char text[1024];

	if (d == NULL || sp_host_read(h, "stat", text, sizeof(text)) <= 0)
		return;
	/* The numbers of the host's children are those of the /proc that its folder is in. */
	l.root = openat(h->proc, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (l.root < 0)
		return;
	d->host = (uint32_t)strtoul(text, NULL, 10);
	find_ours(&l);
	refresh(&l);
	/*
	 * Read after the children: the time of a child that ended in between is in this sum, and
	 * the child is known.
	 */
	if (sp_host_read(h, "stat", text, sizeof(text)) > 0)
		take_times(text, &d->own_ns, &d->waited_ns);
	/* The process's clock is exact; the file has whole ticks only. */
	if (sp_host_cpu_ns(h) != 0)
		d->own_ns = sp_host_cpu_ns(h);
	look_below(&l, h->pid);
	for (unsigned i = 0; i < d->n; i++)
		if (d->process[i].why != SP_UNPROFILED_NOT)
			look_below(&l, d->process[i].pid);
	(void)close(l.root);
}

void sp_descendants_ended(struct sp_descendants *d, uint32_t pid, uint64_t ns)
{
	struct process *p = d != NULL ? find(d, pid) : NULL;

	if (d == NULL)
		return;
	if (p == NULL) {
		d->known_ns += ns;
		return;
	}
	p->is_told = true;
	p->why = SP_UNPROFILED_NOT;
	p->own_ns = ns;
	p->waited_ns = 0;
}

void sp_descendants_results(const struct sp_descendants *d, struct sp_core_cpu *out)
{
	*out = (struct sp_core_cpu){.own_ns = 0};
	if (d == NULL)
		return;
	out->own_ns = d->own_ns;
	out->waited_ns = d->waited_ns;
	out->unknown_ns = d->waited_ns > d->known_ns ? d->waited_ns - d->known_ns : 0;
	memcpy(out->program, d->ended, sizeof(out->program));
	out->programs = d->programs;
	for (unsigned i = 0; i < d->n; i++)
		if (counts(&d->process[i]))
			add_to(out->program, &out->programs, d->process[i].name, d->process[i].why,
			       d->process[i].own_ns + d->process[i].waited_ns);
}
