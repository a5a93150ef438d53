/* SPDX-License-Identifier: Apache-2.0 */
/* Series labels and extra headers from the configuration. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "export/profile/pprof.h"
#include "export/push/credentials.h"
#include "export/push/request.h"

static struct sp_config config;
static struct sp_series series;
static char refusals[4096];

static void refused(void *arg, const char *name, size_t len, const char *reason)
{
	(void)arg;
	(void)snprintf(refusals + strlen(refusals), sizeof(refusals) - strlen(refusals),
		       "%.*s: %s\n", (int)len, name, reason);
}

static void init(const char *labels)
{
	memset(&config, 0, sizeof(config));
	config.service_name = "shop";
	config.labels = labels;
	refusals[0] = '\0';
	cr_assert_eq(sp_series_init(&series, &config, 4711, refused, NULL), 0);
}

static const char *value(const char *name)
{
	for (size_t i = 0; i < series.n; i++)
		if (strcmp(series.label[i].name, name) == 0)
			return series.label[i].value;
	return NULL;
}

Test(series, has_what_the_server_needs, .timeout = 20)
{
	char host[256] = "";

	init(NULL);
	cr_assert_eq(gethostname(host, sizeof(host) - 1), 0);

	cr_expect_eq(series.n, 5);
	cr_expect_str_eq(value("hostname"), host);
	cr_expect_str_eq(value("__name__"), "process_cpu");
	cr_expect_str_eq(value("service_name"), "shop");
	cr_expect_str_eq(value("pyroscope_spy"), "spanprof");
	cr_expect_str_eq(value("pid"), "4711");
	sp_series_fini(&series);
}

Test(series, takes_the_namespace, .timeout = 20)
{
	memset(&config, 0, sizeof(config));
	config.service_namespace = "eu";
	cr_assert_eq(sp_series_init(&series, &config, 4711, refused, NULL), 0);

	cr_expect_str_eq(value("service_namespace"), "eu");
	cr_expect_str_eq(value("service_name"), "unknown_service");
	sp_series_fini(&series);
}

Test(series, takes_attributes_of_the_resource_unless_the_user_says_otherwise, .timeout = 20)
{
	memset(&config, 0, sizeof(config));
	config.labels = "k8s_pod_name=mine,hostname=here";
	config.resource_label[0] = (struct sp_config_attribute){"k8s.pod.name", "p1"};
	config.resource_label[1] = (struct sp_config_attribute){"service.version", "1.2\xff"};
	config.resource_label[2] = (struct sp_config_attribute){"empty", NULL};
	config.resource_label[3] = (struct sp_config_attribute){"service.version", "again"};
	config.resource_label[4] = (struct sp_config_attribute){"span_id", "x"};
	refusals[0] = '\0';
	cr_assert_eq(sp_series_init(&series, &config, 4711, refused, NULL), 0);

	cr_expect_str_eq(value("k8s_pod_name"), "mine");
	cr_expect_str_eq(value("hostname"), "here");
	cr_expect_str_eq(value("service_version"), "1.2\xef\xbf\xbd");
	cr_expect_null(value("empty"));
	cr_expect_null(value("span_id"));
	cr_expect_eq(series.n, 7);
	sp_series_fini(&series);
}

Test(series, takes_both_forms_of_labels, .timeout = 20)
{
	init("region=eu-west, zone : a ,url=http://x/?a=b,,tail=1");

	cr_expect_str_eq(value("region"), "eu-west");
	cr_expect_str_eq(value("zone"), "a");
	cr_expect_str_eq(value("url"), "http://x/?a=b");
	cr_expect_str_eq(value("tail"), "1");
	cr_expect_str_eq(refusals, "");
	sp_series_fini(&series);
}

Test(series, makes_names_safe, .timeout = 20)
{
	init("k8s.pod-name=p1,9lives=cat,AZ09az=3,gr\xc3\xb6\xc3\x9f"
	     "e=2");

	cr_expect_str_eq(value("k8s_pod_name"), "p1");
	cr_expect_str_eq(value("_9lives"), "cat");
	cr_expect_str_eq(value("gr____e"), "2");
	cr_expect_str_eq(value("AZ09az"), "3");
	sp_series_fini(&series);
}

Test(series, refuses_what_would_spoil_the_series, .timeout = 20)
{
	init("__x=1,span_id=1,service_name=other,a.b=1,a_b=2,=3,empty=,bare");

	cr_expect_eq(series.n, 6);
	cr_expect_str_eq(value("a_b"), "1");
	cr_expect_str_eq(value("service_name"), "shop");
	cr_expect_not_null(strstr(refusals, "__x: "));
	cr_expect_not_null(strstr(refusals, "span_id: "));
	cr_expect_not_null(strstr(refusals, "a_b: the name is already taken"));
	cr_expect_not_null(strstr(refusals, ": it has no name"));
	cr_expect_not_null(strstr(refusals, "empty: it has no value"));
	cr_expect_not_null(strstr(refusals, "bare: it has no value"));
	sp_series_fini(&series);
}

Test(series, leaves_out_what_has_an_empty_value, .timeout = 20)
{
	memset(&config, 0, sizeof(config));
	config.service_name = "shop";
	config.service_namespace = "eu";
	config.labels =
		"pid=, hostname = ,k8s.pod.name=,service_namespace=,span_name=,http.route=,zone=a";
	config.span_labels = "user,http.route";
	config.resource_label[0] = (struct sp_config_attribute){"k8s.pod.name", "p1"};
	config.resource_label[1] = (struct sp_config_attribute){"service.version", "1"};
	refusals[0] = '\0';
	cr_assert_eq(sp_series_init(&series, &config, 4711, refused, NULL), 0);

	cr_expect_str_eq(refusals, "");
	cr_expect_eq(series.n, 5);
	cr_expect_null(value("pid"));
	cr_expect_null(value("hostname"));
	cr_expect_null(value("k8s_pod_name"));
	cr_expect_null(value("service_namespace"));
	cr_expect_str_eq(value("service_version"), "1");
	cr_expect_str_eq(value("zone"), "a");
	cr_expect_not(sp_series_has_pid(&series));
	sp_series_fini(&series);

	init("process.pid=,host.name=");
	cr_expect_null(value("pid"));
	cr_expect_null(value("hostname"));
	cr_expect_str_eq(refusals, "");
	sp_series_fini(&series);
}

Test(series, knows_the_label_latency, .timeout = 20)
{
	memset(&config, 0, sizeof(config));
	config.service_name = "shop";
	config.labels = "latency=";
	refusals[0] = '\0';
	cr_assert_eq(sp_series_init(&series, &config, 4711, refused, NULL), 0);
	cr_expect_str_neq(refusals, "", "there is no such label");
	sp_series_fini(&series);
	config.span_latency = true;
	refusals[0] = '\0';
	cr_assert_eq(sp_series_init(&series, &config, 4711, refused, NULL), 0);
	cr_expect_str_eq(refusals, "");
	sp_series_fini(&series);
	config.labels = "latency=low";
	cr_assert_eq(sp_series_init(&series, &config, 4711, refused, NULL), 0);
	cr_expect_not_null(strstr(refusals, "latency"), "two labels of that name");
	sp_series_fini(&series);
}

Test(series, gets_a_pid_of_the_users_instead, .timeout = 20)
{
	init("pid=,pid=main");

	cr_expect_str_eq(value("pid"), "main");
	cr_expect_not(sp_series_has_pid(&series));
	sp_series_fini(&series);
}

Test(series, loses_its_pid_alone, .timeout = 20)
{
	init("zone=a");

	cr_assert(sp_series_has_pid(&series));
	sp_series_remove_pid(&series);
	cr_expect_null(value("pid"));
	cr_expect_str_eq(value("service_name"), "shop");
	cr_expect_str_eq(value("zone"), "a");
	cr_expect_not_null(value("hostname"));
	cr_expect_eq(series.n, 5);
	sp_series_remove_pid(&series);
	cr_expect_eq(series.n, 5);
	sp_series_fini(&series);
}

Test(series, knows_which_labels_are_left_out, .timeout = 20)
{
	cr_expect_not(sp_label_is_left_out(NULL, "pid"));
	cr_expect_not(sp_label_is_left_out("pid=1,pid:2,pid", "pid"));
	cr_expect(sp_label_is_left_out("a=1,pid=", "pid"));
	cr_expect(sp_label_is_left_out("a=1,pid:", "process.pid"));
	cr_expect(sp_label_is_left_out("process.pid=", "pid"));
	cr_expect(sp_label_is_left_out("host.name=", "hostname"));
	cr_expect(sp_label_is_left_out("http.route=", "http_route"));
	cr_expect_not(sp_label_is_left_out("pid=", "pids"));
}

/* Their meaning is the same in every profile, whichever program wrote it. */
Test(series, keeps_every_name_that_it_or_a_sample_sets, .timeout = 20)
{
	static const char *const fixed[] = {
#define NAME_(name) #name,
		SP_FOR_EACH_SAMPLE_LABEL(NAME_)
#undef NAME_
			"service_name",
		"pyroscope_spy",
		"profile_id",
	};
	char labels[128];
	char refusal[64];

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		(void)snprintf(labels, sizeof(labels), "%s=mine,other=1", fixed[i]);
		(void)snprintf(refusal, sizeof(refusal), "%s: ", fixed[i]);
		init(labels);
		cr_expect_eq(strncmp(refusals, refusal, strlen(refusal)), 0, "%s is refused",
			     fixed[i]);
		cr_expect(value(fixed[i]) == NULL || strcmp(value(fixed[i]), "mine") != 0, "%s",
			  fixed[i]);
		cr_expect_str_eq(value("other"), "1");
		sp_series_fini(&series);
	}
}

