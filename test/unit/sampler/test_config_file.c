/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's settings, and which settings a program with them takes from whom: sampler/config/config_file.c and
 * config_read.c.
 */
#include "sampler/config/config_file.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_env.h"
#include "sampler/config/config_table.h"
#include "test/unit/descriptors.h"
#include "test/unit/scratch.h"

#define OBJECT "/usr/lib/spanprof/libspanprof.so"
#define OTHER 65534

static const char *file;

static void write_file(const char *text)
{
	file = scratch_write("conf", text, strlen(text));
	cr_assert_eq(chmod(file, 0644), 0);
}

/* The number of lines on stderr. */
static unsigned load_list(const char *const *envp)
{
	sp_config_load((char *const *)(uintptr_t)envp, OBJECT, file);
	stderr_begin();
	sp_config_parse(&cfg);
	return stderr_end();
}

#define LOAD(...) load_list((const char *const[]){__VA_ARGS__, NULL})

static bool preloaded(const char *list, const char *object)
{
	char entry[256];
	char *envp[] = {strdup("LD_PRELOADED=" OBJECT), entry, NULL};
	bool is;

	(void)snprintf(entry, sizeof(entry), "LD_PRELOAD=%s", list);
	is = sp_config_is_preloaded(envp, object);
	free(envp[0]);
	return is;
}

Test(config_file, counts_unless_ld_preload_has_an_entry_of_our_name, .timeout = 20)
{
	cr_expect(preloaded(OBJECT, OBJECT));
	cr_expect(preloaded("libspanprof.so", OBJECT), "found by the loader's own search");
	cr_expect(preloaded("/usr/lib/spanprof/$LIB/libspanprof.so", OBJECT));
	cr_expect(preloaded("/lib/a.so " OBJECT, OBJECT));
	cr_expect(preloaded("/lib/a.so::" OBJECT ":/lib/b.so", OBJECT));
	cr_expect(preloaded("a", "a"));

	cr_expect_not(preloaded("", OBJECT));
	cr_expect_not(preloaded("/lib/a.so", OBJECT));
	cr_expect_not(preloaded("/lib/xlibspanprof.so", OBJECT));
	cr_expect_not(preloaded("/lib/libspanpruf.so", OBJECT));
	cr_expect_not(preloaded("libspanprof.so.1", OBJECT));
	cr_expect_not(preloaded(OBJECT "/a", OBJECT));
	cr_expect_not(preloaded("so", OBJECT));
	cr_expect_not(preloaded("/lib/a.so:/", ""), "the loader has not told our name");
	cr_expect_not(sp_config_is_preloaded((char *const[]){NULL}, OBJECT));
}

Test(config_file, says_nothing_to_a_program_with_ld_preload, .timeout = 20)
{
	scratch_make();
	write_file("SPANPROF_SAMPLE_RATE=50\nSPANPROF_DISABLED=true\n");
	cr_expect_eq(LOAD("LD_PRELOAD=" OBJECT, "SPANPROF_TENANT_ID=t"), 0);
	cr_expect_eq(cfg.sample_rate_hz, 100);
	cr_expect_str_eq(cfg.tenant_id, "t");
	cr_expect_not(cfg.disabled);
	scratch_remove();
}

/* An environment may have any values, for all variables. */
Test(config_file, leaves_a_program_its_switch_off_its_name_and_its_labels_alone, .timeout = 20)
{
	char entry[128];
	unsigned taken = 0;

	scratch_make();
	file = in_scratch("none");
	for (unsigned id = 0; id < SP_VAR_N; id++) {
		for (unsigned i = 0; i < SP_CONFIG_SOURCES; i++) {
			const char *name = sp_config_vars[id].source[i].name;
			char *envp[] = {entry, NULL};

			if (name == NULL)
				continue;
			(void)snprintf(entry, sizeof(entry), "%s=/evil", name);
			sp_config_load(envp, OBJECT, file);
			for (char *const *e = sp_config_copy_environment("shop"); *e != NULL; e++) {
				if (strcmp(*e, entry) != 0)
					continue;
				taken++;
				cr_expect(id == SP_VAR_DISABLED || id == SP_VAR_SERVICE_NAME ||
						  id == SP_VAR_LABELS ||
						  id == SP_VAR_RESOURCE_ATTRIBUTES,
					  "%s", name);
			}
		}
	}
	cr_expect_gt(taken, 5);
	LOAD("HOME=/evil", "XDG_CACHE_HOME=/evil", "DEBUGINFOD_CACHE_PATH=/evil",
	     "DEBUGINFOD_TIMEOUT=9");
	for (char *const *e = sp_config_copy_environment("shop"); *e != NULL; e++)
		cr_expect_null(strstr(*e, "evil"), "%s", *e);
	scratch_remove();
}

