/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the process and the thread context of a process from outside, like an eBPF profiler, and checks them.
 *
 *   context-reader process PID               writes the message ProcessContext to standard output.
 *                                            Exit status 3: there is no mapping; 4: several.
 *   context-reader thread PID                prints the record of the process's first thread: none,
 *                                            invalid, or "valid TRACE SPAN ROOT".
 *   context-reader watch PID ADDRESS STOPS SECONDS
 *                                            stops the threads of "context flip" one after the
 *                                            other, that often or for so long, and until each state was seen
 *                                            (for one more minute at the most), and compares each one's record with
 *                                            the host's own state, and with the ids that the SDK's
 *                                            stand-in makes: each contains its span's number. Prints
 *                                            the number of records for each number of open spans.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "test/context/elf_tls.h"
#include "test/context/truth.h"

#define PAYLOAD_MAX 65536
#define RECORD_MAX 640
#define TRIES_MAX 20
#define MORE_SECONDS 60

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static bool read_memory(pid_t pid, uint64_t address, void *out, size_t bytes)
{
	struct iovec to = {out, bytes};
	struct iovec from = {(void *)(uintptr_t)address, bytes};

	return process_vm_readv(pid, &to, 1, &from, 1, 0) == (ssize_t)bytes;
}

/* The number of mappings with the name; *at is the first one's begin. */
static unsigned mappings(pid_t pid, uint64_t *at)
{
	static const char *const names[] = {"[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]",
					    "/memfd:OTEL_CTX"};
	char line[4096];
	char path[64];
	unsigned n = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (maps == NULL)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), maps) != NULL) {
		bool is_one = false;

		for (unsigned i = 0; i < 3; i++)
			is_one |= strstr(line, names[i]) != NULL;
		if (is_one && n++ == 0)
			*at = strtoull(line, NULL, 16);
	}
	fclose(maps);
	return n;
}

struct header {
	char signature[8];
	uint32_t version;
	uint32_t bytes;
	uint64_t time;
	uint64_t payload;
};

static int process_context(pid_t pid)
{
	static char payload[PAYLOAD_MAX];
	uint64_t at = 0;
	unsigned n = mappings(pid, &at);
	struct header h;

	if (n != 1)
		return n == 0 ? 3 : 4;
	if (!read_memory(pid, at, &h, sizeof(h)) || memcmp(h.signature, "OTEL_CTX", 8) != 0)
		die("no header");
	if (h.version != 2 || h.bytes == 0 || h.bytes > PAYLOAD_MAX || h.time == 0)
		die("version %u, %u bytes, time %" PRIu64, h.version, h.bytes, h.time);
	if (!read_memory(pid, h.payload, payload, h.bytes))
		die("the payload cannot be read");
	return fwrite(payload, 1, h.bytes, stdout) == h.bytes ? 0 : 1;
}

/* A span's number, if test/hosts/lib/fixture_spans.c in that process made the id. */
static uint32_t number_of(uint64_t id, pid_t pid, unsigned kind)
{
	id = id ^ id >> 31 ^ id >> 62;
	id *= UINT64_C(0x319642b2d24d8ec3);
	id = id ^ id >> 27 ^ id >> 54;
	id *= UINT64_C(0x96de1b173f119089);
	id = id ^ id >> 30 ^ id >> 60;
	if (id >> 34 != (uint64_t)pid || (id & 3) != kind)
		die("an id that the SDK has not made");
	return (uint32_t)(id >> 2);
}

static uint64_t big_endian(const uint8_t *bytes)
{
	uint64_t n = 0;

	for (int i = 0; i < 8; i++)
		n = n << 8 | bytes[i];
	return n;
}

struct record {
	bool there;
	bool valid;
	uint8_t bytes[RECORD_MAX];
	char root[17];
};

static uint64_t thread_pointer(pid_t tid)
{
#if defined(__x86_64__)
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) != 0)
		die("PTRACE_GETREGS: %s", strerror(errno));
	return regs.fs_base;
