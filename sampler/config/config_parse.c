/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses values that become a number, and dispatches over all types. The parsers are our own,
 * because strcasecmp() depends on the host's locale. Contexts INIT and APP.
 */
#include "sampler/config/config_parse.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "sampler/base/fmt.h"
#include "sampler/base/text.h"
#include "sampler/config/config_text.h"

#define NS_PER_US UINT64_C(1000)

struct span {
	const char *s;
	size_t len;
};

struct unit {
	const char *name;
	uint64_t ns;
};

struct signal_name {
	const char *name;
	int number;
};

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Values that come out of files and YAML blocks often end in a newline. */
static struct span trimmed(const char *text)
{
	struct span t = {text, strlen(text)};

	while (t.len > 0 && blank(t.s[t.len - 1]))
		t.len--;
	for (; t.len > 0 && blank(t.s[0]); t.s++)
		t.len--;
	return t;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool span_is(struct span t, const char *word)
{
	size_t i;

	for (i = 0; i < t.len && word[i] != '\0'; i++)
		if (lower(t.s[i]) != lower(word[i]))
			return false;
	return i == t.len && word[i] == '\0';
}

/*
 * Takes the number at the front; nothing but a blank or the end may follow it. False if there is
 * none.
 */
static bool take_number(struct span *t, uint64_t *n)
{
	const char *begin = t->s;
	bool is = sp_text_number(&t->s, 10, n);

	t->len -= (size_t)(t->s - begin);
	return is;
}

bool sp_config_is_word(const char *text, const char *word)
{
	return span_is(trimmed(text), word);
}

/* As OTel defines it. */
static int parse_bool(enum sp_config_form form, const char *text, struct sp_config_value *v)
{
	struct span t = trimmed(text);

	v->number = span_is(t, "true");
	if (v->number == 0 && !span_is(t, "false")) {
		sp_fmt_snprintf(v->why, sizeof(v->why), "is neither true nor false");
		return -EINVAL;
	}
	if (form == SP_FORM_NOT)
		v->number = !v->number;
	else if (form == SP_FORM_ROOT_ONLY)
		v->number = v->number ? SP_SCOPE_ROOT : SP_SCOPE_ALL;
	else if (form == SP_FORM_ADD)
		v->number = v->number ? SP_SCOPE_AUTO : SP_SCOPE_NONE;
	return 0;
}

static int parse_enum(const struct sp_config_var *var, const char *text, struct sp_config_value *v)
{
	struct span t = trimmed(text);
	uint32_t shown = 0;
	size_t len;

	for (const struct sp_config_choice *c = var->choices; c->word != NULL; c++) {
		if (span_is(t, c->word)) {
			v->number = c->value;
			v->text = c->word;
			return 0;
		}
	}
	len = sp_fmt_snprintf(v->why, sizeof(v->why), "is not one of");
	for (const struct sp_config_choice *c = var->choices; c->word != NULL; c++) {
		if ((shown & (1U << c->value)) != 0)
			continue;
		len += sp_fmt_snprintf(v->why + len, sizeof(v->why) - len, "%s%s",
				       shown != 0 ? ", " : " ", c->word);
		shown |= 1U << c->value;
	}
	return -EINVAL;
}

static int parse_integer(const struct sp_config_var *var, const char *text,
			 struct sp_config_value *v)
{
	struct span t = trimmed(text);
	uint64_t n;

