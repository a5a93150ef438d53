/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in the templates of profile URLs (profile_url.h). APP context. */
#include "preload/sdk/profile_url.h"

#include <string.h>
#include <strings.h>

#include "sampler/base/compiler.h"
#include "sampler/base/text.h"

struct preset {
	const char *name;
	const char *base;
	const char *form[SP_URL_DIFF + 1]; /* NULL = no URL of that kind */
	bool finds_by_name;                /* its baseline selects by the label span_name */
};

#define DRILLDOWN                                                                                  \
	"/a/grafana-pyroscope-app/"                                                                \
	"explore?{datasource_variable}var-serviceName={service}&var-profileMetricId="              \
	"{profile_type}"                                                                           \
	"&explorationType=flame-graph&from={from_ms}&to={until_ms}"
#define EXPLORE                                                                                    \
	"/explore?left=%7B%22range%22%3A%7B%22from%22%3A%22{from_ms}%22%2C%22to%22%3A%22"          \
	"{until_ms}%22%7D%2C{datasource_member}%22queries%22%3A%5B%7B%22refId%22%3A%22profile"     \
	"%22%2C%22queryType%22"                                                                    \
	"%3A%22profile%22%2C%22profileTypeId%22%3A%22{profile_type}"                               \
	"%22%2C%22groupBy%22%3A%5B%5D%2C%22labelSelector%22%3A%22%7Bservice_name%3D%5C%22"         \
	"{service_selector}%5C%22"
#define LEGACY_SPAN "{service_query}.cpu%7Bprofile_id%3D%22{span_id}%22%7D"
#define LEGACY_USUAL "{service_query}.cpu%7B{labels_query}%7D"
#define LEGACY_COMPARISON                                                                          \
	"from={from_s}&leftFrom={from_s}&leftQuery=" LEGACY_USUAL                                  \
	"&leftUntil={end_s}&query=" LEGACY_USUAL "&rightFrom={from_s}&rightQuery=" LEGACY_SPAN     \
	"&rightUntil={end_s}&until={end_s}"

/*
 * The first two are views of today's Grafana (Grafana Profiles Drilldown, Grafana Explore). Both
 * take milliseconds and a span selector; neither can select a span in a view of a difference. The
 * last is what otel-profiling-go 0.4.0 wrote (otelpyroscope.go, setProfileURL and setBaselineURLs),
 * for users who still rely on it: sorted keys, seconds, no padding.
 */
static const struct preset presets[] = {
	{"grafana-drilldown",
	 "http://localhost:3000",
	 {DRILLDOWN "&var-spanSelector={span_id}",
	  DRILLDOWN "&var-filters=span_name%7C%3D%7C{span_name_filter}", NULL},
	 true},
	{"grafana-explore",
	 "http://localhost:3000",
	 {EXPLORE "%7D%22%2C%22spanSelector%22%3A%5B%22{span_id}%22%5D%7D%5D%7D",
	  EXPLORE "%2Cspan_name%3D%5C%22{span_name_selector}%5C%22%7D%22%7D%5D%7D", NULL},
	 true},
	{"pyroscope-legacy",
	 "http://localhost:4040",
	 {"/?from={start_s}&query=" LEGACY_SPAN "&until={end_s}", "/comparison?" LEGACY_COMPARISON,
	  "/comparison-diff?" LEGACY_COMPARISON},
	 false},
};

struct writer {
	char *out;
	size_t len;
	bool full;
};

static void put(struct writer *w, const char *s, size_t n)
{
	if (w->full || n >= SP_PROFILE_URL_MAX - w->len) {
		w->full = true;
		return;
	}
	memcpy(w->out + w->len, s, n);
	w->len += n;
}

static void put_byte(struct writer *w, unsigned char c)
{
	char encoded[3];

	put(w, encoded, sp_text_percent(encoded, (char)c));
}

static void put_encoded(struct writer *w, const char *s, size_t n)
{
	for (size_t i = 0; i < n && !w->full; i++)
		put_byte(w, (unsigned char)s[i]);
}

/* As HTML forms encode a query, and Go's url.Values: a space is a plus. */
static void put_query(struct writer *w, const char *s, size_t n)
{
	for (size_t i = 0; i < n && !w->full; i++) {
		if (s[i] == ' ')
			put(w, "+", 1);
		else
			put_byte(w, (unsigned char)s[i]);
	}
}

