/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-report --serve: the page, its scripts, and reports as JSON, for browsers on this
 * machine. libmicrohttpd reads requests, only at the loopback addresses. Each answer is complete
 * before the next one begins.
 *
 * Every user of the machine can send anything to the port, and so can each web site that a browser
 * on the machine shows. So only GET requests for fixed paths are answered, and no part of a request
 * is the name of a file. The owner of a web site can give its name the address 127.0.0.1, and then
 * its pages can read our answers. But the browser sends the site's name (Host), so only names of
 * this machine are accepted. Pages of other sites cannot read the answers, but could keep the
 * server busy. A browser marks their requests (Sec-Fetch-Site), and these are refused.
 *
 * The page sends a request every two seconds. The server keeps the sums of the last graph and of
 * the last lists. When new files have come, it reads and adds only these. For a comparison, for
 * memory in use, and after a change of a file, it reads everything again. A folder with a limit
 * loses its oldest file with each new one. So files that are gone stay in the sums until they are a
 * twentieth of all files that were read; then everything is read again. The beginning of "the last
 * five minutes" is rounded down to a multiple of 15 seconds, a twentieth, so that the sums can be
 * used that long. Files that are older by their names are not opened. Context: the report tool.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "export/profile/profile_type.h"
#include "export/report/file.h"
#include "export/report/load.h"
#include "export/report/options.h"
#include "export/report/page.h"
#include "export/report/print.h"
#include "export/report/reading.h"
#include "export/report/slowest.h"
#include "sampler/base/compiler.h"

#define SP_SERVE_CONNECTIONS 12U /* for each address; a browser opens six, some of them unused */
#define SP_SERVE_HEAD ((size_t)8192)
#define SP_SERVE_REQUEST_S 3U /* without a byte of the request */
#define SP_SERVE_ANSWER_S 60U /* to make the answer, or while the client takes no byte of it */
#define SP_SERVE_MEMORY ((rlim_t)3 << 30)
#define SP_SERVE_SLOWEST 1000U
#define SP_SERVE_KEPT ((size_t)256 << 20) /* larger sums are dropped */

/* The sums of the last report of a kind. */
struct kept {
	struct sp_report_options o; /* pointers to texts are not valid any more */
	struct sp_reading r;
	uint32_t files; /* this many files of the server's list were read; 0 = nothing is kept */
	uint32_t look;  /* server.files.look when the reading began */
};

struct server {
	/* protects all that follows: libmicrohttpd has a thread for each address */
	pthread_mutex_t lock;
	const struct sp_report_options *o;
	char *const *path;
	struct sp_file_list files;
	uint64_t start; /* makes stamps differ from those of an earlier server at this port */
	struct kept graph, lists;
	struct sp_strtab told; /* paths of files that a message has named */
};

/* The query of a request. */
struct query {
	struct sp_report_options o;
	const char *span_name; /* lists only spans with this name */
	bool is_wrong;
};

/*
 * At most one part in so many of the time or of the files is shown although it is too old or gone.
 */
#define SP_SERVE_LATE 20U

/* Parses an age such as "5m". */
static bool read_ago(const char *value, uint64_t *at)
{
	uint64_t now = (uint64_t)time(NULL);
	char ago[16] = "-";
	uint64_t step;

	(void)strncat(ago, value, sizeof(ago) - 2);
	if (strlen(value) >= sizeof(ago) - 1 || !sp_time_point_read(ago, (time_t)now, at))
		return false;
	step = (now * SP_NS_PER_S - *at) / SP_SERVE_LATE;
	*at -= step != 0 ? *at % step : 0;
	return true;
}

static bool take(struct query *q, const char *key, const char *value)
{
	enum sp_profile_type type;

	if (strcmp(key, "last") == 0)
		return read_ago(value, &q->o.window.from_ns);
	if (strcmp(key, "before") == 0)
		return read_ago(value, &q->o.baseline_window.to_ns);
	if (strcmp(key, "type") == 0) {
		type = sp_profile_type_find(value);
		q->o.type = type != SP_PROFILE_CPU && type != SP_PROFILE_TYPES
				    ? sp_profile_type_row(type)->names.sample
				    : NULL;
		return type != SP_PROFILE_TYPES;
	}
	if (strcmp(key, "span") == 0)
		q->o.selection.span_id = value;
	else if (strcmp(key, "span_name") == 0)
		q->o.selection.span_name = q->span_name = value;
	else if (strcmp(key, "diff") == 0 && strcmp(value, "spans") == 0)
		q->o.selection.diff = true;
	else
		return false;
	return true;
}