	if (!take_number(&t, &n) || t.len != 0 || n < var->min || n > var->max) {
		sp_fmt_snprintf(v->why, sizeof(v->why), "is not a number from %u to %u", var->min,
				var->max);
		return -EINVAL;
	}
	v->number = (uint32_t)n;
	return 0;
}

/*
 * A unit is required, except for 0: Pyroscope users would read a bare 15 as seconds, OTel users
 * as milliseconds, and the wrong guess is silent.
 */
static bool parse_ns(const char *text, uint64_t *ns)
{
	static const struct unit units[] = {
		{"ns", 1},          {"us", NS_PER_US},       {"ms", SP_NS_PER_MS},
		{"s", SP_NS_PER_S}, {"m", 60 * SP_NS_PER_S}, {"h", 3600 * SP_NS_PER_S},
	};
	struct span t = trimmed(text);
	uint64_t n;

	if (!take_number(&t, &n))
		return false;
	*ns = 0;
	if (t.len == 0)
		return n == 0;
	for (size_t i = 0; i < SP_ARRAY_LEN(units); i++)
		if (span_is(t, units[i].name))
			return !__builtin_mul_overflow(n, units[i].ns, ns);
	return false;
}

static int parse_duration(const struct sp_config_var *var, const char *text,
			  struct sp_config_value *v)
{
	char min[16];
	char max[16];
	uint64_t ns;

	if (parse_ns(text, &ns) && ns >= var->min * SP_NS_PER_MS && ns <= var->max * SP_NS_PER_MS) {
		/* Rounded up, so that only a written 0 means 0. */
		v->number = (uint32_t)((ns + SP_NS_PER_MS - 1) / SP_NS_PER_MS);
		return 0;
	}
	sp_fmt_snprintf(v->why, sizeof(v->why),
			"is not a duration from %s to %s with a unit (ms, s, m)",
			sp_config_duration(var->min, min), sp_config_duration(var->max, max));
	return -EINVAL;
}

/* The time between two samples; the variable itself is their number per second. */
static int parse_period(const struct sp_config_var *var, const char *text,
			struct sp_config_value *v)
{
	char min[16];
	char max[16];
	uint64_t ns;