Test(series, cuts_and_cleans_values, .timeout = 20)
{
	char labels[4000] = "long=";

	memset(labels + 5, 'x', 2100);
	strcpy(labels + 2105, ",bad=a\xff");
	init(labels);

	cr_expect_eq(strlen(value("long")), 2048);
	cr_expect_str_eq(value("bad"), "a\xef\xbf\xbd");
	sp_series_fini(&series);
}

Test(series, stops_at_its_limit, .timeout = 20)
{
	char labels[2000] = "";

	for (unsigned i = 0; i < 40; i++)
		(void)snprintf(labels + strlen(labels), sizeof(labels) - strlen(labels), "l%u=%u,",
			       i, i);
	init(labels);

	cr_expect_eq(series.n, SP_SERIES_MAX);
	cr_expect_not_null(strstr(refusals, "l39: there are too many labels"));
	sp_series_fini(&series);
}

static char headers[1024];

static void header(void *arg, const char *text)
{
	(void)arg;
	strcat(strcat(headers, text), "\n");
}

static int parse(const char *json, unsigned *bad)
{
	headers[0] = '\0';
	return sp_headers_parse(json, header, NULL, bad);
}

Test(headers, reads_an_object_of_strings, .timeout = 20)
{
	unsigned bad;

	cr_expect_eq(parse("{\"X-A\": \"1\", \"X-B\": \"two words\", \"X-C\": \"\"}", &bad), 0);
	cr_expect_eq(bad, 0);
	cr_expect_str_eq(headers, "X-A: 1\nX-B: two words\nX-C;\n");
}

Test(headers, lets_no_line_break_through, .timeout = 20)
{
	unsigned bad;

	cr_expect_eq(parse("{\"X-A\": \"1\\r\\nEvil: 1\", \"X B\": \"1\", \"\": \"1\", "
			   "\"X-C\": 3, \"X:D\": \"1\", \"X-E\": \"ok\"}",
			   &bad),
		     0);
	cr_expect_eq(bad, 5);
	cr_expect_str_eq(headers, "X-E: ok\n");
}

Test(headers, refuses_what_is_no_object, .timeout = 20)
{
	static const char *const no[] = {
		"",
		" ",
		"text",
		"[]",
		"[\"a\"]",
		"\"x\"",
		"{",
		"}",
		"}{",
		"{}{}",
		"{\"a\":\"1\"} x",
		"{\"a\":\"1\"",
		"{\"a\":\"1\n\"}",
		"{\"a\":\"\\",
		"{\"a\":\"}",
		"{\"a\":\"1\",\"a\":\"2\"}",
		"{\x01}",
		"{\"\xff\":\"\"}",
	};
	unsigned bad;

	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		cr_expect_eq(parse(no[i], &bad), -EINVAL, "%s", no[i]);
	cr_expect_str_eq(headers, "");
}