/* Not logged as a warning: a user could make a program with more rights write to its stderr. */
Test(config_file, tells_the_first_variable_that_does_not_count, .timeout = 20)
{
	scratch_make();
	write_file("SPANPROF_SAMPLE_RATE=50\n");
	cr_expect_eq(LOAD("SPANPROF_LOG_LEVEL=debug", "SPANPROF_OUTPUT_DIR=/evil"), 0);
	write_file("SPANPROF_SAMPLE_RATE=50\nSPANPROF_LOG_LEVEL=info\n");
	cr_expect_eq(LOAD("OTEL_SERVICE_NAME=shop", "SPANPROF_LABELS=a=b", "OTEL_LOG_LEVEL=none",
			  "SPANPROF_OUTPUT_DIR=/evil", "SPANPROF_SAMPLE_RATE=9"),
		     1);
	cr_expect(stderr_has("SPANPROF_OUTPUT_DIR is ignored: LD_PRELOAD does not name"), "%s",
		  stderr_text);
	cr_expect(stderr_has(file));
	cr_expect_eq(cfg.sample_rate_hz, 50);
	cr_expect_null(cfg.output_dir);
	cr_expect_str_eq(cfg.service_name, "shop");
	cr_expect_str_eq(cfg.labels, "a=b");
	LOAD("OTEL_RESOURCE_ATTRIBUTES=service.namespace=shops");
	cr_expect_str_eq(cfg.service_namespace, "shops");
	cr_expect_eq(LOAD("SPANPROF_UNHEARD_OF=x", "SPANPROF=1"), 1);
	cr_expect(stderr_has("SPANPROF_UNHEARD_OF is ignored"));
	cr_expect_eq(
		LOAD("SPANPROF_A_NAME_THAT_IS_LONGER_THAN_WHAT_IS_KEPT_OF_A_NAME_OF_A_VARIABLE=x"),
		1);
	cr_expect(stderr_has("SPANPROF_A_NAME_THAT_IS_LONGER_THAN_WHAT_IS_KEPT_OF_A_NAME_OF_A is"));
	cr_expect_eq(LOAD("SPANPROF_LABELS=a=b"), 0, "nothing is left from before");
	cr_expect_eq(LOAD("LD_PRELOAD=" OBJECT, "SPANPROF_SAMPLE_RATE=9"), 0);
	cr_expect_eq(cfg.sample_rate_hz, 9);
	scratch_remove();
}

Test(config_file, is_switched_off_by_either_and_switched_on_by_root_alone, .timeout = 20)
{
	scratch_make();
	write_file("SPANPROF_DISABLED=true\n");
	LOAD("SPANPROF_DISABLED=false", "PYROSCOPE_AGENT_ENABLED=true");
	cr_expect(cfg.disabled);
	cr_expect(sp_config_disabled());
	write_file("SPANPROF_PROFILE=always\n");
	LOAD("SPANPROF_DISABLED=false");
	cr_expect_not(cfg.disabled);
	cr_expect(sp_config_says(SP_VAR_PROFILE, "always"));
	LOAD("OTEL_SDK_DISABLED=true");
	cr_expect(cfg.disabled);
	cr_expect_not(sp_config_says(SP_VAR_PROFILE, "always"), "the file is not even read");
	scratch_remove();
}

Test(config_file, has_lines_comments_and_what_follows_the_name_to_the_last_byte, .timeout = 20)
{
	scratch_make();
	write_file("# SPANPROF_TENANT_ID=no\n\nSPANPROF_TENANT_ID=a b#c \n"
		   "SPANPROF_TENANT_ID=second\nno variable\nSPANPROF_SAMPLE_RATE=7");
	cr_expect_eq(LOAD("A=b"), 0);
	cr_expect_str_eq(cfg.tenant_id, "a b#c ");
	cr_expect_eq(cfg.sample_rate_hz, 7);
	write_file("SPANPROF_SAMPEL_RATE=7\n");
	cr_expect_eq(LOAD("A=b"), 1);
	cr_expect(stderr_has("SPANPROF_SAMPEL_RATE is not a variable of spanprof; did you mean"));
	write_file("SPANPROF_SAMPLE_RATE=x\n");
	cr_expect_eq(LOAD("A=b"), 1);
	cr_expect_eq(cfg.sample_rate_hz, 100);
	scratch_remove();
}