	if (parse_ns(text, &ns) && ns > 0 && ns >= SP_NS_PER_S / var->max &&
	    ns <= SP_NS_PER_S / var->min) {
		v->number = (uint32_t)((SP_NS_PER_S + ns / 2) / ns);
		return 0;
	}
	sp_fmt_snprintf(
		v->why, sizeof(v->why), "is not a duration from %s to %s with a unit (us, ms, s)",
		sp_config_duration(1000 / var->max, min), sp_config_duration(1000 / var->min, max));
	return -EINVAL;
}

/* Of two names for a signal the usual one is first. */
static const struct signal_name signal_names[] = {
	{"HUP", SIGHUP},       {"INT", SIGINT},     {"QUIT", SIGQUIT}, {"ILL", SIGILL},
	{"TRAP", SIGTRAP},     {"ABRT", SIGABRT},   {"IOT", SIGIOT},   {"BUS", SIGBUS},
	{"FPE", SIGFPE},       {"KILL", SIGKILL},   {"USR1", SIGUSR1}, {"SEGV", SIGSEGV},
	{"USR2", SIGUSR2},     {"PIPE", SIGPIPE},   {"ALRM", SIGALRM}, {"TERM", SIGTERM},
	{"STKFLT", SIGSTKFLT}, {"CHLD", SIGCHLD},   {"CLD", SIGCHLD},  {"CONT", SIGCONT},
	{"STOP", SIGSTOP},     {"TSTP", SIGTSTP},   {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU},
	{"URG", SIGURG},       {"XCPU", SIGXCPU},   {"XFSZ", SIGXFSZ}, {"VTALRM", SIGVTALRM},
	{"PROF", SIGPROF},     {"WINCH", SIGWINCH}, {"IO", SIGIO},     {"POLL", SIGIO},
	{"PWR", SIGPWR},       {"SYS", SIGSYS},
};

static int signal_by_name(struct span t)
{
	for (size_t i = 0; i < SP_ARRAY_LEN(signal_names); i++)
		if (span_is(t, signal_names[i].name))
			return signal_names[i].number;
	return 0;
}

const char *sp_config_signal_name(int number)
{
	for (size_t i = 0; i < SP_ARRAY_LEN(signal_names); i++)
		if (signal_names[i].number == number)
			return signal_names[i].name;
	return NULL;
}

/* RTMIN, RTMIN+n, RTMAX, RTMAX-n. Only the C library knows their numbers, at run time. */
static int signal_by_range(struct span t)
{
	bool from_min = t.len >= 5 && span_is((struct span){t.s, 5}, "RTMIN");
	uint64_t n = 0;

	if (!from_min && !(t.len >= 5 && span_is((struct span){t.s, 5}, "RTMAX")))
		return 0;
	t.s += 5;
	t.len -= 5;
	if (t.len > 0) {
		if (*t.s++ != (from_min ? '+' : '-'))
			return 0;
		t.len--;
		if (!take_number(&t, &n) || t.len != 0 || n > (uint64_t)(SIGRTMAX - SIGRTMIN))
			return 0;
	}
	return from_min ? SIGRTMIN + (int)n : SIGRTMAX - (int)n;
}

/* Signals that report a fault, cannot be caught, or are used by the kernel or the C library. */
static bool signal_refused(int number)
{
	static const int refused[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
				      SIGTRAP, SIGABRT, SIGCHLD, SIGCONT, SIGSYS};

	for (size_t i = 0; i < SP_ARRAY_LEN(refused); i++)
		if (number == refused[i])
			return true;
	return number >= 32 && number < SIGRTMIN;
}

static int parse_signal(const char *text, struct sp_config_value *v)
{
	struct span t = trimmed(text);
	struct span digits = t;
	const char *why = "is not a signal";
	uint64_t n = 0;

	v->number = 0;
	if (span_is(t, "auto"))
		return 0;
	if (!take_number(&digits, &n) || digits.len != 0) {
		if (t.len > 3 && span_is((struct span){t.s, 3}, "SIG")) {
			t.s += 3;
			t.len -= 3;
		}
		n = (uint64_t)signal_by_name(t);
		if (n == 0)
			n = (uint64_t)signal_by_range(t);
	}
	if (n >= 1 && n <= (uint64_t)SIGRTMAX) {
		v->number = (uint32_t)n;
		if (!signal_refused((int)n))
			return 0;
		why = "is a signal that cannot be used for sampling";
	}
	sp_fmt_snprintf(v->why, sizeof(v->why), "%s", why);
	return -EINVAL;
}

static int parse_text(const struct sp_config_var *var, const char *text, struct sp_config_value *v)
{
	const char *why;

	if (var->type == SP_TYPE_LINK && strstr(text, "://") == NULL)
		return parse_enum(var, text, v);
	why = sp_config_check_text(var->type, text);
	v->text = text;
	if (why == NULL)
		return 0;
	sp_fmt_snprintf(v->why, sizeof(v->why), "%s", why);
	return -EINVAL;
}

int sp_config_parse_value(const struct sp_config_var *var, enum sp_config_form form,
			  const char *text, struct sp_config_value *v)
{
	if (form == SP_FORM_PERIOD)
		return parse_period(var, text, v);
	if (form != SP_FORM_OWN)
		return parse_bool(form, text, v);
	switch (var->type) {
	case SP_TYPE_SWITCH:
	case SP_TYPE_BOOL:
		return parse_bool(form, text, v);
	case SP_TYPE_ENUM:
		return parse_enum(var, text, v);
	case SP_TYPE_INTEGER:
		return parse_integer(var, text, v);
	case SP_TYPE_DURATION:
		return parse_duration(var, text, v);
	case SP_TYPE_SIGNAL:
		return parse_signal(text, v);
	case SP_TYPE_PATH:
	case SP_TYPE_SECRET_FILE:
	case SP_TYPE_ADDRESS:
	case SP_TYPE_BASE_URL:
	case SP_TYPE_LINK:
	case SP_TYPE_TEXT:
	case SP_TYPE_PAIRS:
	case SP_TYPE_RESOURCE:
	case SP_TYPE_SECRET:
	case SP_TYPE_HEADERS:
		break;
	}
	return parse_text(var, text, v);
}
