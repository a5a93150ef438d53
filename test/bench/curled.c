/* SPDX-License-Identifier: Apache-2.0 */
/* An object that only needs libcurl, as a profiler without an exporter would. execs.sh preloads it for comparison. */
#include <curl/curl.h>

extern const void *curled_needs(void);

const void *curled_needs(void)
{
	return (const void *)curl_version;
}
