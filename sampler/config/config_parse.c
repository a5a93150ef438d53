/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses values: first the types that stay text, then those that become a number, then any value by
 * its type. A text that passes can be put into an HTTP header, a profile or a message without
 * breaking its format. Reasons are constant texts, so that no part of a value gets into a message.
 * The parsers are our own, because strcasecmp() depends on the host's locale. Contexts INIT and
 * APP.
 */
#include "sampler/config/config_table.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/un.h>

#include "sampler/base/text.h"

#define PATH_BYTES_MAX 4095U

static const char has_control[] = "contains a control character";
static const char not_utf8[] = "is not valid UTF-8";

static const char *check_plain(const char *s)
{
	size_t len = strlen(s);

	if (sp_text_has_control(s, len))
		return has_control;
	return sp_text_valid(s, len) ? NULL : not_utf8;
}

/* A file name need not be UTF-8. */
static const char *check_path(const char *s)
{
	if (s[0] != '/')
		return "is not an absolute path";
	if (strlen(s) > PATH_BYTES_MAX)
		return "is too long for a path";
	return sp_text_has_control(s, strlen(s)) ? has_control : NULL;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The length of the lower-case scheme if s begins with it in any case; 0 = it does not. */
static size_t scheme(const char *s, const char *wanted)
{
	size_t i;

	for (i = 0; wanted[i] != '\0'; i++)
		if (lower(s[i]) != wanted[i])
			return 0;
	return i;
}

static bool port_good(const char *s, size_t len)
{
	const char *end = s + len;
	uint64_t n;

	return sp_text_number(&s, 10, &n) && s == end && n >= 1 && n <= 65535;
}

/* host, host:port, [ipv6] or [ipv6]:port */
static bool host_good(const char *s, size_t len)
{
	size_t host = 0;

	if (len > 0 && s[0] == '[') {
		const char *end = memchr(s, ']', len);

		host = end != NULL ? (size_t)(end - s) + 1 : 0;
		if (host <= 2)
			return false;
	} else {
		while (host < len && s[host] != ':')
			host++;
	}
	/* With a comma the value would be a list whose next address lacks its scheme. */
	if (host == 0 || memchr(s, ',', host) != NULL)
		return false;
	return host == len || (s[host] == ':' && port_good(s + host + 1, len - host - 1));
}

static const char *check_url(enum sp_config_type type, const char *s, size_t len)
{
	size_t at;
	size_t end;
	size_t host = 0;

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] <= 0x20 || (unsigned char)s[i] >= 0x7f)
			return "contains a character that a URL cannot hold";
	if (type == SP_TYPE_ADDRESS && (at = scheme(s, "unix://")) != 0) {
		if (len - at >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
			return "names a socket path of more than 107 bytes";
		return s[at] == '/' ? NULL : "does not name an absolute socket path after unix://";
	}
	/* The exporter appends the path of each request. */
	if (type == SP_TYPE_ADDRESS && (memchr(s, '?', len) != NULL || memchr(s, '#', len) != NULL))
		return "contains a query or a fragment";
	at = scheme(s, "http://");
	if (at == 0)
		at = scheme(s, "https://");
	if (at == 0)
		return type == SP_TYPE_ADDRESS ? "does not begin with http://, https:// or unix://"
					       : "does not begin with http:// or https://";
	for (end = at; end < len && strchr("/?#", s[end]) == NULL; end++)
		if (s[end] == '@')
			host = end + 1;
	if (host != 0 && type != SP_TYPE_ADDRESS)
		return "contains user information, which must not get into spans";
	host = host != 0 ? host : at;
	return host_good(s + host, end - host) ? NULL : "has no valid host and port";
}

/* The exporter checks whether this is valid JSON; it has a parser. */
static const char *check_headers(const char *s)
{
	for (size_t i = 0; s[i] != '\0'; i++)
		if (sp_text_is_control(s[i]) && strchr("\t\r\n", s[i]) == NULL)
			return has_control;
	return sp_text_valid(s, strlen(s)) ? NULL : not_utf8;
}

static const char *check_pairs(const char *s)
{
	const char *why = check_plain(s);
	struct sp_text_pair p;

	while (why == NULL && sp_text_next_pair(&s, &p))
		if (p.separator == '\0' || p.key_len == 0)
			why = "has an item that is not key=value";
	return why;
}

/*
 * Decodes percent-encoded text into out, which holds len + 1 bytes, with a NUL. Returns NULL, or
 * what is wrong with the text.
 */
static const char *decode(const char *s, size_t len, char *out, size_t *out_len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = s[i];

		if (c == '%') {
			if (!sp_text_is_escape(s + i, len - i, &c))
				return "has a % that is not followed by two hex digits";
			i += 2;
		}
		if (sp_text_is_control(c))
			return has_control;
		out[n++] = c;
	}
	out[n] = '\0';
	*out_len = n;
	return sp_text_valid(out, n) ? NULL : not_utf8;
}

