/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the records that another library publishes: which of them are believed. */
#include "sampler/context/foreign_context.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/seccomp.h"
#include "sampler/config/config.h"
#include "sampler/context/thread_context.h"

#define PAGE 4096

struct large {
	struct sp_context_record head;
	uint8_t more[640];
};

static struct large record;
static struct sp_foreign_ids ids;

static void publish(void *at)
{
	atomic_store(sp_context_slot(), at);
}

static void fill(struct sp_context_record *r)
{
	memset(r, 0, sizeof(*r));
	memset(r->trace_id, 0x5a, sizeof(r->trace_id));
	memset(r->span_id, 0x11, sizeof(r->span_id));
	atomic_store(&r->valid, 1);
}

static bool reads(void)
{
	return sp_foreign_context_read(NULL, &ids);
}

static void start(void)
{
	const struct sp_foreign_context_setup none = {.variables = 0};

	sp_foreign_context_start(&none);
	fill(&record.head);
	publish(&record);
}

TestSuite(foreign_context, .init = start, .timeout = 20);

Test(foreign_context, tells_the_ids_of_a_valid_record)
{
	cr_assert(reads());

	cr_expect_eq(ids.span_id, UINT64_C(0x1111111111111111));
	cr_expect_eq(ids.trace_id[15], 0x5a);
	cr_expect_eq(ids.root_id, 0);
	cr_expect(atomic_load(&sp_foreign_context_seen));
}

Test(foreign_context, believes_no_record_that_is_invalid_or_its_own)
{
	cr_expect_not(sp_foreign_context_read(&record.head, &ids), "its own");
	publish(NULL);
	cr_expect_not(reads());
	publish((char *)&record + 1);
	cr_expect_not(reads(), "of odd address");
	publish(&record);
	for (unsigned valid = 0; valid < 256; valid++) {
		atomic_store(&record.head.valid, (uint8_t)valid);
		cr_expect_eq(reads(), valid == 1, "%u", valid);
	}
	atomic_store(&record.head.valid, 1);
	memset(record.head.span_id, 0, 8);
	cr_expect_not(reads(), "without a span");
	fill(&record.head);
	memset(record.head.trace_id, 0, 16);
	cr_expect_not(reads(), "without a trace");
}