#else
	uint64_t tp = 0;
	struct iovec v = {&tp, sizeof(tp)};

	if (ptrace(PTRACE_GETREGSET, tid, 0x401 /* NT_ARM_TLS */, &v) != 0)
		die("PTRACE_GETREGSET: %s", strerror(errno));
	return tp;
#endif
}

static void read_record(pid_t tid, int64_t offset, struct record *r)
{
	uint64_t at = 0;
	uint16_t bytes;

	memset(r, 0, sizeof(*r));
	if (!read_memory(tid, thread_pointer(tid) + (uint64_t)offset, &at, sizeof(at)))
		die("the variable of thread %d cannot be read", (int)tid);
	r->there = at != 0;
	if (at == 0)
		return;
	if (!read_memory(tid, at, r->bytes, 28))
		die("the record of thread %d cannot be read", (int)tid);
	memcpy(&bytes, r->bytes + 26, sizeof(bytes));
	r->valid = r->bytes[24] == 1;
	if (!r->valid)
		return;
	if (bytes != 18 || !read_memory(tid, at + 28, r->bytes + 28, bytes))
		die("%u bytes of attributes", bytes);
	if (r->bytes[25] != 1 || r->bytes[28] != 0 || r->bytes[29] != 16)
		die("flags %u, attribute %u of %u bytes", r->bytes[25], r->bytes[28], r->bytes[29]);
	memcpy(r->root, r->bytes + 30, 16);
}

static void seize(pid_t tid)
{
	if (ptrace(PTRACE_SEIZE, tid, 0, 0) != 0)
		die("PTRACE_SEIZE %d: %s", (int)tid, strerror(errno));
}

static void go_on(pid_t tid, int signo)
{
	if (ptrace(PTRACE_CONT, tid, 0, signo) != 0)
		die("PTRACE_CONT %d: %s", (int)tid, strerror(errno));
}

/*
 * A thread also stops for its own signals, such as the profiler's, and then a request to stop remains for the next
 * time. A stop that was not requested is continued.
 */
static void clear_stops(pid_t tid)
{
	int status = 0;

	while (waitpid(tid, &status, __WALL | WNOHANG) == tid && WIFSTOPPED(status))
		go_on(tid, status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status));
}

/* Returns the signal with which the thread has to continue, or 0. */
static int stop(pid_t tid)
{
	int status = 0;

	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0)
		die("PTRACE_INTERRUPT %d: %s", (int)tid, strerror(errno));
	if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
		die("thread %d does not stop", (int)tid);
	return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
}

/*
 * All ids of a valid record belong to one span: its own id, and its root's. Returns the span's depth below the root.
 */
static uint32_t check_ids(pid_t pid, const struct record *r)
{
	uint32_t trace = number_of(big_endian(r->bytes), pid, 1);
	uint32_t trace_too = number_of(big_endian(r->bytes + 8), pid, 2);
	uint32_t span = number_of(big_endian(r->bytes + 16), pid, 3);
	uint32_t root = number_of(strtoull(r->root, NULL, 16), pid, 3);

	if (trace != trace_too || trace != root || span < root)
		die("ids of several spans: %u %u, span %u, root %u", trace, trace_too, span, root);
	return span - root;
}

static unsigned seen[4];

static void judge(pid_t pid, const struct record *r, uint32_t open)
{
	bool is_root = r->valid && check_ids(pid, r) == 0;

	if ((open & TRUTH_CHANGING) != 0) {
		seen[3]++;
		return;
	}
	if (open > 2)
		die("the host says %u", open);
	seen[open]++;
	if (r->valid != (open > 0))
		die("%u open spans, and the record is %svalid", open, r->valid ? "" : "not ");
	if (r->valid && is_root != (open == 1))
		die("%u open spans, and the record is of %s", open,
		    is_root ? "the root" : "a child");
}