static bool is_wanted(const char *wanted, const char *key, size_t len)
{
	const char *item;
	size_t n;

	while (wanted != NULL && sp_text_next_item(&wanted, &item, &n)) {
		if (n == len && memcmp(item, key, len) == 0)
			return true;
	}
	return false;
}

/*
 * The member for the value of that key; NULL = the value is not needed. A key that becomes a label
 * stays in buf.
 */
static const char **place_of(const char *wanted, const char *key, size_t len, size_t *used,
			     struct sp_config_resource *r)
{
	unsigned i = 0;

	if (strcmp(key, "service.name") == 0)
		return &r->service_name;
	if (strcmp(key, "service.namespace") == 0)
		return &r->service_namespace;
	if (!is_wanted(wanted, key, len))
		return NULL;
	while (i < SP_RESOURCE_LABELS_MAX - 1 && r->label[i].key != NULL &&
	       strcmp(r->label[i].key, key) != 0)
		i++;
	if (i == SP_RESOURCE_LABELS_MAX - 1) {
		r->label_left_out = true;
		return NULL;
	}
	if (r->label[i].key == NULL) {
		r->label[i].key = key;
		*used += len + 1;
	}
	return &r->label[i].value;
}

/*
 * Reads one key and its value into buf, from *used on. *used grows by the texts that stay: a wanted
 * value, and the key of a new label. The value overwrites any other key. Returns NULL, or the
 * fault.
 */
static const char *read_attribute(const struct sp_text_pair *p, const char *wanted, char *buf,
				  size_t *used, struct sp_config_resource *r)
{
	const char **keep = NULL;
	const char *why;
	size_t n;

	if (p->separator != '=' || p->key_len == 0)
		return "has an item that is not key=value";
	why = decode(p->key, p->key_len, buf + *used, &n);
	if (why != NULL)
		return why;
	if (n == 0)
		return "has an empty key";
	keep = place_of(wanted, buf + *used, n, used, r);
	why = decode(p->value, p->value_len, buf + *used, &n);
	if (why != NULL || keep == NULL)
		return why;
	*keep = n > 0 ? buf + *used : NULL;
	*used += n + 1;
	return NULL;
}

const char *sp_config_resource_read(const char *text, const char *wanted, char *buf,
				    struct sp_config_resource *r)
{
	const char *why = NULL;
	struct sp_text_pair p;
	size_t used = 0;

	memset(r, 0, sizeof(*r));
	while (why == NULL && sp_text_next_pair(&text, &p))
		why = read_attribute(&p, wanted, buf, &used, r);
	if (why != NULL)
		memset(r, 0, sizeof(*r));
	return why;
}

/*
 * Two keys may become the same name of a label, because other characters become "_"; the exporter
 * makes the names different.
 */
static const char *check_attributes(const char *list)
{
	const char *key[SP_SPAN_VALUES_MAX];
	size_t len[SP_SPAN_VALUES_MAX];
	const char *item;
	size_t item_len;
	unsigned n = 0;

	while (sp_text_next_item(&list, &item, &item_len)) {
		if (n == SP_SPAN_VALUES_MAX)
			return "names more than 4 attributes";
		if (item_len > SP_SPAN_KEY_BYTES)
			return "names an attribute of more than 255 bytes";
		for (unsigned i = 0; i < n; i++)
			if (len[i] == item_len && memcmp(key[i], item, item_len) == 0)
				return "names an attribute twice";
		key[n] = item;
		len[n++] = item_len;
	}
	return n == 0 ? "names no attribute" : NULL;
}

static const char *check_slow(const char *list);

static const char *check_text(enum sp_config_type type, const char *text)
{
	if (type == SP_TYPE_PATH || type == SP_TYPE_SECRET_FILE)
		return check_path(text);
	if (type == SP_TYPE_BASE_URL || type == SP_TYPE_LINK)
		return check_url(type, text, strlen(text));
	if (type == SP_TYPE_PAIRS)
		return check_pairs(text);
	if (type == SP_TYPE_HEADERS)
		return check_headers(text);
	if (type == SP_TYPE_ATTRIBUTES && check_plain(text) == NULL)
		return check_attributes(text);
	if (type == SP_TYPE_SLOW && check_plain(text) == NULL)
		return check_slow(text);
	return check_plain(text);
}

