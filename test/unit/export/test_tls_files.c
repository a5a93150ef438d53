/* SPDX-License-Identifier: Apache-2.0 */
/* Files with certificates and keys: which are used, which are refused, and the messages about them. */
#define _GNU_SOURCE
#include "export/push/credentials.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/unit/scratch.h"

#define PEM "-----BEGIN SOMETHING-----\n"
#define REFUSED ": the file cannot be used: "
#define STRANGER 65534

static struct sp_config config;
static struct sp_tls_files files;
static char why[200];

static void tear_down(void)
{
	sp_tls_files_wipe(&files);
	scratch_remove();
}

TestSuite(tls_files, .init = scratch_make, .fini = tear_down, .timeout = 20);

static const char *fill(const char *name, const char *text)
{
	return scratch_write(name, text, strlen(text));
}

static void expect_refused(const char *path, int err, const char *reason)
{
	char want[200];

	config.tls_ca_file = path;
	cr_expect_eq(sp_tls_files_read(&files, &config, why, sizeof(why)), err, "%s: %s", path,
		     why);
	(void)snprintf(want, sizeof(want), "SPANPROF_TLS_CA_FILE or SSL_CERT_FILE" REFUSED "%s",
		       reason);
	cr_expect_str_eq(why, want);
	cr_expect_null(files.ca.data);
}

Test(tls_files, are_read_as_they_are)
{
	config.tls_ca_file = fill("ca", PEM "ca");
	config.tls_cert_file = fill("cert", "text before it\n" PEM "cert");
	config.tls_key_file = fill("key", PEM "key");

	cr_assert_eq(sp_tls_files_read(&files, &config, why, sizeof(why)), 0, "%s", why);

	cr_expect_eq(files.ca.len, strlen(PEM "ca"));
	cr_expect_eq(memcmp(files.ca.data, PEM "ca", files.ca.len), 0);
	cr_expect_not_null(memmem(files.cert.data, files.cert.len, "cert", 4));
	cr_expect_eq(memcmp(files.key.data, PEM "key", files.key.len), 0);
}

Test(tls_files, none_is_needed)
{
	cr_expect_eq(sp_tls_files_read(&files, &config, why, sizeof(why)), 0);
	cr_expect_null(files.ca.data);
	cr_expect_null(files.cert.data);
	cr_expect_null(files.key.data);
}

Test(tls_files, the_key_may_be_in_the_certificates_file)
{
	config.tls_cert_file = fill("both", PEM "both");

	cr_assert_eq(sp_tls_files_read(&files, &config, why, sizeof(why)), 0, "%s", why);
	cr_expect_eq(files.key.len, files.cert.len);
	cr_expect_eq(memcmp(files.key.data, files.cert.data, files.key.len), 0);
}

Test(tls_files, a_replaced_one_is_seen_at_once)
{
	config.tls_ca_file = fill("ca", PEM "old");
	cr_assert_eq(sp_tls_files_read(&files, &config, why, sizeof(why)), 0);
	sp_tls_files_wipe(&files);
	(void)fill("ca", PEM "new");

	cr_assert_eq(sp_tls_files_read(&files, &config, why, sizeof(why)), 0);
	cr_expect_not_null(memmem(files.ca.data, files.ca.len, "new", 3));
}

Test(tls_files, only_regular_ones_are_opened)
{
	cr_assert_eq(mkfifo(in_scratch("fifo"), 0600), 0);

	expect_refused(in_scratch("fifo"), -EINVAL, "it is not a regular file");
	expect_refused("/dev/zero", -EINVAL, "it is not a regular file");
	expect_refused(in_scratch(""), -EINVAL, "it is not a regular file");
	expect_refused(in_scratch("gone"), -ENOENT, "No such file or directory");
}

Test(tls_files, what_cannot_be_certificates_is_refused)
{
	const char *huge = fill("huge", PEM);

	expect_refused(fill("other", "s3cret"), -EINVAL, "there is no PEM in it");
	expect_refused(fill("empty", ""), -EINVAL, "there is no PEM in it");
	cr_assert_eq(truncate(huge, (off_t)SP_TLS_FILE_MAX + 1), 0);
	expect_refused(huge, -EINVAL, "it is larger than 1 MiB");
}

Test(tls_files, a_strangers_link_is_not_followed)
{
	if (geteuid() != 0)
		cr_skip_test("needs root");
	(void)fill("ca", PEM);
	cr_assert_eq(chmod(scratch, 01777), 0);
	cr_assert_eq(symlink("ca", in_scratch("link")), 0);
	cr_assert_eq(lchown(in_scratch("link"), STRANGER, STRANGER), 0);

	expect_refused(in_scratch("link"), -ELOOP,
		       "a link on the way to it belongs to somebody else");
}

Test(tls_files, each_variable_is_named_and_nothing_is_kept)
{
	config.tls_ca_file = fill("ca", PEM);
	config.tls_cert_file = in_scratch("gone");
	cr_expect_eq(sp_tls_files_read(&files, &config, why, sizeof(why)), -ENOENT);
	cr_expect_eq(strncmp(why, "SPANPROF_TLS_CERT_FILE" REFUSED, 40), 0, "%s", why);
	cr_expect_null(files.ca.data);

	config.tls_cert_file = fill("cert", PEM);
	config.tls_key_file = "/dev/zero";
	cr_expect_eq(sp_tls_files_read(&files, &config, why, sizeof(why)), -EINVAL);
	cr_expect_eq(strncmp(why, "SPANPROF_TLS_KEY_FILE" REFUSED, 40), 0, "%s", why);
	cr_expect_null(files.cert.data);
}

Test(tls_files, authorities_are_not_read_where_nothing_is_verified)
{
	config.tls_ca_file = in_scratch("gone");
	config.tls_insecure = true;

	cr_expect_eq(sp_tls_files_read(&files, &config, why, sizeof(why)), 0);
}
