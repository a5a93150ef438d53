/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object that does nothing but to need libcurl, as a profiler in one piece would. Preloaded by
 * execs.sh, to compare with.
 */
#include <curl/curl.h>

extern const void *curled_needs(void);

const void *curled_needs(void)
{
	return (const void *)curl_version;
}
