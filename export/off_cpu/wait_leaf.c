/* SPDX-License-Identifier: Apache-2.0 */
/* Names the place where a thread waits (wait_kind.h). Context: the exporter. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "export/off_cpu/descriptor.h"
#include "export/off_cpu/wait_kind.h"

bool sp_wait_leaf(const char *proc, const struct sp_task_place *place, bool targets,
		  char leaf[SP_WAIT_LEAF])
{
	char link[SP_DESCRIPTOR_TEXT] = "";
	char text[SP_DESCRIPTOR_TEXT];
	struct sp_wait_kind kind;
	const char *what;

	if (place->state == SP_TASK_IN_KERNEL) {
		(void)snprintf(leaf, SP_WAIT_LEAF, "[blocked in the kernel]");
		return false;
	}
	sp_wait_kind_of(place, &kind);
	if (kind.name == NULL) {
		(void)snprintf(leaf, SP_WAIT_LEAF, "system call %" PRIu64, place->number);
		return false;
	}
	what = kind.kind;
	if (kind.by_descriptor && sp_descriptor_link(proc, place->arg[0], link) && what == NULL)
		what = sp_wait_kind_of_link(link);
	if (targets && link[0] != '\0') {
		sp_descriptor_describe(proc, link, text);
		(void)snprintf(leaf, SP_WAIT_LEAF, "%s %s", kind.name, text);
		return true;
	}
	if (what != NULL)
		(void)snprintf(leaf, SP_WAIT_LEAF, "%s (%s)", kind.name, what);
	else
		(void)snprintf(leaf, SP_WAIT_LEAF, "%s", kind.name);
	return false;
}
