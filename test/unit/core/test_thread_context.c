/* SPDX-License-Identifier: Apache-2.0 */
/* The records that profilers outside of the process read, and the rules for publishing them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/context/foreign_context.h"
#include "sampler/context/thread_context.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/span/span.h"
#include "test/unit/core/span_host.h"
#include "test/unit/emulated.h"
#include "test/unit/sampler/stderr_pipe.h"

static struct sp_config config = {.service_name = "unit", .thread_context = true};

static void set_up_context(void)
{
	set_up();
	sp_thread_context_init(&config, false);
}

/* What a profiler finds for the calling thread; NULL = nothing. */
static const struct sp_context_record *record(void)
{
	return atomic_load(sp_context_slot());
}

static bool shows_span(uint64_t id, uint64_t root)
{
	const struct sp_context_record *r = record();
	char hex[17];
	uint8_t bytes[8];

	if (r == NULL || r->valid != 1)
		return false;
	memcpy(bytes, &root, sizeof(bytes));
	for (unsigned i = 0; i < 8; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	return memcmp(r->span_id, &id, 8) == 0 && r->trace_id[0] == 0x5a && r->flags == 1 &&
	       r->attributes == 18 && r->key == 0 && r->len == 16 &&
	       memcmp(r->root_id, hex, 16) == 0;
}

static bool shows_no_span(void)
{
	return record() == NULL || record()->valid == 0;
}

static bool has_mapping(void)
{
	uintptr_t at = 0;

	return sp_process_maps_find(0, &at);
}

static void attach(uint64_t token, uint64_t id)
{
	sp_active_span_attached(token, (const uint8_t *)&id);
}

TestSuite(thread_context, .init = set_up_context, .timeout = 20);

Test(thread_context, is_of_the_active_span_and_its_root)
{
	cr_assert(!has_mapping());
	cr_assert_null(record());

	begin(UINT64_C(0x0123456789abcdef));
	cr_expect(has_mapping());
	cr_expect(shows_span(UINT64_C(0x0123456789abcdef), UINT64_C(0x0123456789abcdef)));
	begin(2);
	cr_expect(shows_span(2, UINT64_C(0x0123456789abcdef)));
	end(2);
	cr_expect(shows_span(UINT64_C(0x0123456789abcdef), UINT64_C(0x0123456789abcdef)));
	end(UINT64_C(0x0123456789abcdef));
	cr_expect(shows_no_span());
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_PUBLISHED);
}

Test(thread_context, follows_attach_and_detach)
{
	attach(10, 7); /* not recorded: hides the span that was active */
	cr_expect_null(record());
	begin_scoped(1);
	begin_scoped(2);
	cr_expect(shows_no_span());
	attach(20, 1);
	cr_expect(shows_span(1, 1));
	attach(30, 2);
	cr_expect(shows_span(2, 2));
	attach(40, 9);
	cr_expect(shows_no_span());
	sp_active_span_detached(40, false);
	cr_expect(shows_span(2, 2));
	sp_active_span_detached(20, true);
	cr_expect(shows_no_span());
	attach(50, 2);
	cr_expect(shows_span(2, 2));
	sp_active_span_forget_scopes();
	cr_expect(shows_no_span());
}

Test(thread_context, is_not_valid_after_a_span_ended_in_whatever_order)
{
	struct sp_span_record r;

	begin(1);
	begin(2);
	end(1);
	cr_expect(shows_span(2, 1));
	cr_assert(sp_span_of(handle_of(2), &r));
	cr_assert(sp_span_close(&r));
	cr_expect(shows_no_span());
	sp_span_table_release(&r);
	begin(3);
	begin(4);
	end_elsewhere(4);
	/* The thread itself changes the record, at its next span. */
	cr_expect(shows_span(4, 3));
	end(3);
	cr_expect(shows_no_span());
	begin(5);
	cr_assert(sp_span_of(handle_of(5), &r));
	cr_assert(sp_span_aged(&r));
	cr_expect(shows_no_span());
}

