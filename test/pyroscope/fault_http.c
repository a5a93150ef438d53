/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out a fault on a connection. Faults with status 200 (slow_drip, huge_body, bomb,
 * close_mid_response) and stored_reset store the profile first. Other faults store nothing, so that
 * a repeated request does not count twice.
 */
#include <string.h>
#include <sys/socket.h>
#include <zlib.h>

#include "test/pyroscope/http.h"

#define HALF_BODY 64U
#define HUGE_BLOCK 65536U
#define BOMB_BLOCKS 256U
#define BOMB_MEMBERS 64U

static int socket_of(const struct pd_exchange *x)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info != NULL ? info->connect_fd : -1;
}

static enum MHD_Result answer_status(struct pd_exchange *x)
{
	struct pd_response r = {.status = x->fault.status};
	char seconds[16];
	enum MHD_Result rc;

	snprintf(r.note, sizeof(r.note), "fault:%s", pd_fault_name(x->fault.kind));
	if (x->fault.retry_after != 0) {
		snprintf(seconds, sizeof(seconds), "%u", x->fault.retry_after);
		pd_response_header(&r, "Retry-After", seconds);
	}
	if (x->fault.kind == PD_FAULT_REJECTED) {
		static const char body[] = "\x0a\x20\x08\x01\x12\x1c"
					   "this profile is one too much";

		r.status = 200;
		r.type = "application/x-protobuf";
		pd_text_add(&r.body, body, sizeof(body) - 1);
	} else if (x->fault.kind == PD_FAULT_REDIRECT)
		pd_response_header(&r, "Location", x->fault.location);
	else
		pd_response_json(&r, json_pack("{s:s,s:s}", "code", "unavailable", "message",
					       "a fault that the test asked for"));
	rc = pd_exchange_answer(x, &r);
	pd_response_fini(&r);
	return rc;
}

/* An orderly close would look like an empty answer; disconnecting the socket sends RST at once. */
static enum MHD_Result reset(struct pd_exchange *x)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};

	if (connect(socket_of(x), &none, sizeof(none)) != 0)
		perror("pyroscope-double: reset");
	return MHD_NO;
}

static enum MHD_Result garbage(struct pd_exchange *x)
{
	static const char bytes[] = "\x16\x03\x01\xff\xfe HTTP\r\n\r\n\x80\x00 not an answer";

	(void)!send(socket_of(x), bytes, sizeof(bytes) - 1, MSG_NOSIGNAL);
	return MHD_NO;
}

static ssize_t read_half(void *cls, uint64_t pos, char *buf, size_t max)
{
	(void)cls;
	if (pos >= HALF_BODY)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (max > HALF_BODY - pos)
		max = HALF_BODY - (size_t)pos;
	memset(buf, ' ', max);
	return (ssize_t)max;
}

static ssize_t read_huge(void *cls, uint64_t pos, char *buf, size_t max)
{
	(void)cls;
	(void)pos;
	memset(buf, ' ', max);
	return (ssize_t)max;
}

/* MHD calls this again after each byte; between two bytes the connection is suspended. */
static ssize_t read_drip(void *cls, uint64_t pos, char *buf, size_t max)
{
	struct pd_exchange *x = cls;
	int64_t now = pd_http_now_ms();

	if (max == 0 || pos >= x->answer.len)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (x->fault.kind == PD_FAULT_NONE)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (now < x->wake_ms) {
		pd_exchange_park(x, x->wake_ms);
		return 0;
	}
	x->wake_ms = now + x->fault.interval_ms;
	buf[0] = x->answer.at[pos];
	return 1;
}

/* Makes a response of the given size, with bytes from read(). */
static enum MHD_Result stream(struct pd_exchange *x, uint64_t size, size_t block,
			      MHD_ContentReaderCallback read)
{
	struct MHD_Response *mhd = MHD_create_response_from_callback(size, block, read, x, NULL);
	enum MHD_Result rc;

	MHD_add_response_header(mhd, "Content-Type", "application/json");
	rc = MHD_queue_response(x->connection, 200, mhd);
	MHD_destroy_response(mhd);
	return rc;
}