const char *sp_config_duration(uint32_t ms, char buf[16])
{
	if (ms == 0)
		(void)sp_fmt_snprintf(buf, 16, "0");
	else if (ms % 60000 == 0)
		(void)sp_fmt_snprintf(buf, 16, "%um", ms / 60000);
	else if (ms % 1000 == 0)
		(void)sp_fmt_snprintf(buf, 16, "%us", ms / 1000);
	else
		(void)sp_fmt_snprintf(buf, 16, "%ums", ms);
	return buf;
}

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

/* Values that come from files and YAML blocks often end in a newline. */
static struct span trimmed(const char *text)
{
	struct span t = {text, strlen(text)};

	while (t.len > 0 && blank(t.s[t.len - 1]))
		t.len--;
	for (; t.len > 0 && blank(t.s[0]); t.s++)
		t.len--;
	return t;
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
 * Takes the number at the front; only a blank or the end may follow it. False if there is no
 * number.
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

/* OTel's definition of a bool. */
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

size_t sp_config_choices(const struct sp_config_var *var, const char *between, char *out,
			 size_t size)
{
	uint32_t shown = 0;
	size_t len = 0;

	for (const struct sp_config_choice *c = var->choices; c->word != NULL; c++) {
		if ((shown & (1U << c->value)) != 0)
			continue;
		len += sp_fmt_snprintf(out + len, size - len, "%s%s", shown != 0 ? between : "",
				       c->word);
		shown |= 1U << c->value;
	}
	return len;
}

static int parse_enum(const struct sp_config_var *var, const char *text, struct sp_config_value *v)
{
	struct span t = trimmed(text);
	size_t len;

	for (const struct sp_config_choice *c = var->choices; c->word != NULL; c++) {
		if (span_is(t, c->word)) {
			v->number = c->value;
			v->text = c->word;
			return 0;
		}
	}
	len = sp_fmt_snprintf(v->why, sizeof(v->why), "is not one of ");
	(void)sp_config_choices(var, ", ", v->why + len, sizeof(v->why) - len);
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
static bool parse_ns(struct span t, uint64_t *ns)
{
	static const struct unit units[] = {
		{"ns", 1},          {"us", NS_PER_US},       {"ms", SP_NS_PER_MS},
		{"s", SP_NS_PER_S}, {"m", 60 * SP_NS_PER_S}, {"h", 3600 * SP_NS_PER_S},
	};
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

/* An item of SPANPROF_SLOW. A name may contain '=', so the last one is before the value. */
struct slow_item {
	struct span name; /* of no bytes: the item has no name */
	struct span value;
};

static bool next_slow(const char **list, struct slow_item *out)
{
	const char *item;
	size_t len;
	size_t at;

	if (!sp_text_next_item(list, &item, &len))
		return false;
	for (at = len; at != 0 && item[at - 1] != '=';)
		at--;
	*out = (struct slow_item){.value = {item + at, len - at}};
	if (at != 0)
		out->name = (struct span){item, at - 1};
	for (; out->value.len != 0 && blank(out->value.s[0]); out->value.s++)
		out->value.len--;
	while (out->name.len != 0 && blank(out->name.s[out->name.len - 1]))
		out->name.len--;
	return true;
}

static bool slow_value(struct span text, uint64_t *ns)
{
	if (span_is(text, "auto"))
		*ns = SP_SLOW_AUTO;
	else if (span_is(text, "off"))
		*ns = SP_SLOW_NEVER;
	else
		return parse_ns(text, ns) && *ns != SP_SLOW_AUTO && *ns != SP_SLOW_NEVER;
	return true;
}

static const char *check_slow(const char *list)
{
	struct slow_item item;
	uint64_t ns;

	while (next_slow(&list, &item))
		if (!slow_value(item.value, &ns))
			return "has an item that is not off, auto, a duration such as 200ms, or "
			       "NAME=200ms";
	return NULL;
}

uint64_t sp_config_slow(const char *list, const char *name, size_t len)
{
	uint64_t others = SP_SLOW_AUTO;
	struct slow_item item;
	uint64_t ns;

	while (next_slow(&list, &item)) {
		if (!slow_value(item.value, &ns))
			continue;
		if (item.name.len == 0)
			others = ns;
		else if (item.name.len == len && memcmp(item.name.s, name, len) == 0)
			return ns;
	}
	return others;
}

static int parse_duration(const struct sp_config_var *var, const char *text,
			  struct sp_config_value *v)
{
	char min[16];
	char max[16];
	uint64_t ns;

	if (parse_ns(trimmed(text), &ns) && ns >= var->min * SP_NS_PER_MS &&
	    ns <= var->max * SP_NS_PER_MS) {
		/* Rounded up, so that only 0 itself becomes 0. */
		v->number = (uint32_t)((ns + SP_NS_PER_MS - 1) / SP_NS_PER_MS);
		return 0;
	}
	sp_fmt_snprintf(v->why, sizeof(v->why),
			"is not a duration from %s to %s with a unit (ms, s, m)",
			sp_config_duration(var->min, min), sp_config_duration(var->max, max));
	return -EINVAL;
}

/* The form that OTel's exporters read. */
static int parse_ms(const struct sp_config_var *var, const char *text, struct sp_config_value *v)
{
	struct span t = trimmed(text);
	uint64_t n;

	if (!take_number(&t, &n) || t.len != 0 || (n != 0 && n < var->min) || n > var->max) {
		sp_fmt_snprintf(v->why, sizeof(v->why),
				"is not a number of milliseconds from %u to %u", var->min,
				var->max);
		return -EINVAL;
	}
	v->number = n != 0 ? (uint32_t)n : var->max;
	return 0;
}

/* The alias has the time between two samples; the variable itself has the samples per second. */
static int parse_period(const struct sp_config_var *var, const char *text,
			struct sp_config_value *v)
{
	char min[16];
	char max[16];
	uint64_t ns;

	if (parse_ns(trimmed(text), &ns) && ns > 0 && ns >= SP_NS_PER_S / var->max &&
	    ns <= SP_NS_PER_S / var->min) {
		v->number = (uint32_t)((SP_NS_PER_S + ns / 2) / ns);
		return 0;
	}
	sp_fmt_snprintf(
		v->why, sizeof(v->why), "is not a duration from %s to %s with a unit (us, ms, s)",
		sp_config_duration(1000 / var->max, min), sp_config_duration(1000 / var->min, max));
	return -EINVAL;
}

/* If a signal has two names, the usual one comes first. */
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

/* RTMIN, RTMIN+n, RTMAX, RTMAX-n. The C library knows their numbers only at run time. */
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

/*
 * Signals that report a fault, cannot be caught, or are used by the kernel or the C library; and
 * those that stop the process by default: to pass on one from a terminal we take our handler away,
 * and the next signal of our timer would stop the process again.
 */
static bool signal_refused(int number)
{
	static const int refused[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE,  SIGILL,  SIGTRAP,
				      SIGABRT, SIGCHLD, SIGCONT, SIGSYS, SIGTSTP, SIGTTIN, SIGTTOU};

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

/* A comma may stand in an address, too: in a password or a path. */
static bool begins_address(const char *s)
{
	while (blank(*s))
		s++;
	return *s == '\0' || *s == ',' || scheme(s, "http://") != 0 || scheme(s, "https://") != 0 ||
	       scheme(s, "unix://") != 0;
}

const char *sp_config_element(const char *list, bool is_address, unsigned k, size_t *len)
{
	for (;; k--) {
		const char *end = list + strcspn(list, ",");

		while (is_address && *end == ',' && !begins_address(end + 1))
			end += 1 + strcspn(end + 1, ",");
		if (k == 0) {
			while (end > list && blank(end[-1]))
				end--;
			for (; list < end && blank(*list); list++)
				;
			*len = (size_t)(end - list);
			return list;
		}
		if (*end == '\0')
			return NULL;
		list = end + 1;
	}
}

static int parse_addresses(const char *text, struct sp_config_value *v)
{
	const char *why = NULL;
	bool is_list;
	size_t len;

	v->text = text;
	is_list = sp_config_element(text, true, 1, &len) != NULL;
	if (!is_list)
		why = check_url(SP_TYPE_ADDRESS, text, strlen(text));
	if (why != NULL)
		sp_fmt_snprintf(v->why, sizeof(v->why), "%s", why);
	for (unsigned k = 0; is_list && why == NULL; k++) {
		const char *element = sp_config_element(text, true, k, &len);

		if (element == NULL)
			break;
		why = k == SP_SERVERS_MAX ? "is one too many: there may be 4"
		      : len == 0          ? "is empty"
					  : check_url(SP_TYPE_ADDRESS, element, len);
		if (why != NULL)
			sp_fmt_snprintf(v->why, sizeof(v->why), "server %u of the list %s", k + 1,
					why);
	}
	return why == NULL ? 0 : -EINVAL;
}

static int parse_text(const struct sp_config_var *var, const char *text, struct sp_config_value *v)
{
	const char *why;

	if (var->type == SP_TYPE_LINK && strstr(text, "://") == NULL)
		return parse_enum(var, text, v);
	if (var->type == SP_TYPE_ADDRESS)
		return parse_addresses(text, v);
	why = check_text(var->type, text);
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
	if (form == SP_FORM_MS)
		return parse_ms(var, text, v);
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
	case SP_TYPE_ATTRIBUTES:
	case SP_TYPE_SLOW:
	case SP_TYPE_SECRET:
	case SP_TYPE_HEADERS:
		break;
	}
	return parse_text(var, text, v);
}
