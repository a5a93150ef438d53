/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter's two threads, with processes that come, put samples, ask for flushes and end at any time, and a
 * server that takes profiles, refuses them, or hangs up. For each process drained = sent + lost, exactly.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "export/export.h"
#include "export/util/clock.h"
#include "export/util/turn.h"

#define PROCESSES 12U
#define AT_ONCE 3U
#define LOOKS 60U /* looks of the exporter at each process before it ends */
#define SAMPLES 50U
#define STACKS 400U

struct process {
	struct sp_core_ops ops;
	uint64_t counter[SP_COUNTER_N];
	unsigned looks;
	uint64_t flush_until_ns;
	unsigned flushed;
	bool is_gone;
};

static struct sp_config config;
static struct process process[PROCESSES];
static unsigned come, gone;
static uint64_t state = 88172645463325252U;
static _Atomic bool is_over;

static unsigned any(unsigned n)
{
	return (unsigned)(sp_random_next(&state) % n);
}

static unsigned drain(void *self, void (*put)(const struct sp_record *record, void *arg), void *arg,
		      unsigned max)
{
	struct process *p = self;
	struct sp_record r = {.kind = SP_RECORD_SAMPLE};
	unsigned n = p->is_gone ? 0 : any(SAMPLES);

	n = n < max ? n : max;
	for (unsigned i = 0; i < n; i++) {
		r.sample.weight = 1;
		r.sample.depth = 2;
		r.sample.flags = SP_SAMPLE_ROOTED;
		r.sample.span_id = any(8);
		r.sample.name_id = any(3);
		r.sample.pc[0] = (uintptr_t)drain + any(STACKS);
		r.sample.pc[1] = (uintptr_t)malloc;
		put(&r, arg);
	}
	p->counter[SP_COUNT_SAMPLES_DRAINED] += n;
	return n;
}

static unsigned drain_snapshots(void *self, void (*put)(const struct sp_snapshot *s, void *arg),
				void *arg, unsigned max, bool *is_all)
{
	(void)self;
	(void)put;
	(void)arg;
	(void)max;
	*is_all = true;
	return 0;
}

static void repeat_events(void *self)
{
	(void)self;
}

static void tell_frame_tables(void *self, bool are_there)
{
	(void)self;
	(void)are_there;
}

static const char *span_name_text(void *self, uint32_t id, size_t *len)
{
	(void)self;
	(void)id;
	*len = strlen("span");
	return "span";
}

static uint64_t counter_read(void *self, enum sp_counter c)
{
	const struct process *p = self;

	return p->counter[c];
}

static void counter_add(void *self, enum sp_counter c, uint64_t n)
{
	struct process *p = self;

	p->counter[c] += n;
}

static void facts(void *self, struct sp_core_facts *out)
{
	(void)self;
	*out = (struct sp_core_facts){.sampling = true};
}

static void look_below(void *self)
{
	(void)self;
}

static void cpu(void *self, struct sp_core_cpu *out)
{
	(void)self;
	*out = (struct sp_core_cpu){.own_ns = 0};
}

static bool may_open(void *self)
{
	(void)self;
	return true;
}

static int64_t confined_ns(void *self)
{
	(void)self;
	return 0;
}

static void keep_quiet(void *self, enum sp_log_level level, const char *message)
{
	(void)self;
	(void)level;
	(void)message;
}

static void begin_flush(struct process *p)
{
	p->flush_until_ns = sp_clock_mono_ns() + any(200) * SP_NS_PER_MS;
}

static unsigned news(void *self)
{
	struct process *p = self;

	if (p->flush_until_ns != 0)
		return p->is_gone ? SP_WAIT_FLUSH | SP_WAIT_STOP : SP_WAIT_FLUSH;
	if (++p->looks < LOOKS && any(10) != 0)
		return 0;
	p->is_gone = p->looks >= LOOKS;
	begin_flush(p);
	return p->is_gone ? SP_WAIT_FLUSH | SP_WAIT_STOP : SP_WAIT_FLUSH;
}

static uint64_t due_ns(void *self)
{
	const struct process *p = self;

	return p->is_gone ? UINT64_MAX : 0;
}

static uint32_t flush_left_ms(void *self)
{
	const struct process *p = self;
	uint64_t now = sp_clock_mono_ns();

	return p->flush_until_ns > now ? (uint32_t)((p->flush_until_ns - now) / SP_NS_PER_MS) : 0;
}

static int flush_pending(void *self)
{
	const struct process *p = self;

	return p->flush_until_ns != 0;
}

static void flushed(void *self)
{
	struct process *p = self;

	p->flushed++;
	p->flush_until_ns = 0;
}

static void wait_for_news(void *self, uint32_t timeout_ms)
{
	bool had = sp_turn_set(false);

	(void)self;
	usleep(timeout_ms < 1 ? 100 : 1000);
	(void)sp_turn_set(had);
}

static void wake(void *self)
{
	(void)self;
}

static const struct sp_core_ops *next(void *self)
{
	(void)self;
	return come < PROCESSES && come - gone < AT_ONCE ? &process[come++].ops : NULL;
}

