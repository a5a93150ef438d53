/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The publisher (publisher.h). With PUBLISHER_HEAP=1 each record is a new one on the heap and the old one is freed,
 * as OTEP 4947 allows; otherwise each thread has one in thread-local storage.
 */
#define _GNU_SOURCE
#include "test/hosts/lib/publisher.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

struct record {
	uint8_t trace[16];
	uint8_t span[8];
	_Atomic uint8_t valid;
	uint8_t flags;
	uint16_t bytes;
	uint8_t attributes[128];
};

__attribute__((visibility("default"))) __thread void *otel_thread_ctx_v1;
static __thread struct record own;
static __thread struct record *last;

static void put_id(uint8_t out[8], uint64_t id)
{
	for (int i = 0; i < 8; i++)
		out[i] = (uint8_t)(id >> (56 - 8 * i));
}

static void fill(struct record *r, uint64_t span, uint64_t root)
{
	char hex[17];

	put_id(r->trace, ~span);
	put_id(r->trace + 8, span);
	put_id(r->span, span);
	r->flags = 1;
	r->bytes = 0;
	if (root == 0)
		return;
	snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)root);
	memcpy(r->attributes, "\1\3GET\0\20", 7);
	memcpy(r->attributes + 7, hex, 16);
	r->bytes = 23;
}

__attribute__((visibility("default"))) void publish(uint64_t span, uint64_t root)
{
	struct record *r = &own;
	struct record *old = last;

	if (getenv("PUBLISHER_HEAP") != NULL) {
		r = span != 0 ? calloc(1, sizeof(*r)) : NULL;
		last = r;
		if (r != NULL) {
			fill(r, span, root);
			atomic_store(&r->valid, 1);
		}
		otel_thread_ctx_v1 = r;
		free(old);
		return;
	}
	atomic_store(&r->valid, 0);
	otel_thread_ctx_v1 = r;
	if (span == 0)
		return;
	fill(r, span, root);
	atomic_store(&r->valid, 1);
}

#define BYTES 4096

__attribute__((visibility("default"))) void publish_process(void)
{
	static const char message[] =
		"\n\x1b\n\x19\n\x0cservice.name\x12\x09\n\x07library"
		"\x12\x59\n\x1dthreadlocal.attribute_key_map\x12\x38\x2a\x36\n\x1c"
		"\n\x1a"
		"datadog.local_root_span_id"
		"\n\x16\n\x14"
		"http.response.method";
	const uint32_t head[2] = {2, sizeof(message) - 1};
	const uint64_t tail[2] = {1, 0};
	uint64_t payload;
	char *at;
	int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, BYTES) != 0)
		abort();
	at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		abort();
	close(fd);
	payload = (uint64_t)(uintptr_t)(at + 32);
	memcpy(at, "OTEL_CTX", 8);
	memcpy(at + 8, head, sizeof(head));
	memcpy(at + 24, &payload, sizeof(payload));
	memcpy(at + 32, message, sizeof(message));
	memcpy(at + 16, tail, 8);
	/* Made even if the kernel refuses it: profilers watch for this call. */
	if (getenv("PUBLISHER_UNNAMED") != NULL)
		return;
	if (getenv("PUBLISHER_SYSCALL") != NULL)
		syscall(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, BYTES, "OTEL_CTX", 0);
	else
		prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, BYTES, "OTEL_CTX");
}

__attribute__((visibility("default"))) void point(void *record)
{
	otel_thread_ctx_v1 = record;
}
