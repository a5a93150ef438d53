/* SPDX-License-Identifier: Apache-2.0 */
/* What a server's answer to our push means, and what to do about it. Runs in spanprof-probe only. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "export/util/redact.h"
#include "sampler/config/config_copy.h"
#include "scripts/probe/probe.h"

static void say(const char *kind, const char *server, const char *text, const char *answer)
{
	sp_line_say("server", kind, "server: %s %s%s%s", server, text,
		    answer[0] != '\0' ? ": " : "", answer);
}

static void change(const char *text)
{
	sp_line_say("server", "change", "%s", text);
}

static bool about_time(const char *answer)
{
	return strstr(answer, "ingestion window") != NULL || strstr(answer, "too old") != NULL ||
	       strstr(answer, "too far") != NULL;
}

static void say_clock(const char *server, const char *answer)
{
	time_t now = time(NULL);
	char stamp[32] = "";
	struct tm tm;

	if (gmtime_r(&now, &tm) != NULL)
		(void)strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
	sp_line_say("server", "wrong",
		    "server: the clocks of this machine and of %s differ too much: %s", server,
		    answer);
	sp_line_say("server", "change", "set this machine's clock (it says %s UTC) or the server's",
		    stamp);
}

/* A status that is no success. */
static void say_status(int status, const char *server, const char *answer)
{
	char text[64];

	if (status == 401 || status == 403) {
		(void)snprintf(text, sizeof(text), "refuses the push (%d)", status);
		say("wrong", server, text, answer);
		sp_line_say(
			"server", "change", "check %s and its password, %s and %s",
			sp_config_copy_name(SP_VAR_BASIC_AUTH_USER_FILE, SP_VAR_BASIC_AUTH_USER),
			sp_config_copy_name(SP_VAR_AUTH_TOKEN_FILE, SP_VAR_AUTH_TOKEN),
			sp_config_copy_name(SP_VAR_TENANT_ID_FILE, SP_VAR_TENANT_ID));
	} else if (status == 404 || status == 405) {
		(void)snprintf(text, sizeof(text), "answers %d: it is not Pyroscope", status);
		say("wrong", server, text, "");
		change("give the address of Pyroscope itself, with the path prefix if it has one");
	} else if (status == 429) {
		say("wrong", server, "limits the rate of pushes (429)", answer);
		change("raise its ingestion limits for this tenant, or lower SPANPROF_SAMPLE_RATE");
	} else if (status == 400 || status == 422) {
		(void)snprintf(text, sizeof(text), "refuses an empty push (%d)", status);
		say("wrong", server, text, answer);
		change("see its answer");
	} else {
		(void)snprintf(text, sizeof(text), "answers %d", status);
		say("wrong", server, text, answer);
		change("see the server's own log");
	}
}

static void say_other(const char *server, const char *other)
{
	const char *named = strcmp(other, "http") == 0 ? "https" : "http";

	sp_line_say("server", "wrong", "server: %s answers %s there, not %s", server, other, named);
	sp_line_say("server", "change", "write %s:// in %s, or give the port for %s", other,
		    sp_config_copy_name(SP_VAR_SERVER_ADDRESS, SP_VAR_SERVER_ADDRESS), named);
}

static void say_reply(const struct sp_config *config, const char *server,
		      const struct sp_reply *reply)
{
	bool answered = reply->kind == SP_REPLY_STATUS;
	const char *other = NULL;
	char answer[512];

	sp_reply_words(reply, answer, sizeof(answer));
	if (answered && reply->status >= 200 && reply->status < 300) {
		say("ok", server, "accepts pushes (tried with an empty one)", "");
		return;
	}
	if (answered && (reply->status == 400 || reply->status == 422) && about_time(answer)) {
		say_clock(server, answer);
		return;
	}
	if (!answered || reply->status == 400)
		other = sp_probe_other_scheme(config);
	if (other != NULL) {
		say_other(server, other);
	} else if (answered) {
		say_status(reply->status, server, answer);
	} else {
		say("wrong", server, "cannot be reached", answer);
		sp_line_say("server", "change", "check %s, network policies, DNS and proxies",
			    sp_config_copy_name(SP_VAR_SERVER_ADDRESS, SP_VAR_SERVER_ADDRESS));
	}
}

void sp_probe_server(const struct sp_config *config, bool push, const char *untried)
{
	static struct sp_reply reply;
	char server[512];

	if (config->server_address == NULL) {
		sp_line_say("server", "note", "nothing is pushed: no server address is set");
		return;
	}
	/* Whoever reads this may not be meant to know the password in the address. */
	(void)snprintf(server, sizeof(server), "%s", config->server_address);
	sp_redact(server);
	if (untried != NULL)
		say("note", server, "was not tried", untried);
	else if (push && sp_probe_push(config, &reply))
		say_reply(config, server, &reply);
	else if (push) {
		say("wrong", server, "is not a valid server address", "");
		change("use http://host:port");
	}
}
