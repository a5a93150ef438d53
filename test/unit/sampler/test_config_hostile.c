/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the configuration with values nobody would write: long, binary, damaged. */
#include "sampler/config/config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "config_env.h"
#include "sampler/config/config_table.h"

Test(config_hostile, holds_4000_bytes_in_every_variable, .timeout = 20)
{
	static char entry[4200];

	for (unsigned id = 0; id < SP_VAR_N; id++) {
		const struct sp_config_var *var = &sp_config_vars[id];
		int n = snprintf(entry, sizeof(entry), "%s=", var->source[0].name);

		memset(entry + n, 'x', 4000);
		entry[n + 4000] = '\0';
		cr_expect_leq(PARSE(entry), 1);
		cr_expect_lt(strlen(stderr_text), 400, "got: %s", stderr_text);
		memset(entry + n, 0x80 + (int)id, 4000);
		cr_expect_leq(PARSE(entry), 1);
		cr_expect_lt(strlen(stderr_text), 400);
	}
}

/* A fixed sequence, so that a failure repeats. */
static uint32_t seed = 20240607;

static uint32_t next(void)
{
	seed = seed * 1664525 + 1013904223;
	return seed >> 8;
}

static void mutate(char *entry, size_t cap)
{
	size_t len = strlen(entry);
	size_t start = strcspn(entry, "=") + 1;

	static const char special[] = "%,={}\"\\:/@ 0\n";

	for (unsigned n = next() % 6 + 1; n > 0 && len > start; n--) {
		size_t at = start + next() % (len - start);

		if (next() % 4 == 0 && len + 1 < cap) {
			memmove(entry + at + 1, entry + at, len - at + 1);
			len++;
		} else if (next() % 4 == 0) {
			memmove(entry + at, entry + at + 1, len - at);
			len--;
			continue;
		}
		entry[at] = special[next() % (sizeof(special) - 1)];
		if (next() % 3 == 0)
			entry[at] = (char)(next() % 255 + 1);
	}
}

static void expect_sane(void)
{
	cr_expect(cfg.sample_rate_hz >= 1 && cfg.sample_rate_hz <= 1000);
	cr_expect(cfg.upload_interval_ms >= 200 && cfg.upload_interval_ms <= 600000);
	cr_expect_leq(cfg.flush_timeout_ms, 60000);
	cr_expect(cfg.stack_depth >= 1 && cfg.stack_depth <= SP_FRAMES_MAX);
	cr_expect(cfg.signal_number >= 0 && cfg.signal_number <= SIGRTMAX);
	cr_expect(cfg.max_span_names >= 1 && cfg.max_span_names <= 100000);
	cr_expect_neq(cfg.service_name[0], '\0');
	cr_expect_null(strpbrk(cfg.service_name, "\n\r\x01\x7f"));
	cr_expect(cfg.tenant_id == NULL || strpbrk(cfg.tenant_id, "\n\r") == NULL);
	for (const char *s = stderr_text; *s != '\0'; s = strchr(s, '\n') + 1)
		cr_expect_eq(strncmp(s, "spanprof[", 9), 0, "got: %s", stderr_text);
}

Test(config_hostile, survives_a_thousand_mutations, .timeout = 60)
{
	static const char *const seeds[] = {
		"SPANPROF_SAMPLE_RATE=100",
		"PYROSCOPE_PROFILING_INTERVAL=10ms",
		"SPANPROF_UPLOAD_INTERVAL=15s",
		"SPANPROF_FLUSH_TIMEOUT=2s",
		"SPANPROF_SIGNAL=SIGRTMIN+3",
		"SPANPROF_LOG_LEVEL=warn",
		"SPANPROF_STACK_DEPTH=128",
		"SPANPROF_MAX_SPAN_NAMES=1000",
		"SPANPROF_TENANT_ID=tenant",
		"SPANPROF_SERVER_ADDRESS=http://user:password@[::1]:4040/path?q",
		"SPANPROF_PROFILE_URL=https://g/{span_id}",
		"SPANPROF_LABELS=a=b,c:d,e=f",
		"OTEL_RESOURCE_ATTRIBUTES=service.name=a%20b,service.namespace=c,k=%C3%A9",
		"SPANPROF_HTTP_HEADERS={\"A\":\"b\",\"C\":\"\\\"d\"}",
		"SPANPROF_OUTPUT_DIR=/a/b",
	};
	char entries[15][128];
	const char *list[16] = {NULL};

	for (unsigned round = 0; round < 1000; round++) {
		for (size_t i = 0; i < 15; i++) {
			(void)snprintf(entries[i], sizeof(entries[i]), "%s", seeds[i]);
			mutate(entries[i], sizeof(entries[i]));
			list[i] = entries[i];
		}
		cr_expect_leq(parse_list(list), 15, "more than one warning for a value");
		(void)sp_config_disabled();
		(void)sp_config_says(SP_VAR_PROFILE, "always");
		expect_sane();
	}
}
