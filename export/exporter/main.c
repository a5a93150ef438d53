/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-exporter. libspanprof.so starts it beside a process that it samples, with the region
 * that they share at descriptor 3 and /dev/null at 0 to 2. Its environment is made of the copy of the
 * host's that sp_config_copy_environment() has: the variables of our table (proxies among them), and
 * those that libdebuginfod reads: HOME, XDG_CACHE_HOME and DEBUGINFOD_*. SPANPROF_DISABLED is set.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "export/exporter/family.h"
#include "export/exporter/limits.h"
#include "sampler/config/config.h"
#include "sampler/region/region.h"

/* Started by hand with --version or --help: says what the program is. */
static int explain(void)
{
	(void)printf("spanprof-exporter %s\n"
		     "Pushes what libspanprof.so samples to a server, or writes it into a folder.\n"
		     "libspanprof.so starts it; it cannot be started by hand.\n",
		     SP_VERSION);
	return 0;
}

/*
 * The host has logged what is wrong with the configuration; here such warnings go to /dev/null. A
 * service without a name has got the program's name from the host.
 */
static const struct sp_config *configure(void)
{
	static struct sp_config config;

	sp_config_capture(environ);
	sp_config_parse(&config);
	sp_limits_memory();
	return &config;
}

static int run(void)
{
	const struct sp_host_descriptors fds = {
		.region = SP_REGION_FD, .folder = SP_HOST_FOLDER_FD, .maps = SP_HOST_MAPS_FD};
	int err = sp_family_serve(&fds, SP_FAMILY_FD, configure);

	if (err == -EPROTO)
		return SP_EXPORTER_OTHER_BUILD;
	return err == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "--help") == 0
			       ? explain()
			       : 2;
	sp_limits_detach();
	sp_limits_offer();
	/* A worker that hangs may be in a library whose exit handlers would wait for it. */
	_exit(sp_limits_on_large_stack(run));
}