static void put_json_byte(struct writer *w, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";
	char control[6] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};

	if (c < 0x20) {
		put_encoded(w, control, sizeof(control));
		return;
	}
	if (c == '"' || c == '\\')
		put_byte(w, '\\');
	put_byte(w, c);
}

static void put_json(struct writer *w, const char *s, size_t n)
{
	for (size_t i = 0; i < n && !w->full; i++)
		put_json_byte(w, (unsigned char)s[i]);
}

/*
 * Text inside a string of a label selector that is itself inside a JSON string: special characters
 * are escaped for the selector, and the result for JSON.
 */
static void put_selector(struct writer *w, const char *s, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n && !w->full; i++) {
		unsigned char c = (unsigned char)s[i];
		char control[4] = {'\\', 'x', digits[c >> 4], digits[c & 15]};

		if (c < 0x20) {
			put_json(w, control, sizeof(control));
			continue;
		}
		if (c == '"' || c == '\\')
			put_json(w, "\\", 1);
		put_json_byte(w, c);
	}
}

/*
 * The value of a filter as Grafana's scenes write it into a URL. These three characters separate
 * filters and their parts; percent-encoding would not protect them, because it is decoded first.
 */
static void put_filter(struct writer *w, const char *s, size_t n)
{
	for (size_t i = 0; i < n && !w->full; i++) {
		if (s[i] == ',')
			put(w, "__gfc__", 7);
		else if (s[i] == '|')
			put(w, "__gfp__", 7);
		else if (s[i] == '#')
			put(w, "__gfh__", 7);
		else
			put_byte(w, (unsigned char)s[i]);
	}
}

struct pair {
	const char *key;
	size_t key_len;
	const char *value;
	size_t value_len;
};

/* The next item of k=v,k=v or k:v,k:v, whose form the configuration has checked. */
static bool next_pair(const char **at, struct pair *p)
{
	size_t len;

	*at += strspn(*at, ", ");
	len = strcspn(*at, ",");
	p->key = *at;
	p->key_len = strcspn(*at, "=,");
	if (p->key_len == len)
		p->key_len = strcspn(*at, ":,");
	if (p->key_len == len)
		return false;
	p->value = p->key + p->key_len + 1;
	p->value_len = len - p->key_len - 1;
	while (p->value_len > 0 && p->value[p->value_len - 1] == ' ')
		p->value_len--;
	*at += len;
	return true;
}

static void put_label(struct writer *w, bool first, const struct pair *p)
{
	if (!first)
		put_query(w, ",", 1);
	put_query(w, p->key, p->key_len);
	put_query(w, "=\"", 2);
	put_query(w, p->value, p->value_len);
	put_query(w, "\"", 1);
}

/*
 * The label span_name, unless it is among the configured labels, and then those; an empty value
 * drops one.
 */
static void put_labels_query(struct writer *w, const struct sp_profile_url *l)
{
	const struct pair own = {"span_name", 9, l->span_name, l->span_name_len};
	const char *configured = l->baseline_labels != NULL ? l->baseline_labels : "";
	const char *at = configured;
	bool has_own = l->name_is_label;
	bool first = true;
	struct pair p;

	while (next_pair(&at, &p)) {
		if (p.key_len == own.key_len && memcmp(p.key, own.key, own.key_len) == 0)
			has_own = false;
	}
	if (has_own) {
		put_label(w, first, &own);
		first = false;
	}
	for (at = configured; next_pair(&at, &p);) {
		if (p.value_len == 0)
			continue;
		put_label(w, first, &p);
		first = false;
	}
}