/*
 * An MHD_KeyValueIteratorN. Key and value are decoded: if a text is shorter than its length, it
 * contains "%00".
 */
static enum MHD_Result take_pair(void *arg, enum MHD_ValueKind kind, const char *key,
				 size_t key_len, const char *value, size_t len)
{
	struct query *q = arg;

	(void)kind;
	if (value == NULL || strlen(key) != key_len || strlen(value) != len || !take(q, key, value))
		q->is_wrong = true;
	return MHD_YES;
}

/* Reads the query. False: it has an unknown key or value. */
static bool read_query(struct query *q, const struct server *s, struct MHD_Connection *connection)
{
	*q = (struct query){.o = *s->o};
	q->o.form = SP_FORM_FLAMEGRAPH;
	(void)MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, take_pair, q);
	if (q->o.selection.diff) {
		q->o.baseline = NULL;
		q->o.baseline_window.to_ns = q->o.baseline_window.from_ns = 0;
	}
	return !q->is_wrong && (!q->o.selection.diff || q->o.selection.span_id != NULL);
}

static void drop(struct kept *k)
{
	sp_reading_fini(&k->r);
	memset(k, 0, sizeof(*k));
}

/*
 * Reads the new files, or all files if the last request was for another report. An exit status,
 * with a reason in k->r.why.
 */
static int read_files(struct server *s, struct kept *k, const struct sp_report_options *o)
{
	char **path;
	size_t n = 0;
	int err = 0;

	if (k->files == 0 || !sp_reading_may_go_on(&k->r, o)) {
		drop(k);
		k->o = *o;
		err = sp_reading_init(&k->r, &k->o, &s->told);
		k->look = s->files.look;
		k->r.named = s->path;
		k->r.wants_tree = k->r.tree.by_span = k == &s->graph;
	}
	path = calloc((size_t)s->files.n - k->files + 1, sizeof(*path));
	for (uint32_t i = k->files; path != NULL && i < s->files.n; i++)
		if (sp_file_list_has(&s->files, i))
			path[n++] = sp_file_list_path(&s->files, i);
	if (path == NULL)
		err = SP_EXIT_DAMAGED;
	else if (err == 0 && (k->files == 0 || n != 0 || k->r.passed != 0))
		err = sp_reading_run(&k->r, path);
	k->files = s->files.n;
	free(path);
	return err;
}

/* Whether the sums still agree with the files, except for a few files that are gone. */
static bool is_current(const struct server *s, const struct kept *k)
{
	const struct sp_file_list *l = &s->files;
	size_t gone = 0;

	for (uint32_t i = 0; i < k->files; i++) {
		const char *path = sp_file_list_path(l, i);

		if (sp_file_list_has(l, i) || l->seen[i] < k->look ||
		    sp_reading_leaves_out(&k->r, path, sp_file_list_written_ns(l, i)))
			continue;
		/* The file has changed: its new content would be added to the old one. */
		if (access(path, F_OK) == 0)
			return false;
		gone++;
	}
	return gone == 0 || gone < k->r.files / SP_SERVE_LATE;
}

static void look(struct server *s)
{
	const bool goes_on = sp_file_list_refresh(&s->files, s->path);

	if (!goes_on || !is_current(s, &s->graph))
		drop(&s->graph);
	if (!goes_on || !is_current(s, &s->lists))
		drop(&s->lists);
}

/*
 * Writes a report. Its stamp changes when files have come, gone or changed. Changes during this
 * reading are noticed by the next request.
 */
