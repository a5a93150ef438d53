/* SPDX-License-Identifier: Apache-2.0 */
/* The resource that a program gives its SDK, beside the variables. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "sampler/config/config.h"
#include "sampler/config/config_table.h"

#include "config_env.h"

/* As parse_list(), with a resource that was read before. */
static unsigned parse_with(const char *variable, const char *attributes, const char *service)
{
	char *envp[] = {strdup(variable), NULL};

	sp_config_capture(envp);
	free(envp[0]);
	sp_config_copy_resource(attributes, service);
	stderr_begin();
	sp_config_parse(&cfg);
	return stderr_end();
}

#define OWN "service.name=shop,service.namespace=town,service.version=1%2C2"

Test(config_resource, yields_to_each_variable_of_profilers_with_one_warning, .timeout = 20)
{
	static const char *const variables[] = {
		"SPANPROF_APPLICATION_NAME=other",
		"PYROSCOPE_APPLICATION_NAME=other",
		"OTEL_PYROSCOPE_APP_NAME=other",
	};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		cr_expect_eq(parse_with(variables[i], OWN, "shop"), 1, "%s", variables[i]);
		cr_expect_str_eq(cfg.service_name, "other");
		cr_expect_str_eq(cfg.service_namespace, "town");
		cr_expect(strstr(stderr_text, "\"other\"") != NULL &&
			  strstr(stderr_text, "\"shop\"") != NULL);
	}
}

/*
 * The same order as in the SDK, so that profiles and spans have one service. The status file mentions the variable.
 */
Test(config_resource, comes_before_the_variables_of_opentelemetry, .timeout = 20)
{
	cr_expect_eq(parse_with("OTEL_SERVICE_NAME=other", OWN, "shop"), 0, "%s", stderr_text);
	cr_expect_str_eq(cfg.service_name, "shop");
	cr_expect_eq(parse_with("OTEL_SERVICE_NAME=other", "", "shop"), 0, "%s", stderr_text);
	cr_expect_str_eq(cfg.service_name, "shop");
	cr_expect_eq(parse_with("OTEL_RESOURCE_ATTRIBUTES=service.name=other", OWN, "shop"), 0,
		     "%s", stderr_text);
	cr_expect_str_eq(cfg.service_name, "shop");
	cr_expect_str_eq(cfg.service_namespace, "town");
	cr_expect_eq(parse_with("OTEL_SERVICE_NAME=shop", "service.version=3", NULL), 0);
	cr_expect_str_eq(cfg.service_name, "shop");
	cr_expect_eq(parse_with("OTEL_RESOURCE_ATTRIBUTES=service.name=other", "a=b", NULL), 0);
	cr_expect_str_eq(cfg.service_name, "other");
}

Test(config_resource, adds_to_the_attributes_of_the_variable, .timeout = 20)
{
	unsigned n = 0;

	cr_assert_eq(parse_with("OTEL_RESOURCE_ATTRIBUTES=service.version=9,k8s.pod.name=p", OWN,
				"shop"),
		     0);

	cr_expect_str_eq(cfg.service_name, "shop");
	for (; cfg.resource_label[n].key != NULL; n++)
		cr_expect_str_eq(cfg.resource_label[n].value,
				 strcmp(cfg.resource_label[n].key, "service.version") == 0 ? "1,2"
											   : "p");
	cr_expect_eq(n, 2);
}

Test(config_resource, goes_on_to_the_exporter_with_the_variables, .timeout = 20)
{
	static const char *const wanted[] = {
		"SPANPROF_DISABLED=true", "SPANPROF_APPLICATION_NAME=shop",
		("OTEL_RESOURCE_ATTRIBUTES=" OWN), "SPANPROF_TENANT_ID=t=1", "HOME=/root"};
	char given[][32] = {"SPANPROF_TENANT_ID=t=1", "HOMES=2", "HOME=/root",
			    "SPANPROF_WEATHER=1"};
	char *envp[] = {given[0], given[1], given[2], given[3], NULL};
	char *const *entry;

	sp_config_capture(envp);
	memset(given, '#', sizeof(given));
	sp_config_copy_resource(OWN, "shop");
	entry = sp_config_copy_environment("shop");

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		cr_expect_str_eq(entry[i], wanted[i]);
	cr_expect_null(entry[sizeof(wanted) / sizeof(wanted[0])]);
}

/*
 * For such a variable an SDK may read the items after the bad one, or ignore the variable. So the program's own
 * values stay.
 */
Test(config_resource, stays_where_the_variable_cannot_be_read, .timeout = 20)
{
	static char long_variable[SP_CONFIG_VALUE_MAX + 64];

	(void)snprintf(long_variable, sizeof(long_variable), "OTEL_RESOURCE_ATTRIBUTES=a=%0*d",
		       (int)SP_CONFIG_VALUE_MAX, 1);
	cr_expect_eq(parse_with("OTEL_RESOURCE_ATTRIBUTES=team=a,b", OWN, "shop"), 1);
	cr_expect_not_null(strstr(stderr_text, "OTEL_RESOURCE_ATTRIBUTES: has an item"), "%s",
			   stderr_text);
	cr_expect_str_eq(cfg.service_name, "shop");
	cr_expect_str_eq(cfg.service_namespace, "town");
	cr_expect_eq(parse_with(long_variable, OWN, "shop"), 1);
	cr_expect_not_null(strstr(stderr_text, "OTEL_RESOURCE_ATTRIBUTES: is longer"), "%s",
			   stderr_text);
	cr_expect_str_eq(cfg.service_name, "shop");
	cr_expect_eq(parse_with("A=1", OWN, "shop"), 0);
}

Test(config_resource, counts_once_and_only_where_there_is_room, .timeout = 20)
{
	static char long_variable[SP_CONFIG_VALUE_MAX + 1];

	(void)snprintf(long_variable, sizeof(long_variable), "OTEL_RESOURCE_ATTRIBUTES=a=%0*d",
		       (int)SP_CONFIG_VALUE_MAX - 40, 1);
	cr_expect_eq(parse_with(long_variable, OWN, NULL), 0);
	cr_expect(strncmp(cfg.service_name, "unknown_service", 15) == 0);

	(void)parse_with("A=1", OWN, "shop");
	sp_config_copy_resource("service.name=later", "later");
	sp_config_parse(&cfg);
	cr_expect_str_eq(cfg.service_name, "shop");
}