Test(foreign_context, reads_nothing_that_cannot_be_read)
{
	char *two = mmap(NULL, (size_t)2 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sp_context_record *last;

	cr_assert_neq(two, MAP_FAILED);
	cr_assert_eq(munmap(two + PAGE, PAGE), 0);
	for (uintptr_t at = 2; at != 0; at <<= 1) {
		publish((void *)at);
		cr_expect_not(reads(), "%lx", at);
		publish((void *)-at);
		cr_expect_not(reads(), "-%lx", at);
	}
	for (unsigned short_of = 0; short_of < 28; short_of++) {
		publish(two + PAGE - short_of);
		cr_expect_not(reads(), "%u bytes", short_of);
	}
	/* A record may be the last bytes of a mapping. This one claims attributes behind the mapping's end. */
	last = (struct sp_context_record *)(void *)(two + PAGE - 28);
	memset(last, 0x5a, 24);
	atomic_store(&last->valid, 1);
	last->attributes = 600;
	sp_foreign_context_set_root_key(0);
	publish(last);
	cr_expect(reads());
	cr_expect_eq(ids.root_id, 0);
}

static __thread struct large in_tls;

/* Below a seccomp filter the kernel is not asked, so the storage of other threads is not read. */
Test(foreign_context, in_storage_of_every_thread_is_read_without_asking)
{
	struct sp_foreign_context_setup all = {.tls_begin = -65536, .tls_end = 65536};

	sp_foreign_context_start(&all);
	sp_seccomp_begin();
	cr_expect_not(reads(), "elsewhere");
	fill(&in_tls.head);
	publish(&in_tls);
	cr_expect(reads());
	all.tls_begin = (intptr_t)((uintptr_t)&in_tls - sp_arch_thread_pointer());
	all.tls_end = all.tls_begin + 27;
	sp_foreign_context_start(&all);
	cr_expect_not(reads(), "beyond the end");
	all.tls_end++;
	sp_foreign_context_start(&all);
	cr_expect(reads());
}

static size_t put(size_t at, uint8_t key, const char *text)
{
	uint8_t *out = &record.head.key + at;

	out[0] = key;
	out[1] = (uint8_t)strlen(text);
	memcpy(out + 2, text, strlen(text));
	return at + 2 + strlen(text);
}

Test(foreign_context, tells_the_root_where_an_attribute_has_it)
{
	size_t n = put(0, 3, "GET");

	n = put(n, 1, "00000000000000ff");
	n = put(n, 1, "00f067aa0BA902b7");
	record.head.attributes = (uint16_t)n;
	sp_foreign_context_set_root_key(1);
	cr_assert(reads());
	cr_expect_eq(memcmp(&ids.root_id, "\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 8), 0,
		     "the last one counts");

	sp_foreign_context_set_root_key(-1);
	cr_assert(reads());
	cr_expect_eq(ids.root_id, 0);
}

Test(foreign_context, believes_no_length)
{
	size_t n = put(0, 1, "00f067aa0ba902b7");

	sp_foreign_context_set_root_key(1);
	for (unsigned told = 0; told < 65536; told += told < 700 ? 1 : 97) {
		record.head.attributes = (uint16_t)told;
		cr_assert(reads());
		cr_expect_eq(ids.root_id != 0, told >= n && told <= 612, "%u", told);
	}
	record.head.attributes = (uint16_t)n;
	for (unsigned len = 0; len < 256; len++) {
		record.head.len = (uint8_t)len;
		cr_assert(reads());
		cr_expect_eq(ids.root_id != 0, len == 16, "%u", len);
	}
	/* nor a character that is no digit, at any position */
	for (size_t at = 0; at < 16; at++) {
		put(0, 1, "00f067aa0ba902b7");
		for (unsigned c = 0; c < 256; c++) {
			bool is_digit = c < 128 && isxdigit((int)c) != 0;

			record.head.root_id[at] = (char)c;
			cr_assert(reads());
			cr_expect_eq(ids.root_id != 0, is_digit, "%u at %zu", c, at);
		}
	}
}

static uint8_t message[1024];

static size_t encode(void)
{
	const struct sp_config config = {.service_name = "unit"};

	return sp_process_context_encode(&config, "", message, sizeof(message));
}

static int find_root_key(const uint8_t *bytes, size_t n)
{
	struct sp_process_context_threads threads;

	sp_process_context_find_threads(bytes, n, &threads);
	return threads.root_key;
}

Test(foreign_context, knows_who_publishes_threads)
{
	static const uint8_t process_alone[] =
		"\n\x1b\n\x19\n\x0cservice.name\x12\x09\n\x07library";
	struct sp_process_context_threads threads;
	size_t n = encode();

	sp_process_context_find_threads(message, n, &threads);
	cr_expect(threads.published);
	cr_expect_str_eq(threads.service, "unit");
	sp_process_context_find_threads(process_alone, sizeof(process_alone) - 1, &threads);
	cr_expect_not(threads.published);
	cr_expect_str_eq(threads.service, "library");
	sp_process_context_find_threads(process_alone, 0, &threads);
	cr_expect_not(threads.published);
}

/* A message that contains only the service's name. */
static const char *service_of(const char *text, size_t len)
{
	static struct sp_process_context_threads threads;
	static uint8_t bytes[600];
	uint8_t *at = bytes;
	const size_t lengths[] = {len, 3 + len, 3 + len + 3 + 14, 3 + len + 3 + 14 + 3};
	const uint8_t keys[] = {0x0a, 0x12, 0x0a, 0x0a};

	/* Resource, attribute and its key, then the value and its text; each length takes two bytes. */
	for (unsigned i = 4; i-- != 0;) {
		if (i == 1) {
			*at++ = 0x0a;
			*at++ = 12;
			memcpy(at, "service.name", 12);
			at += 12;
		}
		*at++ = keys[i];
		*at++ = (uint8_t)(0x80 | (lengths[i] & 0x7f));
		*at++ = (uint8_t)(lengths[i] >> 7);
	}
	memcpy(at, text, len);
	sp_process_context_find_threads(bytes, (size_t)(at - bytes) + len, &threads);
	return threads.service;
}

/* The name is another program's text. */
Test(foreign_context, believes_no_service_name_that_is_too_long_or_not_clean)
{
	char text[SP_PROCESS_CONTEXT_SERVICE_MAX + 100];

	memset(text, 'x', sizeof(text));
	cr_expect_str_eq(service_of("shop", 4), "shop");
	cr_expect_eq(strlen(service_of(text, SP_PROCESS_CONTEXT_SERVICE_MAX - 1)),
		     SP_PROCESS_CONTEXT_SERVICE_MAX - 1);
	for (size_t more = 0; more < 100; more++)
		cr_expect_str_eq(service_of(text, SP_PROCESS_CONTEXT_SERVICE_MAX + more), "");
	cr_expect_str_eq(service_of("shop\n", 5), "");
	cr_expect_str_eq(service_of("shop\xff", 5), "");
	cr_expect_str_eq(service_of("", 0), "");
}

/* Unknown fields are skipped by their type; behind a field of unknown type nothing is read. */
Test(foreign_context, skips_what_it_does_not_know)
{
	static const struct {
		const char *bytes;
		size_t n;
		bool reads_on;
	} before[] = {{"\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, true},
		      {"\x49"
		       "12345678",
		       9, true},
		      {"\x4d"
		       "1234",
		       5, true},
		      {"\x4a\x02"
		       "12",
		       4, true},
		      {"\x4b", 1, false},
		      {"\x4c", 1, false},
		      {"\x4e"
		       "1234",
		       5, false},
		      {"\x4f", 1, false}};
	struct sp_process_context_threads threads;
	size_t n = encode();

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		uint8_t *whole = malloc(before[i].n + n);

		memcpy(whole, before[i].bytes, before[i].n);
		memcpy(whole + before[i].n, message, n);
		sp_process_context_find_threads(whole, before[i].n + n, &threads);
		cr_expect_eq(threads.published, before[i].reads_on, "%zu", i);
		free(whole);
		/* A message that is cut anywhere is not read behind its end. */
		for (size_t cut = 1; cut < before[i].n; cut++) {
			uint8_t *part = malloc(cut);

			memcpy(part, before[i].bytes, cut);
			sp_process_context_find_threads(part, cut, &threads);
			cr_expect_not(threads.published);
			free(part);
		}
	}
}

Test(foreign_context, finds_the_roots_attribute_by_its_name)
{
	static const char map[] = "\x12\x52\n\x1dthreadlocal.attribute_key_map\x12\x31\x2a\x2f"
				  "\n\x0d\n\x0bhttp.method\n\x1c\n\x1a"
				  "datadog.local_root_span_id\n\x00";
	static const char other[] = "\x12\x32\n\x1dthreadlocal.attribute_key_map\x12\x11\x2a\x0f"
				    "\n\x0d\n\x0bhttp.method";
	/* This value is no list. */
	static const char text[] = "\x12\x23\n\x1dthreadlocal.attribute_key_map\x12\x02\n\x00";
	size_t n = encode();

	cr_expect_eq(find_root_key(message, n), 0);
	cr_expect_eq(find_root_key((const uint8_t *)map, sizeof(map) - 1), 1);
	cr_expect_eq(find_root_key((const uint8_t *)other, sizeof(other) - 1), -1);
	cr_expect_eq(find_root_key((const uint8_t *)text, sizeof(text) - 1), -1);
}

/* For the sanitizers: if a message is cut or changed anywhere, no byte outside of the message is read. */
Test(foreign_context, believes_no_message)
{
	size_t n = encode();

	for (size_t cut = 0; cut <= n; cut++) {
		uint8_t *part = malloc(cut + 1);

		memcpy(part, message, cut);
		(void)find_root_key(part, cut);
		free(part);
	}
	for (size_t i = 0; i < n; i++) {
		uint8_t was = message[i];

		for (unsigned value = 0; value < 256; value++) {
			uint8_t *copy = malloc(n);

			message[i] = (uint8_t)value;
			memcpy(copy, message, n);
			(void)find_root_key(copy, n);
			free(copy);
		}
		message[i] = was;
	}
	cr_expect_eq(find_root_key(message, n), 0, "all is as it was");
}

/* Publishes a context whose message begins at payload and claims that many bytes. */
static bool publishes(const void *payload, size_t bytes)
{
	struct sp_process_context header = {.version = SP_PROCESS_CONTEXT_VERSION,
					    .payload_bytes = (uint32_t)bytes,
					    .payload = (uintptr_t)payload};
	struct sp_process_context_threads threads;

	memcpy(header.signature, SP_PROCESS_CONTEXT_NAME, sizeof(header.signature));
	atomic_store(&header.published_ns, 1);
	sp_process_context_read((uintptr_t)&header, &threads);
	return threads.published;
}

/* The memory behind the message must not be read, and its size may exceed our buffer. */
Test(foreign_context, believes_no_size_of_a_message)
{
	const size_t most = 65536;
	size_t n = encode();
	uint8_t *at =
		mmap(NULL, most + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq((void *)at, MAP_FAILED);
	/* The zeros behind the message are fields that are not read. */
	memcpy(at, message, n);
	cr_assert(publishes(at, n));
	cr_expect_not(publishes(at, 0));
	cr_expect_not(publishes(NULL, n));
	cr_expect(publishes(at, most));
	cr_expect_not(publishes(at, most + 1));
	cr_expect_not(publishes(at, UINT32_MAX));

	/* First the last byte is missing, then a page in the middle. */
	cr_assert_eq(munmap(at + most, PAGE), 0);
	memmove(at + 1, at, n);
	cr_expect(publishes(at + 1, most - 1));
	cr_expect_not(publishes(at + 1, most));
	cr_assert_eq(munmap(at + most / 2, PAGE), 0);
	cr_expect(publishes(at + 1, most / 2 - 1));
	cr_expect_not(publishes(at + 1, most / 2));
	cr_expect_not(publishes(at + 1, most - 1));
}

Test(foreign_context, reads_the_process_context_of_the_process)
{
	const struct sp_config config = {.service_name = "unit"};
	struct sp_process_context_threads threads;
	uintptr_t at = 0;

	cr_expect_not(sp_process_context_find_other(&at));
	cr_assert_eq(sp_process_context_publish(&config), 0);
	cr_expect_not(sp_process_context_find_other(&at), "it is our own");
	/* A forked child forgets its own context like this, so it looks like another library's. */
	sp_thread_context_forked(NULL);
	cr_assert(sp_process_context_find_other(&at));
	sp_process_context_read(at, &threads);
	cr_expect_eq(threads.root_key, 0);
}

/* Making a larger file would end the process by SIGXFSZ. */
Test(foreign_context, of_a_process_that_may_not_make_a_file_of_its_size_is_not_made)
{
	const struct sp_config config = {.service_name = "unit"};
	struct rlimit before, limit;
	uintptr_t at = 0;
	int rc;

	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 8192;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	rc = sp_process_context_publish(&config);
	/* The test's own log may be larger than the limit. */
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	cr_expect_lt(rc, 0);
	sp_thread_context_forked(NULL);
	cr_expect_not(sp_process_context_find_other(&at));

	limit.rlim_cur = 16384;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	rc = sp_process_context_publish(&config);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	cr_expect_eq(rc, 0, "one that is just as large may be made");
}
