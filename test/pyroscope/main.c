/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pyroscope-double: options, files, signals and the loop. Run by test scripts; ends on SIGTERM.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/pyroscope/http.h"

#define ACK_MS_MAX 60000

struct command {
	struct pd_options options;
	uint16_t port;
	const char *port_file;
	const char *log;
	const char *fault[PD_FAULTS_MAX];
	size_t faults;
	struct pd_limits limits;
};

static const char usage[] =
	"usage: pyroscope-double [--port N] [--port-file F] [--store DIR] [--log F]\n"
	"        [--multitenancy] [--basic USER:PASSWORD] [--token T] [--fault SPEC]...\n"
	"        [--ack-delay MS[-MS]] [--now-offset SECONDS] [--limit NAME=N]... "
	"[--no-strict]\n";

static int fail(const char *what)
{
	fprintf(stderr, "pyroscope-double: %s: %s\n", what, strerror(errno));
	return -1;
}

static bool number(const char *text, long long min, long long max, long long *out)
{
	char *end = NULL;

	errno = 0;
	*out = strtoll(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && *out >= min && *out <= max;
}

enum {
	OPT_PORT,
	OPT_PORT_FILE,
	OPT_STORE,
	OPT_LOG,
	OPT_MULTITENANCY,
	OPT_BASIC,
	OPT_TOKEN,
	OPT_FAULT,
	OPT_NOW_OFFSET,
	OPT_ACK_DELAY,
	OPT_LIMIT,
	OPT_STRICT,
	OPT_NO_STRICT,
};

static const struct option options[] = {
	{"port", required_argument, NULL, OPT_PORT},
	{"port-file", required_argument, NULL, OPT_PORT_FILE},
	{"store", required_argument, NULL, OPT_STORE},
	{"log", required_argument, NULL, OPT_LOG},
	{"multitenancy", no_argument, NULL, OPT_MULTITENANCY},
	{"basic", required_argument, NULL, OPT_BASIC},
	{"token", required_argument, NULL, OPT_TOKEN},
	{"fault", required_argument, NULL, OPT_FAULT},
	{"ack-delay", required_argument, NULL, OPT_ACK_DELAY},
	{"now-offset", required_argument, NULL, OPT_NOW_OFFSET},
	{"limit", required_argument, NULL, OPT_LIMIT},
	{"strict", no_argument, NULL, OPT_STRICT},
	{"no-strict", no_argument, NULL, OPT_NO_STRICT},
	{NULL, 0, NULL, 0},
};

static bool take_number(struct command *c, int option, const char *value)
{
	long long n = 0;

	switch (option) {
	case OPT_PORT:
		if (!number(value, 0, UINT16_MAX, &n))
			return false;
		c->port = (uint16_t)n;
		return true;
	case OPT_NOW_OFFSET:
		if (!number(value, -4000000000LL, 4000000000LL, &n))
			return false;
		c->options.now_offset_s = n;
		return true;
	default:
		return false;
	}
}

/* Parses a limit such as "samples=100", as an administrator sets it for a tenant. */
static bool take_limit(struct pd_limits *l, const char *text)
{
	const struct {
		const char *name;
		size_t *limit;
	} all[] = {
		{"body", &l->body_bytes}, {"profile", &l->profile_bytes},
		{"samples", &l->samples}, {"burst", &l->burst_bytes},
		{"rate", &l->rate_bytes},
	};
	long long n = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		size_t len = strlen(all[i].name);

		if (strncmp(text, all[i].name, len) == 0 && text[len] == '=' &&
		    number(text + len + 1, 1, INT64_C(1) << 30, &n)) {
			*all[i].limit = (size_t)n;
			return true;
		}
	}
	return false;
}

/* Parses a delay: "300-1000", or one number for both ends. */
static bool take_delay(unsigned ms[2], const char *text)
{
	char *end = NULL;
	unsigned long from = strtoul(text, &end, 10);
	unsigned long to = *end == '-' ? strtoul(end + 1, &end, 10) : from;

	ms[0] = (unsigned)from;
	ms[1] = (unsigned)to;
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && from <= to && to <= ACK_MS_MAX;
}