/*
 * On a busy machine a thread may be stopped again before it has run at all. So it gets some time to go on, and then a
 * varying extra time.
 */
static void let_run(pid_t tid, uint64_t address, const struct truth *before, unsigned long n)
{
	const struct timespec pause = {0, 20000};
	struct truth now;

	for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
		clear_stops(tid);
		if (!read_memory(tid, address, &now, sizeof(now)))
			die("the host's words cannot be read");
		if (now.changes != before->changes)
			break;
		/* A yield would wait until all others had their turn, which takes long on a busy machine. */
		nanosleep(&pause, NULL);
	}
	for (volatile unsigned long i = 0; i < n * 7919 % 3000; i++)
		;
}

/* On a busy machine few stops fit into the time. */
static bool goes_on(bool has_room, time_t end)
{
	bool saw_all = seen[0] > 0 && seen[1] > 0 && seen[2] > 0 && seen[3] > 0;
	time_t now = time(NULL);

	return (has_room && now <= end) || (!saw_all && now <= end + MORE_SECONDS);
}

static int watch(pid_t pid, uint64_t address, unsigned long stops, time_t seconds)
{
	time_t end = time(NULL) + seconds;
	struct truth truth[TRUTH_THREADS];
	int signo[TRUTH_THREADS];
	int64_t offset = 0;
	struct record r;

	if (!elf_tls_find(pid, &offset))
		die("no object defines the variable");
	if (!read_memory(pid, address, truth, sizeof(truth)))
		die("the host's words cannot be read");
	for (int i = 0; i < TRUTH_THREADS; i++) {
		seize((pid_t)truth[i].tid);
		signo[i] = stop((pid_t)truth[i].tid);
	}
	/* Two of them run at a time: with more, each stop would take as long as their time slices. */
	go_on((pid_t)truth[0].tid, signo[0]);
	for (unsigned long n = 0; goes_on(n < stops, end); n++) {
		unsigned next = (unsigned)((n + 1) % TRUTH_THREADS);
		unsigned i = (unsigned)(n % TRUTH_THREADS);
		pid_t tid = (pid_t)truth[i].tid;

		go_on((pid_t)truth[next].tid, signo[next]);
		let_run(tid, address + i * sizeof(truth[0]), &truth[i], n);
		signo[i] = stop(tid);
		if (!read_memory(tid, address + i * sizeof(truth[0]), &truth[i], sizeof(truth[i])))
			die("the host's words cannot be read");
		read_record(tid, offset, &r);
		judge(pid, &r, truth[i].open);
	}
	printf("none %u\nroot %u\nchild %u\nchanging %u\n", seen[0], seen[1], seen[2], seen[3]);
	return 0;
}

static int thread(pid_t pid)
{
	int64_t offset = 0;
	struct record r;
	int signo;

	if (!elf_tls_find(pid, &offset))
		die("no object defines the variable");
	seize(pid);
	signo = stop(pid);
	read_record(pid, offset, &r);
	go_on(pid, signo);
	if (!r.valid) {
		puts(r.there ? "invalid" : "none");
		return 0;
	}
	fputs("valid ", stdout);
	for (int i = 0; i < 24; i++)
		printf(i == 16 ? " %02x" : "%02x", r.bytes[i]);
	printf(" %s\n", r.root);
	return 0;
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 2 ? (pid_t)atoi(argv[2]) : 0;

	if (argc == 3 && strcmp(argv[1], "process") == 0)
		return process_context(pid);
	if (argc == 3 && strcmp(argv[1], "thread") == 0)
		return thread(pid);
	if (argc == 6 && strcmp(argv[1], "watch") == 0)
		return watch(pid, strtoull(argv[3], NULL, 16), strtoul(argv[4], NULL, 10),
			     atoi(argv[5]));
	die("usage: context-reader process|thread PID, or watch PID ADDRESS STOPS SECONDS");
}
