/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A family whose server accepts connections and never answers: only the last process waits for it.
 */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "family_unit.h"

TestSuite(family_server, .init = set_up, .fini = tear_down, .timeout = 60);

static int silent_server;

/* A server that accepts connections and never answers. */
static void send_to_silence(void)
{
	static char address[64];
	struct sockaddr_in {
		sa_family_t family;
		uint16_t port;
		uint32_t address;
		char pad[8];
	} a = {.family = AF_INET, .address = 0x0100007f};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(fd, 8), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	silent_server = fd;
	(void)snprintf(address, sizeof(address), "http://127.0.0.1:%u",
		       (unsigned)(a.port >> 8 | (a.port & 0xff) << 8));
	program.config.output_dir = NULL;
	program.config.server_address = address;
}

/*
 * The last process has to wait, because the queued profiles would be lost with it; until then there
 * is time.
 */
Test(family_server, that_hangs_lets_members_end)
{
	struct host_double first;
	uint64_t begun;

	send_to_silence();
	start();
	first = host_make_another();
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	sample(&host, 1);
	begun = sp_clock_mono_ns();
	program_flush(&host);
	cr_assert(becomes(&host.region->flush_done, 1));
	cr_expect_lt(sp_clock_mono_ns() - begun, 3 * SP_NS_PER_S);
	end(&host);
	(void)kill(program.pid, SIGKILL);
	end(&first);
	(void)program_status();
}

static bool is_drained(const struct host_double *of)
{
	const _Atomic uint64_t *drained = &of->region->exporter_counter[SP_COUNT_SAMPLES_DRAINED];

	for (unsigned i = 0; i < 10000 && atomic_load(drained) == 0; i++)
		(void)poll(NULL, 0, 1);
	return atomic_load(drained) != 0;
}

/*
 * The exporter has time for the profiles of the last process, because nobody waits for them. A
 * process that comes then must not wait either.
 */
Test(family_server, that_hangs_keeps_nobody_from_being_served)
{
	struct host_double first;
	struct pollfd connected;

	send_to_silence();
	start();
	first = host_make_another();
	sample(&first, 1);
	end(&first);
	connected = (struct pollfd){.fd = silent_server, .events = POLLIN};
	cr_assert_eq(poll(&connected, 1, 10000), 1);
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	sample(&host, 2);
	/* The host has put nothing by itself, so it seems idle. */
	atomic_fetch_add(&host.region->wake, 1);
	sp_view_wake(&host.region->wake);
	cr_assert(is_drained(&host));
	cr_expect_eq(atomic_load(&first.region->exporter_counter[SP_COUNT_SAMPLES_UNSENT]), 0,
		     "it was served after the others");
	end(&host);
	(void)kill(program.pid, SIGKILL);
	(void)program_status();
}

/*
 * No process is left that would keep the exporter alive: the container may end with the last of
 * them.
 */
Test(family_server, is_waited_for_when_all_are_about_to_end)
{
	struct host_double first;
	uint64_t begun;

	program.config.flush_timeout_ms = 400;
	send_to_silence();
	start();
	first = host_make_another();
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	sample(&first, 1);
	sample(&host, 1);
	begun = sp_clock_mono_ns();
	program_flush(&first);
	program_flush(&host);
	cr_assert(becomes(&first.region->flush_done, 1));
	cr_assert(becomes(&host.region->flush_done, 1));
	cr_expect_geq(sp_clock_mono_ns() - begun, 300 * SP_NS_PER_MS);
	end(&host);
	end(&first);
	(void)kill(leader, SIGKILL);
	cr_expect_eq(program_status(), 0);
}

static bool has_mapped(const struct host_double *of)
{
	char path[32];
	char line[512];
	char inode[32];
	bool has = false;
	struct stat st;
	FILE *maps;

	cr_assert_eq(fstat(of->fd, &st), 0);
	(void)snprintf(inode, sizeof(inode), " %lu ", (unsigned long)st.st_ino);
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)program.pid);
	maps = fopen(path, "r");
	cr_assert_not_null(maps);
	while (!has && fgets(line, sizeof(line), maps) != NULL)
		has = strstr(line, "memfd:spanprof") != NULL && strstr(line, inode) != NULL;
	(void)fclose(maps);
	return has;
}

/* A server may be away for an hour, with hundreds of processes. */
Test(family_server, that_is_away_costs_no_memory_of_who_has_ended)
{
	struct host_double first;

	program.config.flush_timeout_ms = 300;
	send_to_silence();
	start();
	first = host_make_another();
	host_start(join);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	cr_assert(has_mapped(&host));
	sample(&host, 1);
	end(&host);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_GONE));
	for (unsigned i = 0; i < 5000 && has_mapped(&host); i++)
		(void)poll(NULL, 0, 1);
	cr_expect_not(has_mapped(&host));
	cr_expect_not(status_has(host.pid, "\"samples_in_lost_batches\": 1"), "it waits");

	end_with(&first);
	cr_expect(status_has(host.pid, "\"put\": 1,\n  \"drained\": 1"));
	cr_expect(status_has(host.pid, "\"samples_in_lost_batches\": 1"));
}