/*
 * 64 gzip members of 16 MiB of zeros each, packed 1 MiB in all. A client that unpacks it, although
 * it has not asked for packed data, needs 1 GiB.
 */
static enum MHD_Result answer_bomb(struct pd_exchange *x)
{
	static char zeros[65536];
	char member[65536];
	struct MHD_Response *mhd;
	z_stream z = {.next_out = (Bytef *)member, .avail_out = sizeof(member)};
	enum MHD_Result rc;

	if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
		return MHD_NO;
	for (unsigned i = 0; i < BOMB_BLOCKS; i++) {
		z.next_in = (Bytef *)zeros;
		z.avail_in = sizeof(zeros);
		(void)deflate(&z, i + 1 == BOMB_BLOCKS ? Z_FINISH : Z_NO_FLUSH);
	}
	for (unsigned i = 0; i < BOMB_MEMBERS; i++)
		pd_text_add(&x->answer, member, z.total_out);
	deflateEnd(&z);
	mhd = MHD_create_response_from_buffer(x->answer.len, x->answer.at, MHD_RESPMEM_MUST_COPY);
	MHD_add_response_header(mhd, "Content-Encoding", "gzip");
	rc = MHD_queue_response(x->connection, 200, mhd);
	MHD_destroy_response(mhd);
	return rc;
}

/* Sends the true answer, which must be a success, followed by spaces up to the fault's size. */
static enum MHD_Result succeed_oddly(struct pd_exchange *x)
{
	struct pd_response r = {0};
	enum MHD_Result rc = MHD_NO;

	pd_exchange_route(x, &r);
	if (r.status != 200) {
		rc = pd_exchange_answer(x, &r);
		pd_response_fini(&r);
		return rc;
	}
	pd_exchange_log(x, 200, pd_fault_name(x->fault.kind));
	if (x->fault.kind == PD_FAULT_CLOSE_MID_RESPONSE) {
		rc = stream(x, 2 * HALF_BODY, HALF_BODY, read_half);
	} else if (x->fault.kind == PD_FAULT_HUGE_BODY) {
		rc = stream(x, x->fault.bytes, HUGE_BLOCK, read_huge);
	} else if (x->fault.kind == PD_FAULT_BOMB) {
		rc = answer_bomb(x);
	} else {
		pd_text_add(&x->answer, r.body.at, r.body.len);
		while (x->answer.len < x->fault.bytes)
			pd_text_adds(&x->answer, " ");
		rc = stream(x, x->answer.len, 1, read_drip);
	}
	pd_response_fini(&r);
	return rc;
}

enum MHD_Result pd_exchange_misbehave(struct pd_exchange *x)
{
	struct pd_response r = {0};
	char note[64];

	snprintf(note, sizeof(note), "fault:%s", pd_fault_name(x->fault.kind));
	switch (x->fault.kind) {
	case PD_FAULT_STATUS:
	case PD_FAULT_REDIRECT:
	case PD_FAULT_REJECTED:
		return answer_status(x);
	case PD_FAULT_SLOW_DRIP:
	case PD_FAULT_HUGE_BODY:
	case PD_FAULT_BOMB:
	case PD_FAULT_CLOSE_MID_RESPONSE:
		return succeed_oddly(x);
	case PD_FAULT_RESET:
	case PD_FAULT_RESET_EARLY:
		pd_exchange_log(x, 0, note);
		return reset(x);
	case PD_FAULT_STORED_RESET:
		pd_exchange_route(x, &r);
		pd_response_fini(&r);
		pd_exchange_log(x, 0, note);
		return reset(x);
	case PD_FAULT_GARBAGE:
		pd_exchange_log(x, 0, note);
		return garbage(x);
	case PD_FAULT_BLACKHOLE:
		pd_exchange_log(x, 0, note);
		pd_exchange_park(x, INT64_MAX);
		return MHD_YES;
	case PD_FAULT_NONE:
		break;
	}
	return MHD_NO;
}