Test(thread_context, is_of_the_span_around_a_manual_label)
{
	begin(1);
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(99, 0), 0);
	begin(2);
	cr_expect(shows_span(2, 1));
	end(2);
	cr_expect(shows_span(1, 1));
	cr_assert(sp_manual_label_exit());
	end(1);
	cr_expect(shows_no_span());
}

/* The id of a span without a frame is unknown: then no span is shown, rather than another one. */
Test(thread_context, is_not_valid_where_the_spans_frame_was_forgotten)
{
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX + 1; id++)
		begin(id);
	for (uint64_t id = SP_SPAN_DEPTH_MAX + 1; id > SP_SPAN_FORGET; id--) {
		cr_expect(shows_span(id, 1));
		end(id);
	}
	cr_expect(shows_no_span());
	begin(500);
	cr_expect(shows_span(500, 1));
}

static void *end_thread(void *unused)
{
	(void)unused;
	begin(2);
	cr_expect(shows_span(2, 2));
	sp_thread_ended();
	cr_expect_null(record());
	return NULL;
}

Test(thread_context, is_each_threads_own_until_it_ends)
{
	begin(1);
	run(end_thread);
	cr_expect(shows_span(1, 1));
}

Test(thread_context, is_not_published_unasked_or_in_a_variable_of_the_programs_own)
{
	struct sp_config changed = config;

	changed.thread_context = false;
	sp_thread_context_init(&changed, false);
	begin(1);
	cr_expect_null(record());
	cr_expect(!has_mapping());
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_OFF);

	sp_thread_context_init(&config, true);
	begin(2);
	cr_expect_null(record());
	cr_expect(!has_mapping());
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_FOREIGN);

	sp_thread_context_init(&config, false);
	begin(3);
	cr_expect(shows_span(3, 1));
}

static char others[64];

Test(thread_context, is_not_published_where_the_variable_is_in_use)
{
	atomic_store(sp_context_slot(), others);
	begin(1);
	cr_expect_eq((const void *)record(), (const void *)others);
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_FOREIGN);
	cr_expect_not(atomic_load(&sp_thread_context_on), "nothing is done at each span");
	cr_expect(!has_mapping());
	end(1);
	atomic_store(sp_context_slot(), NULL);
	begin(2);
	cr_expect_null(record());
}

static void *find_another_publisher(void *unused)
{
	(void)unused;
	atomic_store(sp_context_slot(), others);
	begin(2);
	cr_expect_eq((const void *)record(), (const void *)others);
	return NULL;
}

Test(thread_context, is_withdrawn_when_another_publisher_appears)
{
	begin(1);
	run(find_another_publisher);
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_FOREIGN);
	cr_expect(!has_mapping());
	begin(3);
	cr_expect_null(record(), "at the thread's next change");
}

Test(thread_context, is_not_published_where_the_program_has_a_process_context)
{
	sp_process_context_made_by_program();
	begin(1);
	cr_expect_null(record());
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_FOREIGN);
	cr_expect(!has_mapping());
}

static void *map_another(void)
{
	int fd = memfd_create(SP_PROCESS_CONTEXT_NAME, MFD_CLOEXEC);
	void *at;

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, 4096), 0);
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	cr_assert_neq(at, MAP_FAILED);
	close(fd);
	return at;
}

/* The file was made without the C library, so no hook saw it. */
Test(thread_context, is_withdrawn_when_another_process_context_is_found)
{
	const void *other = map_another();
	uintptr_t at = 0;

	begin(1);
	cr_expect(shows_span(1, 1));
	sp_thread_context_search();
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_FOREIGN);
	cr_assert(sp_process_maps_find(0, &at));
	cr_expect_eq(at, (uintptr_t)other);
	cr_expect_not(sp_process_maps_find(at, &at), "ours is gone");
	begin(2);
	cr_expect_null(record(), "at the thread's next change");
}

Test(thread_context, stays_where_no_other_process_context_is_found)
{
	begin(1);
	sp_thread_context_search();
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_PUBLISHED);
	cr_expect(shows_span(1, 1));
}

static void allow_descriptors(bool allowed)
{
	static struct rlimit limit;

	if (limit.rlim_max == 0)
		cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE,
			       &(struct rlimit){allowed ? limit.rlim_cur : 3, limit.rlim_max}),
		     0);
}

