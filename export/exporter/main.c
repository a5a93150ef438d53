/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof-exporter. libspanprof.so starts it beside a process that it samples. Descriptor 3 is the
 * region that they share, and /dev/null is at 0 to 2. Its environment is made of the host's by
 * sp_config_copy_environment(): the variables of our table (proxies among them), and those that
 * libdebuginfod reads: HOME, XDG_CACHE_HOME and most of DEBUGINFOD_*. SPANPROF_DISABLED is set.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "export/exporter/confine.h"
#include "export/exporter/confinement.h"
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
 * The host has logged the mistakes in the configuration; here such warnings go to /dev/null. If no
 * service name is set, the host passes the program's name.
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
	/*
	 * The host passes one argument, which proves to other processes that we are the exporter of
	 * their family.
	 */
	if (argc > 1 && argv[1][0] == '-')
		return strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "--help") == 0
			       ? explain()
			       : 2;
	if (argc > 2)
		return 2;
	sp_limits_detach();
	sp_limits_offer();
	/*
	 * The first call stores our filters, which so far are those of the process that started us.
	 */
	(void)sp_confinement_own_filters();
	(void)sp_confine();
	/* A worker that hangs may be in a library whose exit handlers would wait for it. */
	_exit(sp_limits_on_large_stack(run));
}
