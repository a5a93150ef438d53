/* SPDX-License-Identifier: Apache-2.0 */
/* How the servers of a configuration are opened, and that messages about one of several name it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "core_double.h"
#include "export/push/upload.h"

static struct sp_upload *upload;

static void set_up(void)
{
	core_reset();
	core.config.push_queue_capacity = 8;
}

static void tear_down(void)
{
	sp_upload_free(upload);
}

TestSuite(upload, .init = set_up, .fini = tear_down, .timeout = 20);

static int open_several(const char *addresses, unsigned n)
{
	core.config.server_address = addresses;
	core.config.servers = n;
	return sp_upload_new(&core.ops, &upload);
}

Test(upload, opens_each_of_several_servers)
{
	cr_assert_eq(open_several("http://u:hush@a:4040/x/, https://b,unix:///c", 3), 0);
	cr_expect_eq(sp_upload_servers(upload), 3);
	cr_expect_str_eq(sp_upload_address(upload, 0), "http://a:4040/x");
	cr_expect_str_eq(sp_upload_address(upload, 1), "https://b");
	cr_expect_str_eq(sp_upload_address(upload, 2), "unix:///c");
	cr_expect_str_eq(sp_upload_results(upload, 0)->name, "http://a:4040/x");
	cr_expect_str_eq(sp_upload_results(upload, 2)->name, "unix:///c");
	cr_expect_null(strstr(core.log, "hush"), "%s", core.log);
	cr_expect_eq(sp_upload_due_ms(upload), UINT32_MAX);
	sp_upload_wait(upload, -1, 1);
}

Test(upload, the_only_server_has_no_name)
{
	core.config.tls_insecure = true;
	cr_assert_eq(open_several("https://a,b", 1), 0);
	cr_expect_eq(sp_upload_servers(upload), 1);
	cr_expect_null(sp_upload_results(upload, 0)->name);
	cr_expect_eq(strncmp(core.log, "SPANPROF_TLS_INSECURE_SKIP_VERIFY: ", 35), 0, "%s",
		     core.log);
}

/* A warning is about one server. */
Test(upload, warnings_name_the_server)
{
	core.config.tls_insecure = true;
	core.config.auth_token = ",,hush";
	cr_assert_eq(open_several("https://a,http://b,http://c", 3), 0);
	cr_expect_not_null(strstr(core.log, "https://a: SPANPROF_TLS_INSECURE_SKIP_VERIFY: "), "%s",
			   core.log);
	cr_expect_null(strstr(core.log, "http://b: "), "%s", core.log);
	cr_expect_not_null(strstr(core.log, "http://c: credentials go to the server over plain"),
			   "%s", core.log);
	cr_expect_null(strstr(core.log, "hush"), "%s", core.log);
}

Test(upload, one_that_cannot_be_used_leaves_none)
{
	cr_expect_eq(open_several("http://a,http://b?c", 2), -EINVAL);
	cr_expect_null(upload);
	cr_expect_not_null(strstr(core.log, "cannot be used"), "%s", core.log);
}

/* The configuration claims more addresses than it has: no memory behind the list is read. */
Test(upload, a_missing_address_is_an_error)
{
	cr_expect_eq(open_several("http://a", 2), -EINVAL);
	cr_expect_null(upload);
}

/* Files are written even without servers. */
Test(upload, a_folder_goes_on_without_servers)
{
	core.config.output_dir = "/tmp";
	cr_assert_eq(open_several("http://a,http://b?c", 2), 0);
	cr_expect_eq(sp_upload_servers(upload), 0);
	cr_expect_eq(sp_upload_due_ms(upload), UINT32_MAX);
	sp_upload_wait(upload, -1, 1);
	sp_upload_run(upload);
	sp_upload_flush(upload, true);
	cr_expect(sp_upload_flushed(upload));
}
