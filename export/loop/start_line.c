/* SPDX-License-Identifier: Apache-2.0 */
/* Says that profiling has begun (start_line.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/loop/start_line.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "export/util/log.h"

#define SP_START_LINE_BYTES 900

void sp_signal_name(int number, char out[SP_SIGNAL_NAME])
{
	const char *word = sp_config_signal_name(number);

	out[0] = '\0';
	if (word != NULL)
		(void)snprintf(out, SP_SIGNAL_NAME, "SIG%s", word);
	else if (number >= SIGRTMIN)
		(void)snprintf(out, SP_SIGNAL_NAME, "RTMIN+%d", number - SIGRTMIN);
	else if (number > 0)
		(void)snprintf(out, SP_SIGNAL_NAME, "%d", number);
}

static void put_aims(struct sp_text_out *l, const struct sp_config *c, const char *address)
{
	if (address != NULL)
		sp_text_out_put(l, ", pushing to %.300s", address);
	if (c->output_dir != NULL)
		sp_text_out_put(l, ", writing into %.200s", c->output_dir);
}

static void put_sdks(struct sp_text_out *l, const struct sp_core_facts *f)
{
	for (uint32_t i = 0; i < f->sdks; i++) {
		sp_text_out_put(l, "; SDK %s", f->sdk[i].name);
		if (f->sdk[i].release[0] != '\0')
			sp_text_out_put(l, ", release %s", f->sdk[i].release);
		if (f->sdk[i].object[0] != '\0')
			sp_text_out_put(l, " in %s", f->sdk[i].object);
	}
	if (f->sdks != 0)
		return;
	if (f->thread_context != NULL && strcmp(f->thread_context, "read") == 0)
		sp_text_out_put(l, "; spans come from the program's thread context");
	else
		sp_text_out_put(l, "; no SDK has recorded a span so far");
}

bool sp_start_line_tell(const struct sp_core_ops *ops, const char *address, bool at_once)
{
	const struct sp_config *c = ops->config;
	char text[SP_START_LINE_BYTES];
	struct sp_text_out l = {text, sizeof(text), 0};
	struct sp_core_facts f;
	char signal[SP_SIGNAL_NAME];

	if (c->log_level < SP_LOG_INFO)
		return true;
	ops->facts(ops->arg, &f);
	if (f.sdks == 0 && !at_once)
		return false;
	sp_signal_name(f.signal_number, signal);
	sp_text_out_put(&l, "profiling %" PRIu32 " as %.200s, %" PRIu32 " Hz", ops->pid,
			c->service_name, c->sample_rate_hz);
	if (signal[0] != '\0')
		sp_text_out_put(&l, ", %s", signal);
	put_aims(&l, c, address);
	put_sdks(&l, &f);
	ops->log(ops->arg, SP_LOG_INFO, text);
	return true;
}