Test(config_file, has_no_secrets_but_files_of_them, .timeout = 20)
{
	scratch_make();
	write_file("SPANPROF_AUTH_TOKEN=t0ken\nSPANPROF_HTTP_HEADERS={}\nSPANPROF_BASIC_AUTH_"
		   "PASSWORD=p\n"
		   "http_proxy=http://u:p@proxy\nSPANPROF_AUTH_TOKEN_FILE=/run/token\n"
		   "SPANPROF_SERVER_ADDRESS=http://user:pass@pyroscope:4040\n"
		   "https_proxy=http://proxy:3128\nall_proxy=socks5h://proxy\nHOME=/var/lib/"
		   "spanprof\n");
	cr_expect_eq(LOAD("A=b"), 1);
	cr_expect(stderr_has("SPANPROF_AUTH_TOKEN is ignored in "), "%s", stderr_text);
	cr_expect_not(stderr_has("t0ken"));
	cr_expect_null(cfg.auth_token);
	cr_expect_null(cfg.http_headers);
	cr_expect_null(cfg.basic_auth_password);
	cr_expect_null(cfg.http_proxy);
	cr_expect_str_eq(cfg.auth_token_file, "/run/token");
	cr_expect_str_eq(cfg.server_address, "http://localhost:4040");
	cr_expect_str_eq(cfg.https_proxy, "http://proxy:3128");
	cr_expect_str_eq(cfg.all_proxy, "socks5h://proxy");
	write_file("SPANPROF_SERVER_ADDRESS=http://pyroscope:4040\n");
	cr_expect_eq(LOAD("A=b"), 0);
	cr_expect_str_eq(cfg.server_address, "http://pyroscope:4040");
	scratch_remove();
}

/* Why that file is not read; "" = it is read, or does not exist. */
static const char *refusal(const char *path)
{
	static char text[SP_CONFIG_FILE_MAX + 1];
	const char *why;
	size_t len = sp_config_file_read(path, text, &why);

	cr_expect(len == 0 || why == NULL);
	return why != NULL ? why : "";
}

Test(config_file, is_roots_alone, .timeout = 20)
{
	unsigned before = open_descriptors();

	if (geteuid() != 0)
		return;
	scratch_make();
	write_file("SPANPROF_SAMPLE_RATE=50\n");
	cr_expect_str_eq(refusal(file), "");
	cr_assert_eq(chmod(file, 0664), 0);
	cr_expect_str_eq(refusal(file), "may be written by others than root");
	cr_assert_eq(chmod(file, 0646), 0);
	cr_expect_str_eq(refusal(file), "may be written by others than root");
	cr_assert_eq(chmod(file, 0444), 0);
	cr_assert_eq(chown(file, OTHER, 0), 0);
	cr_expect_str_eq(refusal(file), "does not belong to root");
	cr_assert_eq(chown(file, 0, OTHER), 0);
	cr_expect_str_eq(refusal(file), "");
	cr_assert_eq(symlink(file, in_scratch("link")), 0);
	cr_expect_str_eq(refusal(in_scratch("link")), "is a symbolic link");
	cr_assert_eq(mkfifo(in_scratch("fifo"), 0644), 0);
	cr_expect_str_eq(refusal(in_scratch("fifo")), "is not a regular file");
	cr_expect_str_eq(refusal(scratch), "is not a regular file");
	cr_expect_str_eq(refusal(in_scratch("none")), "");
	cr_expect_str_eq(refusal(in_scratch("conf/none")), "");
	cr_expect_eq(open_descriptors(), before);

	file = in_scratch("link");
	cr_expect_eq(LOAD("A=b"), 1);
	cr_expect(stderr_has("link is a symbolic link; it is ignored"), "%s", stderr_text);
	cr_expect_eq(cfg.sample_rate_hz, 100);
	file = in_scratch("none");
	cr_expect_eq(LOAD("A=b"), 0, "and is forgotten");
	cr_assert_eq(chmod(in_scratch("conf"), 0600), 0);
	cr_assert_eq(chmod(scratch, 0755), 0);
	cr_assert_eq(seteuid(OTHER), 0);
	cr_expect_str_eq(refusal(in_scratch("conf")), "may not be read by this user");
	cr_assert_eq(seteuid(0), 0);
	scratch_remove();
}

Test(config_file, is_read_up_to_sixteen_kib, .timeout = 20)
{
	static char text[SP_CONFIG_FILE_MAX + 1];

	scratch_make();
	memset(text, '#', sizeof(text) - 1);
	cr_expect_str_eq(refusal(scratch_write("full", text, SP_CONFIG_FILE_MAX)),
			 "is larger than 16 KiB");
	memcpy(text + SP_CONFIG_FILE_MAX - 26, "\nSPANPROF_SAMPLE_RATE=50\n", 25);
	file = scratch_write("fits", text, SP_CONFIG_FILE_MAX - 1);
	cr_expect_eq(LOAD("A=b"), 0);
	cr_expect_eq(cfg.sample_rate_hz, 50);
	cr_expect_str_eq(refusal("/proc/self/mem"), "cannot be read");
	scratch_remove();
}