Test(thread_context, waits_for_a_descriptor)
{
	allow_descriptors(false);
	begin(1);
	cr_expect_null(record());
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_WAITING);
	allow_descriptors(true);
	begin(2);
	cr_expect_null(record(), "not before the next deferred work");
	sp_thread_context_search();
	begin(3);
	cr_expect(shows_span(3, 1));
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_PUBLISHED);
	sp_thread_context_search();
	end(3);
	cr_expect(shows_span(2, 1));
}

Test(thread_context, does_not_wait_for_a_descriptor_for_ever)
{
	stderr_begin();
	allow_descriptors(false);
	for (uint64_t i = 1; i < 8; i++) {
		begin(i);
		sp_thread_context_search();
		cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_WAITING, "%u", (unsigned)i);
	}
	begin(8);
	allow_descriptors(true);
	cr_expect_eq(stderr_end(), 1);
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_REFUSED);
	sp_thread_context_search();
	begin(9);
	cr_expect_null(record());
}

Test(thread_context, is_withdrawn_when_spans_are_not_followed_any_more)
{
	begin(1);
	sp_thread_unpublish();
	cr_expect(shows_no_span());
	cr_expect(!has_mapping());
	begin(2);
	cr_expect(shows_no_span());
	cr_expect_eq(sp_thread_context_state(), SP_CONTEXT_OFF);
}

Test(thread_context, of_a_forked_child_begins_with_its_next_span)
{
	int status = 0;
	pid_t pid;

	if (emulated())
		cr_skip_test("the emulator does not know MADV_DONTFORK");
	begin(1);
	pid = fork();
	if (pid == 0) {
		sp_span_forked(sp_thread_forked());
		bool nothing = record() == NULL && !has_mapping();

		begin(2);
		_exit(nothing && shows_span(2, 1) && has_mapping() ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	cr_expect(shows_span(1, 1));
}

Test(thread_context, of_a_process_is_found_among_its_mappings)
{
	static const char *const lines[] = {
		"7f0000001000-7f0000005000 rw-p 00000000 00:01 1037   [anon_shmem:OTEL_CTX]",
		"7f0000001000-7f0000005000 rw-p 00000000 00:00 0      [anon:OTEL_CTX]",
		"7f0000001000-7f0000005000 rw-p 00000000 00:01 1037   /memfd:OTEL_CTX (deleted)",
		("7f0000001000-7f0000005000 rw-p 00000000 00:01 18446744073709551615 "
		 "/memfd:OTEL_CTX"),
	};
	static const char *const others_lines[] = {
		"7f0000001000-7f0000005000 r-xp 00000000 00:01 1037   /memfd:OTEL_CTX (deleted)",
		"7f0000001000-7f0000005000 rw-p 00000000 00:01 1037   /tmp/[anon:OTEL_CTX]",
		"7f0000001000-7f0000005000 rw-p 00000000 00:00 0 ",
		"7f0000001000-7f0000005000 rw-p",
		"",
	};
	uintptr_t at = 0;

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		cr_expect(sp_process_maps_line(lines[i], &at), "%u", i);
		cr_expect_eq(at, 0x7f0000001000);
	}
	for (unsigned i = 0; i < sizeof(others_lines) / sizeof(others_lines[0]); i++)
		cr_expect_not(sp_process_maps_line(others_lines[i], &at), "%u", i);
}

/* An attribute that does not fit is left out, and nothing is written behind the end. */
Test(thread_context, of_a_process_fits_into_its_mapping)
{
	static char list[8193];
	static uint8_t out[16384 + 1];
	struct sp_config large = config;

	memset(list, 'x', sizeof(list) - 1);
	for (unsigned i = 0; i + 8 < sizeof(list); i += 8) {
		list[i + 3] = '=';
		list[i + 7] = ',';
	}
	large.resource_attributes = list;
	for (size_t cap = 0; cap < sizeof(out); cap += cap < 400 ? 1 : 333) {
		out[cap] = 0xa5;
		cr_assert_leq(sp_process_context_encode(&large, "", out, cap), cap);
		cr_assert_eq(out[cap], 0xa5, "%zu", cap);
	}
}