static void put_report(FILE *out, struct server *s, struct kept *k, struct query *q)
{
	struct sp_flame_head head;
	int err;

	look(s);
	(void)fprintf(out, "{\"stamp\":\"%" PRIu64 "-%" PRIu64 "\"", s->start, s->files.changes);
	if (k == &s->lists) {
		q->o.selection.span_id = q->o.selection.span_name = q->o.baseline = NULL;
		q->o.selection.diff = false;
		q->o.selection.base_latency = NULL;
		q->o.baseline_window.to_ns = q->o.baseline_window.from_ns = 0;
	}
	err = k != NULL ? read_files(s, k, &q->o) : 0;
	if (err != 0) {
		(void)fputs(",\"error\":", out);
		sp_page_put_json(out, k->r.why[0] != '\0' ? k->r.why : "out of memory");
	} else if (k == &s->lists) {
		sp_report_print_lists(out, &k->r.tally, q->span_name);
	} else if (k == &s->graph) {
		sp_flame_head_of(&k->r, &head);
		(void)fputs(",\n\"profile\":", out);
		if (sp_flame_print_data(out, &k->r.tree, &head) != 0)
			(void)fputs("null,\"error\":\"out of memory\"", out);
	}
	(void)fputs("}\n", out);
	if (k != NULL && (err != 0 || !sp_reading_may_go_on(&k->r, &q->o) ||
			  sp_tally_bytes(&k->r.tally) + sp_tree_bytes(&k->r.tree) > SP_SERVE_KEPT))
		drop(k);
}

/*
 * Writes the slow requests. They are read again for each answer, because all files of the time
 * decide what a usual request is.
 */
static void put_slow(FILE *out, struct server *s, struct query *q)
{
	char title[SP_SLOWEST_TITLE];
	struct sp_slowest x;
	int err;

	look(s);
	q->o.form = SP_FORM_TABLE;
	q->o.slowest = true;
	q->o.top = SP_SERVE_SLOWEST;
	q->o.page = "";
	q->o.type = NULL;
	err = sp_slowest_read(&x, &q->o, s->path, &s->told, NULL);
	(void)fprintf(out, "{\"stamp\":\"%" PRIu64 "-%" PRIu64 "\"", s->start, s->files.changes);
	if (err != 0) {
		(void)fputs(",\"error\":", out);
		sp_page_put_json(out, x.r.why[0] != '\0' ? x.r.why : "no file can be read");
	} else {
		sp_slowest_title(title, &x);
		(void)fputs(",\"title\":", out);
		sp_page_put_json(out, title);
		(void)fputs(",\"slow\":", out);
		if (sp_slowest_print_data(out, &x) != 0)
			(void)fputs("null,\"error\":\"out of memory\"", out);
	}
	(void)fputs("}\n", out);
	sp_slowest_fini(&x);
}

/* Writes the body of the answer, and sets its type. Returns the status. */
static unsigned put(FILE *out, struct server *s, struct MHD_Connection *connection,
		    const char *path, const char **type)
{
	static const char *const reports[] = {"/profile.json", "/spans.json", "/stamp.json"};
	struct kept *const kept[] = {&s->graph, &s->lists, NULL};
	const struct sp_page_file *file = sp_page_find(path);
	struct query q;

	if (file != NULL) {
		*type = file->type;
		sp_page_print(out, file);
		return 200;
	}
	*type = "application/json";
	if (strcmp(path, "/slow.json") == 0) {
		if (!read_query(&q, s, connection))
			return 400;
		put_slow(out, s, &q);
		return 200;
	}
	for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
		if (strcmp(path, reports[i]) != 0)
			continue;
		if (!read_query(&q, s, connection))
			return 400;
		put_report(out, s, kept[i], &q);
		return 200;
	}
	return 404;
}

/* The port is not compared, because ssh may forward another one. */
static bool is_this_machine(const char *host)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);
		const char *port = host + len + 1;

		if (strncasecmp(host, names[i], len) == 0)
			return host[len] == '\0' || (host[len] == ':' && *port != '\0' &&
						     port[strspn(port, "0123456789")] == '\0');
	}
	return false;
}

struct head {
	unsigned hosts, status;
};