static bool take_option(struct command *c, int option, const char *value)
{
	switch (option) {
	case OPT_PORT_FILE:
		c->port_file = value;
		return true;
	case OPT_STORE:
		c->options.store = value;
		return true;
	case OPT_LOG:
		c->log = value;
		return true;
	case OPT_MULTITENANCY:
		c->options.multitenancy = true;
		return true;
	case OPT_BASIC:
		c->options.basic = value;
		return true;
	case OPT_TOKEN:
		c->options.token = value;
		return true;
	case OPT_FAULT:
		if (c->faults == PD_FAULTS_MAX)
			return false;
		c->fault[c->faults++] = value;
		return true;
	case OPT_ACK_DELAY:
		return take_delay(c->options.ack_ms, value);
	case OPT_LIMIT:
		return take_limit(&c->limits, value);
	case OPT_STRICT:
	case OPT_NO_STRICT:
		c->options.lenient = option == OPT_NO_STRICT;
		return true;
	default:
		return take_number(c, option, value);
	}
}

/*
 * Writes the port file under another name and renames it, so that a script never reads a part of
 * it.
 */
static int write_port(const char *path, uint16_t port)
{
	struct pd_text partial = {0};
	FILE *f = NULL;
	int rc = -1;

	pd_text_addf(&partial, "%s.partial", path);
	f = fopen(partial.at, "we");
	if (f != NULL && fprintf(f, "%u\n", port) > 0 && fclose(f) == 0 &&
	    rename(partial.at, path) == 0)
		rc = 0;
	pd_text_fini(&partial);
	return rc;
}

static int add_faults(struct pd_double *d, const struct command *c)
{
	struct pd_error e = {0};

	for (size_t i = 0; i < c->faults; i++)
		if (pd_faults_add_spec(&d->faults, c->fault[i], &e) != 0) {
			fprintf(stderr, "pyroscope-double: %s\n", e.message.at);
			pd_error_fini(&e);
			return -1;
		}
	return 0;
}

static int open_files(struct pd_double *d, const struct command *c)
{
	if (c->options.store != NULL && mkdir(c->options.store, 0777) != 0 && errno != EEXIST)
		return fail(c->options.store);
	if (c->log != NULL) {
		d->log = fopen(c->log, "ae");
		if (d->log == NULL)
			return fail(c->log);
	}
	return add_faults(d, c);
}

static int block_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int loop(struct pd_http *h, int signals)
{
	struct pollfd fds[] = {
		{.fd = pd_http_fd(h), .events = POLLIN},
		{.fd = signals, .events = POLLIN},
	};

	while ((fds[1].revents & POLLIN) == 0) {
		if (poll(fds, 2, pd_http_timeout(h)) < 0 && errno != EINTR)
			return fail("poll");
		pd_http_run(h);
	}
	return 0;
}

static int serve(struct pd_double *d, const struct command *c)
{
	int signals = block_signals();
	struct pd_http h;
	int rc = -1;

	if (signals < 0)
		return fail("signalfd");
	if (pd_http_start(&h, d, c->port) != 0)
		return fail("listen");
	if (c->port_file == NULL) {
		printf("%u\n", pd_http_port(&h));
		fflush(stdout);
		rc = 0;
	} else if (write_port(c->port_file, pd_http_port(&h)) == 0) {
		rc = 0;
	} else {
		fail(c->port_file);
	}
	if (rc == 0)
		rc = loop(&h, signals);
	pd_http_stop(&h);
	close(signals);
	return rc;
}

int main(int argc, char **argv)
{
	/* The server writes a segment every half second, and writing takes some time more. */
	struct command c = {.limits = pd_limits_default, .options.ack_ms = {300, 1000}};
	struct pd_double d;
	int option;
	int rc = -1;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (option == '?' || !take_option(&c, option, optarg)) {
			fputs(usage, stderr);
			return 2;
		}
	if (optind != argc) {
		fputs(usage, stderr);
		return 2;
	}
	pd_double_init(&d, &c.options);
	d.limits = c.limits;
	if (open_files(&d, &c) == 0)
		rc = serve(&d, &c);
	if (d.log != NULL)
		fclose(d.log);
	pd_double_fini(&d);
	return rc == 0 ? 0 : 1;
}
