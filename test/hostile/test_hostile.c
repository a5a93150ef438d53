/* SPDX-License-Identifier: Apache-2.0 */
/* Two hundred malicious hosts, and the two largest possible ones. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/common/rounds.h"
#include "test/hostile/way.h"

static struct way w;
static uint64_t seed;

TestSuite(hostile, .fini = way_fini);

/* Bytes that cause trouble somewhere. */
static const char *const bits[] = {
	"\xff",
	"\xc3",
	"\xe2\x82",
	"\xf0\x9f\x98\x80",
	"\xed\xa0\x80",
	"\xc0\x80",
	"\n",
	"\x1b[31m",
	"\x7f",
	",",
	"}",
	"{",
	"=",
	"\"",
	"\\",
	"span_id",
	"%00",
	"&name=x",
	" ",
	".go",
	"-",
	"..",
	"\xe2\x80\xae",
	"trace_id",
	"__name__",
	":",
	"/",
	"a",
};

static char name[5001];

static size_t make_name(uint64_t *state, size_t most)
{
	size_t want = way_random(state) % 8 == 0 ? most : way_random(state) % 60;
	size_t n = 0;

	while (n < want) {
		const char *bit = bits[way_random(state) % (sizeof(bits) / sizeof(bits[0]))];
		size_t len = strlen(bit) < want - n ? strlen(bit) : want - n;

		memcpy(name + n, bit, len);
		n += len;
	}
	name[n] = '\0';
	return n;
}

/* An id has the same text each time. */
static const char *text_of(uint32_t id, size_t *len)
{
	uint64_t state = seed * 1000 + id * UINT64_C(0x9e3779b97f4a7c15) + 1;

	*len = make_name(&state, sizeof(name) - 1);
	return name;
}

static void make_stack(struct sp_sample *s, uint64_t *state)
{
	memset(s, 0, sizeof(*s));
	s->depth = (uint16_t)(way_random(state) % (SP_FRAMES_MAX + 1));
	for (unsigned i = 0; i < s->depth; i++)
		switch (way_random(state) % 4) {
		case 0:
			s->pc[i] = way_random(state);
			break;
		case 1:
			s->pc[i] = (uintptr_t)&malloc + way_random(state) % 4096;
			break;
		case 2:
			s->pc[i] = (uintptr_t)&way_start + way_random(state) % 4096;
			break;
		default:
			s->pc[i] = way_random(state) % 3 - 1;
		}
	s->flags = (uint16_t)(way_random(state) & (SP_SAMPLE_ROOTED | SP_SAMPLE_TRUNCATED));
	s->weight = way_random(state) % 5 == 0 ? UINT32_MAX : 1;
	if (way_random(state) % 3 != 0)
		s->span_id = way_random(state) % 5 == 0 ? way_random(state) % 3 : way_random(state);
	if (s->span_id != 0) {
		s->name_id = (uint32_t)(way_random(state) % 30);
		memset(s->trace_id, (int)(way_random(state) % 256), sizeof(s->trace_id));
	}
}

/* "k=v,...": forty labels, many of which no server accepts. */
static char *make_labels(uint64_t *state)
{
	char *labels = calloc(40, sizeof(name) + 32);
	size_t used = 0;

	for (unsigned i = 0; i < 40; i++) {
		make_name(state, 1500);
		used += (size_t)sprintf(labels + used, "%s%u%s=", i != 0 ? "," : "", i,
					i % 2 != 0 ? "" : name);
		make_name(state, sizeof(name) - 1);
		used += (size_t)sprintf(labels + used, "%s", name);
	}
	return labels;
}

static void one_host(unsigned number)
{
	uint64_t state = number * UINT64_C(0x9e3779b97f4a7c15) + 7;
	unsigned samples = 1 + (unsigned)(way_random(&state) % 200);
	char service[sizeof(name)];
	struct sp_sample s;
	char what[32];
	char *labels;

	seed = number;
	(void)snprintf(what, sizeof(what), "host %u", number);
	make_name(&state, sizeof(name) - 1);
	strcpy(service, name);
	labels = make_labels(&state);
	w.name_text = text_of;
	w.config.service_name = service;
	w.config.service_namespace = number % 3 == 0 ? service : NULL;
	w.config.labels = labels;
	w.config.protocol = (enum sp_protocol)(number % 3);
	/* A resource is sent complete; no user of this server wants one with forty labels. */
	if (w.config.protocol == SP_PROTOCOL_OTLP)
		w.server.limits.label_names = SIZE_MAX;
	for (unsigned i = 0; i < samples; i++) {
		make_stack(&s, &state);
		way_put(&w, &s);
	}
	way_send(&w, what);
	free(labels);
}

Test(hostile, hosts_are_all_taken, .timeout = 240)
{
	for (unsigned i = 0; i < ROUNDS(200U); i++) {
		char what[32];

		(void)snprintf(what, sizeof(what), "host %u", i);
		way_start(&w);
		one_host(i);
		way_expect_all(&w, what);
		cr_expect_gt(w.refused, 0, "%s: 40 labels do not fit", what);
		way_end(&w);
	}
}

Test(hostile, the_same_host_gives_the_same_bytes, .timeout = 60)
{
	for (unsigned i = 0; i < 6; i++) {
		uint64_t digest;

		way_start(&w);
		one_host(i);
		digest = w.digest;
		way_end(&w);
		way_start(&w);
		one_host(i);
		cr_expect_neq(digest, 0);
		cr_expect_eq(w.digest, digest, "host %u", i);
		way_end(&w);
	}
}

Test(hostile, a_hundred_thousand_stacks_keep_their_sum, .timeout = 120)
{
	struct sp_sample s = {.weight = 1, .depth = 3, .flags = SP_SAMPLE_ROOTED};

	way_start(&w);
	for (uint32_t i = 0; i < 100000; i++) {
		s.pc[0] = (uintptr_t)&malloc + i % 4096;
		s.pc[1] = (uintptr_t)&way_start + i / 256;
		s.pc[2] = (uintptr_t)&free;
		way_put(&w, &s);
	}
	way_send(&w, "stacks");

	way_expect_all(&w, "stacks");
	cr_expect_gt(w.profiles, 1);
	way_end(&w);
}

Test(hostile, a_million_spans_keep_their_sum, .timeout = 120)
{
	struct sp_sample s = {.weight = 1, .depth = 2, .flags = SP_SAMPLE_ROOTED};

	way_start(&w);
	w.name_text = text_of;
	s.pc[0] = (uintptr_t)&malloc;
	s.pc[1] = (uintptr_t)&way_start;
	for (uint64_t i = 1; i <= 1000000; i++) {
		s.span_id = i * UINT64_C(0x9e3779b97f4a7c15);
		s.name_id = (uint32_t)(i % 1000);
		memcpy(s.trace_id, &i, sizeof(i));
		way_put(&w, &s);
	}
	way_send(&w, "spans");

	way_expect_all(&w, "spans");
	way_end(&w);
}