/* An MHD_KeyValueIteratorN that checks one header. */
static enum MHD_Result check_field(void *arg, enum MHD_ValueKind kind, const char *key,
				   size_t key_len, const char *value, size_t len)
{
	struct head *h = arg;
	unsigned status = 200;

	(void)kind, (void)key_len;
	if (value == NULL || strlen(value) != len || strcasecmp(key, "Content-Length") == 0 ||
	    strcasecmp(key, "Transfer-Encoding") == 0)
		status = 400;
	else if (strcasecmp(key, "Sec-Fetch-Site") == 0)
		status =
			strcmp(value, "same-origin") != 0 && strcmp(value, "none") != 0 ? 403 : 200;
	else if (strcasecmp(key, "Host") == 0)
		status = h->hosts++ != 0 ? 400 : is_this_machine(value) ? 200 : 403;
	if (h->status == 200)
		h->status = status;
	return MHD_YES;
}

/* An MHD_AccessHandlerCallback, when a head was read. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *path,
			      const char *method, const char *version, const char *body,
			      size_t *body_len, // NOLINT(readability-non-const-parameter)
			      void **context)
{
	static const char *const fields[][2] = {
		{"Allow", "GET"},
		{"Cache-Control", "no-store"},
		{"X-Content-Type-Options", "nosniff"},
		{"Referrer-Policy", "no-referrer"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Content-Security-Policy",
		 "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
		 "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	};
	struct server *s = arg;
	struct head h = {.status = strcmp(method, "GET") == 0 ? 200 : 405};
	struct MHD_Response *response;
	enum MHD_Result result;
	const char *type = "";
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	(void)version, (void)body, (void)body_len, (void)context;
	(void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, check_field, &h);
	if (h.status == 200 && h.hosts != 1)
		h.status = 400;
	(void)MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
					SP_SERVE_ANSWER_S);
	if (h.status == 200 && out != NULL) {
		(void)pthread_mutex_lock(&s->lock);
		h.status = put(out, s, connection, path, &type);
		(void)pthread_mutex_unlock(&s->lock);
	}
	if (out == NULL || fclose(out) != 0)
		h.status = 500;
	len = h.status == 200 ? len : 0;
	response = MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
	if (response == NULL) {
		free(text);
		return MHD_NO;
	}
	(void)MHD_set_response_options(response, MHD_RF_HTTP_VERSION_1_0_ONLY, MHD_RO_END);
	if (h.status == 200)
		(void)MHD_add_response_header(response, "Content-Type", type);
	for (size_t i = h.status != 405; i < sizeof(fields) / sizeof(fields[0]); i++)
		(void)MHD_add_response_header(response, fields[i][0], fields[i][1]);
	result = MHD_queue_response(connection, h.status, response);
	MHD_destroy_response(response);
	return result;
}

/* Starts to serve at an address. NULL: failed, see errno. */
static struct MHD_Daemon *start(struct server *s, unsigned flags, const struct sockaddr *address)
{
	return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | flags, 0, NULL, NULL, answer, s,
				MHD_OPTION_SOCK_ADDR, address, MHD_OPTION_CONNECTION_LIMIT,
				SP_SERVE_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
				SP_SERVE_REQUEST_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				SP_SERVE_HEAD, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

int sp_serve(const struct sp_report_options *o, char *const *path)
{
	static struct server s = {.lock = PTHREAD_MUTEX_INITIALIZER};
	const struct rlimit memory = {SP_SERVE_MEMORY, SP_SERVE_MEMORY};
	struct sockaddr_in four = {.sin_family = AF_INET,
				   .sin_port = htons(o->port),
				   .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct MHD_Daemon *daemon;
	uint16_t port;
	char why[256];

	s.o = o;
	s.path = path;
	s.start = (uint64_t)time(NULL);
	(void)setrlimit(RLIMIT_AS, &memory);
	daemon = start(&s, 0, (const struct sockaddr *)&four);
	if (daemon == NULL) {
		(void)snprintf(why, sizeof(why), "cannot listen at 127.0.0.1: %s", strerror(errno));
		sp_report_complain("--serve", why);
		return SP_EXIT_DAMAGED;
	}
	port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
	/* A failure is ignored, because a machine may have no IPv6. */
	six.sin6_port = htons(port);
	(void)start(&s, MHD_USE_IPv6, (const struct sockaddr *)&six);
	(void)printf("http://127.0.0.1:%u/ serves the profiles; Ctrl-C ends it\n", port);
	(void)fflush(stdout);
	for (;;)
		(void)pause();
}
