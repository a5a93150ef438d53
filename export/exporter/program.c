/* SPDX-License-Identifier: Apache-2.0 */
#include "export/exporter/program.h"

#include "export/export.h"
#include "export/exporter/family.h"

int sp_program_run(const struct sp_host_descriptors *fds, int listener,
		   sp_program_configure configure)
{
	struct sp_family family;
	int err = sp_family_init(&family, fds, listener, configure());

	if (err == 0)
		err = sp_export_run(&family.ops);
	sp_family_fini(&family, err);
	return err;
}
