/* SPDX-License-Identifier: Apache-2.0 */
/* Names the place where a thread waits (wait_kind.h). Context: the exporter. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "export/off_cpu/descriptor.h"
#include "export/off_cpu/wait_kind.h"

void sp_wait_leaf(struct sp_sockets *targets, const char *proc, const struct sp_task_place *place,
		  struct sp_wait_leaf *leaf)
{
	char link[SP_DESCRIPTOR_TEXT] = "";
	char text[SP_DESCRIPTOR_TEXT];
	struct sp_wait_kind kind;
	const char *what;

	*leaf = (struct sp_wait_leaf){.waited = SP_WAITED_OTHER};
	if (place->state == SP_TASK_IN_KERNEL) {
		(void)snprintf(leaf->text, SP_WAIT_LEAF, "[blocked in the kernel]");
		return;
	}
	sp_wait_kind_of(place, &kind);
	if (kind.name == NULL) {
		(void)snprintf(leaf->text, SP_WAIT_LEAF, "system call %" PRIu64, place->number);
		return;
	}
	what = kind.kind;
	if (kind.by_descriptor && sp_descriptor_link(proc, place->arg[0], link) && what == NULL)
		what = sp_wait_kind_of_link(link);
	leaf->waited = sp_wait_kind_waited(what);
	if (targets != NULL && link[0] != '\0' &&
	    sp_descriptor_describe(targets, place, link, text))
		(void)snprintf(leaf->text, SP_WAIT_LEAF, "%s %s", kind.name, text);
	else if (what != NULL)
		(void)snprintf(leaf->text, SP_WAIT_LEAF, "%s (%s)", kind.name, what);
	else
		(void)snprintf(leaf->text, SP_WAIT_LEAF, "%s", kind.name);
}