static void put_number(struct writer *w, uint64_t v)
{
	char buf[20];
	size_t at = sizeof(buf);

	do {
		buf[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v != 0);
	put(w, buf + at, sizeof(buf) - at);
}

struct number {
	const char *name;
	uint64_t value;
};

static bool is(const char *word, const char *name, size_t n)
{
	return strlen(word) == n && memcmp(word, name, n) == 0;
}

static bool put_time(struct writer *w, const struct sp_profile_url *l, const char *name, size_t n)
{
	const struct number times[] = {
		{"from", l->from_ns},
		{"until", l->until_ns},
		{"start", l->start_ns},
		{"end", l->end_ns},
	};
	const struct number units[] = {{"_ns", 1}, {"_ms", SP_NS_PER_MS}, {"_s", SP_NS_PER_S}};

	for (size_t i = 0; i < SP_ARRAY_LEN(times); i++) {
		size_t len = strlen(times[i].name);

		if (n < len || memcmp(times[i].name, name, len) != 0)
			continue;
		for (size_t u = 0; u < SP_ARRAY_LEN(units); u++) {
			if (!is(units[u].name, name + len, n - len))
				continue;
			put_number(w, times[i].value / units[u].value);
			return true;
		}
	}
	return false;
}

/* Without a data source the presets leave out the parameter as a whole, and Grafana chooses. */
static bool put_datasource(struct writer *w, const char *uid, const char *name, size_t n)
{
	static const char variable[] = "var-dataSource=";
	static const char member[] = "%22datasource%22%3A%22";
	size_t len = uid != NULL ? strlen(uid) : 0;

	if (is("datasource", name, n)) {
		put_encoded(w, uid, len);
	} else if (is("datasource_variable", name, n)) {
		put(w, variable, len != 0 ? strlen(variable) : 0);
		put_encoded(w, uid, len);
		put(w, "&", len != 0);
	} else if (is("datasource_member", name, n)) {
		put(w, member, len != 0 ? strlen(member) : 0);
		put_json(w, uid, len);
		put(w, "%22%2C", len != 0 ? 6 : 0);
	} else {
		return false;
	}
	return true;
}

static bool put_span_name(struct writer *w, const struct sp_profile_url *l, const char *name,
			  size_t n)
{
	if (is("span_name", name, n))
		put_encoded(w, l->span_name, l->span_name_len);
	else if (is("span_name_filter", name, n))
		put_filter(w, l->span_name, l->span_name_len);
	else if (is("span_name_selector", name, n))
		put_selector(w, l->span_name, l->span_name_len);
	else
		return false;
	return true;
}

static bool put_value(struct writer *w, const struct sp_profile_url *l, const char *name, size_t n)
{
	const char *service = l->service != NULL ? l->service : "";

	if (put_time(w, l, name, n) || put_span_name(w, l, name, n) ||
	    put_datasource(w, l->datasource, name, n))
		return true;
	if (is("span_id", name, n))
		put(w, l->span_id, strlen(l->span_id));
	else if (is("trace_id", name, n))
		put(w, l->trace_id, strlen(l->trace_id));
	else if (is("service", name, n))
		put_encoded(w, service, strlen(service));
	else if (is("service_query", name, n))
		put_query(w, service, strlen(service));
	else if (is("service_selector", name, n))
		put_selector(w, service, strlen(service));
	else if (is("profile_type", name, n))
		put_encoded(w, l->profile_type, strlen(l->profile_type));
	else if (is("labels_query", name, n))
		put_labels_query(w, l);
	else
		return false;
	return true;
}

static void put_form(struct writer *w, const struct sp_profile_url *l, const char *form)
{
	while (*form != '\0' && !w->full) {
		size_t plain = strcspn(form, "{");

		put(w, form, plain);
		form += plain;
		if (*form == '\0')
			return;
		size_t n = strcspn(form + 1, "}");

		if (form[1 + n] == '}' && put_value(w, l, form + 1, n)) {
			form += n + 2;
		} else {
			put(w, form, 1);
			form++;
		}
	}
}

static const struct preset *find_preset(const char *form)
{
	for (size_t i = 0; i < SP_ARRAY_LEN(presets); i++) {
		if (strcasecmp(form, presets[i].name) == 0)
			return &presets[i];
	}
	return NULL;
}

/* The template of a preset, after its base; NULL if it has none of that kind. */
static const char *preset_form(struct writer *w, const struct sp_profile_url *l,
			       const struct preset *p)
{
	const char *base = l->base != NULL ? l->base : p->base;
	size_t n = strlen(base);

	if (p->form[l->kind] == NULL ||
	    (l->kind == SP_URL_BASELINE && p->finds_by_name && !l->name_is_label))
		return NULL;
	put(w, base, n > 0 && base[n - 1] == '/' ? n - 1 : n);
	return p->form[l->kind];
}

size_t sp_profile_url_format(const struct sp_profile_url *l, char out[SP_PROFILE_URL_MAX])
{
	struct writer w = {.out = out};
	const struct preset *preset = find_preset(l->form);
	const char *form = l->kind != SP_URL_DIFF ? l->form : NULL;

	if (preset != NULL)
		form = preset_form(&w, l, preset);
	if (form != NULL)
		put_form(&w, l, form);
	if (w.full)
		w.len = 0;
	out[w.len] = '\0';
	return w.len;
}