static void ended(void *self, const struct sp_core_ops *ops)
{
	(void)self;
	(void)ops;
}

static void left(void *self, const struct sp_core_ops *ops, int error)
{
	(void)self;
	(void)ops;
	(void)error;
	gone++;
}

static bool is_open(void *self)
{
	(void)self;
	return come < PROCESSES;
}

/* Takes one request; any kind of answer follows. */
static void answer(int fd, unsigned n)
{
	static const char *const answers[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n",
		"",
	};
	const char *say = answers[n % 5];
	static char text[1 << 16];
	size_t have = 0;
	size_t want = 0;
	ssize_t got;

	while (have < sizeof(text) - 1 &&
	       (got = recv(fd, text + have, sizeof(text) - 1 - have, 0)) > 0) {
		const char *body;
		const char *length;

		have += (size_t)got;
		text[have] = '\0';
		body = strstr(text, "\r\n\r\n");
		length = strcasestr(text, "content-length:");
		if (body == NULL || length == NULL)
			continue;
		want = (size_t)(body + 4 - text) + strtoul(length + 15, NULL, 10);
		if (have >= want)
			break;
	}
	if (have != 0 && send(fd, say, strlen(say), MSG_NOSIGNAL) < 0)
		return;
}

static void *serve(void *arg)
{
	const int *listener = arg;
	unsigned n = 0;

	while (!is_over) {
		int fd = accept(*listener, NULL, NULL);

		if (fd < 0)
			break;
		answer(fd, n++);
		close(fd);
	}
	return NULL;
}

static int listen_somewhere(char address[64])
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) != 0 || listen(fd, 8) != 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) != 0)
		exit(2);
	(void)snprintf(address, 64, "http://127.0.0.1:%u", ntohs(a.sin_port));
	return fd;
}

static void prepare(struct process *p, uint32_t pid)
{
	p->ops = (struct sp_core_ops){
		.arg = p,
		.config = &config,
		.pid = pid,
		.proc = "/proc/self",
		.maps = -1,
		.version = "0.1.0",
		.drain = drain,
		.drain_snapshots = drain_snapshots,
		.repeat_events = repeat_events,
		.tell_frame_tables = tell_frame_tables,
		.span_name_text = span_name_text,
		.counter_read = counter_read,
		.counter_add = counter_add,
		.facts = facts,
		.look_below = look_below,
		.cpu = cpu,
		.may_open = may_open,
		.confined_ns = confined_ns,
		.log = keep_quiet,
		.news = news,
		.due_ns = due_ns,
		.flush_left_ms = flush_left_ms,
		.flush_pending = flush_pending,
		.flushed = flushed,
	};
}

int main(void)
{
	const struct sp_export_family family = {.wait = wait_for_news,
						.wake = wake,
						.next = next,
						.ended = ended,
						.left = left,
						.open = is_open};
	uint64_t sent = 0;
	uint64_t lost = 0;
	char address[64];
	int listener = listen_somewhere(address);
	pthread_t server;
	int bad = 0;

	config = (struct sp_config){.sample_rate_hz = 100,
				    .upload_interval_ms = 20,
				    .flush_timeout_ms = 2000,
				    .push_timeout_ms = 1000,
				    .push_queue_capacity = 4,
				    .push_max_tries = 2,
				    .service_name = "stress",
				    .server_address = address};
	for (unsigned i = 0; i < PROCESSES; i++)
		prepare(&process[i], 1000 + i);
	if (pthread_create(&server, NULL, serve, &listener) != 0)
		return 2;

	if (sp_export_run(&family) != 0)
		return 2;

	is_over = true;
	(void)shutdown(listener, SHUT_RDWR);
	(void)pthread_join(server, NULL);
	for (unsigned i = 0; i < PROCESSES; i++) {
		const uint64_t *c = process[i].counter;

		sent += c[SP_COUNT_SAMPLES_SENT];
		lost += c[SP_COUNT_SAMPLES_UNSENT];
		if (c[SP_COUNT_SAMPLES_DRAINED] !=
		    c[SP_COUNT_SAMPLES_SENT] + c[SP_COUNT_SAMPLES_UNSENT]) {
			(void)printf("process %u: %llu drained, %llu sent, %llu lost\n", i,
				     (unsigned long long)c[SP_COUNT_SAMPLES_DRAINED],
				     (unsigned long long)c[SP_COUNT_SAMPLES_SENT],
				     (unsigned long long)c[SP_COUNT_SAMPLES_UNSENT]);
			bad = 1;
		}
		if (i < come && process[i].flushed == 0) {
			(void)printf("process %u: never answered\n", i);
			bad = 1;
		}
	}
	/*
	 * On a slow machine the worker may be taken for hanging: then the exporter ends, and no more processes come.
	 */
	(void)printf("%u of %u processes, %llu samples sent, %llu lost\n", come, PROCESSES,
		     (unsigned long long)sent, (unsigned long long)lost);
	return bad != 0 || sent + lost == 0 || (come == PROCESSES && (sent == 0 || lost == 0));
}
