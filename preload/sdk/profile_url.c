/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in the templates of profile URLs (profile_url.h). APP context. */
#include "preload/sdk/profile_url.h"

#include <string.h>
#include <strings.h>

#include "sampler/base/compiler.h"
#include "sampler/base/text.h"

struct preset {
	const char *name;
	const char *base;                  /* used if SPANPROF_PROFILE_BASE_URL is not set */
	const char *form[SP_URL_DIFF + 1]; /* NULL = no URL of that kind */
	bool finds_by_name;                /* its baseline URL selects by the label span_name */
};

#define DRILLDOWN                                                                                  \
	"{base}/a/grafana-pyroscope-app/"                                                          \
	"explore?{datasource_variable}var-serviceName={service}&var-profileMetricId="              \
	"{profile_type}"                                                                           \
	"&explorationType=flame-graph&from={from_ms}&to={until_ms}"
#define EXPLORE                                                                                    \
	"{base}/explore?left=%7B%22range%22%3A%7B%22from%22%3A%22{from_ms}%22%2C%22to%22%3A%22"    \
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
 * third is the URL that otel-profiling-go 0.4.0 wrote (otelpyroscope.go, setProfileURL and
 * setBaselineURLs), for users who still rely on it: sorted keys, seconds, no padding.
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
	 {"{base}/?from={start_s}&query=" LEGACY_SPAN "&until={end_s}",
	  "{base}/comparison?" LEGACY_COMPARISON, "{base}/comparison-diff?" LEGACY_COMPARISON},
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

/*
 * The text around a value decides how the value is encoded. All kinds but PLAIN are
 * percent-encoded, too.
 */
enum place {
	PLAIN,    /* not encoded */
	PATH,     /* percent-encoded only */
	QUERY,    /* as HTML forms and Go's url.Values encode a query: a space is a plus */
	FILTER,   /* a filter in the form of Grafana's scenes */
	JSON,     /* a string in JSON */
	SELECTOR, /* a string in a label selector, which is itself a string in JSON */
};

/*
 * Escapes a character: in a string of JSON a control character becomes \u00xx, in one of a label
 * selector \xxx. Returns the length of the escape.
 */
static size_t escape(char out[6], unsigned char c, bool is_json)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = 0;

	if (c < 0x20 || c == '"' || c == '\\')
		out[n++] = '\\';
	if (c >= 0x20) {
		out[n++] = (char)c;
		return n;
	}
	memcpy(out + n, is_json ? "u00" : "x", is_json ? 3 : 1);
	n += is_json ? 3 : 1;
	out[n++] = digits[c >> 4];
	out[n++] = digits[c & 15];
	return n;
}

/*
 * The text that replaces a character in that place; NULL = none. Three characters separate filters
 * and their parts; percent-encoding would not protect them, because it is decoded first.
 */
static const char *in_place_of(char c, enum place place)
{
	if (place == QUERY)
		return c == ' ' ? "+" : NULL;
	if (place != FILTER)
		return NULL;
	return c == ',' ? "__gfc__" : c == '|' ? "__gfp__" : c == '#' ? "__gfh__" : NULL;
}

static void put_char(struct writer *w, char c, enum place place)
{
	const char *other = in_place_of(c, place);
	char encoded[3];

	if (other != NULL)
		put(w, other, strlen(other));
	else
		put(w, encoded, sp_text_percent(encoded, c));
}

static void put_text(struct writer *w, const char *s, size_t n, enum place place)
{
	char selector[6];
	char json[6];

	if (place == PLAIN) {
		put(w, s, n);
		return;
	}
	for (; n > 0 && !w->full; s++, n--) {
		size_t len = 1;

		selector[0] = *s;
		if (place == SELECTOR)
			len = escape(selector, (unsigned char)*s, false);
		for (size_t i = 0; i < len; i++) {
			size_t m = 1;

			json[0] = selector[i];
			if (place >= JSON)
				m = escape(json, (unsigned char)selector[i], true);
			for (size_t k = 0; k < m; k++)
				put_char(w, json[k], place);
		}
	}
}

static bool is(const char *word, const char *name, size_t n)
{
	return strlen(word) == n && memcmp(word, name, n) == 0;
}

static void put_label(struct writer *w, bool first, const struct sp_text_pair *p)
{
	put_text(w, ",", first ? 0 : 1, QUERY);
	put_text(w, p->key, p->key_len, QUERY);
	put_text(w, "=\"", 2, QUERY);
	put_text(w, p->value, p->value_len, QUERY);
	put_text(w, "\"", 1, QUERY);
}

/*
 * Writes the label span_name, unless the configured labels have one, and then the configured
 * labels, whose form the configuration has checked. A configured label with an empty value is
 * omitted.
 */
static void put_labels_query(struct writer *w, const struct sp_profile_url *l)
{
	const struct sp_text_pair own = {"span_name", 9, l->span_name, l->span_name_len, '='};
	const char *at = l->baseline_labels;
	bool has_own = l->name_is_label;
	bool first = true;
	struct sp_text_pair p;

	while (at != NULL && sp_text_next_pair(&at, &p))
		has_own = has_own && !is(own.key, p.key, p.key_len);
	if (has_own) {
		put_label(w, first, &own);
		first = false;
	}
	at = l->baseline_labels;
	while (at != NULL && sp_text_next_pair(&at, &p)) {
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

static bool put_time(struct writer *w, const struct sp_profile_url *l, const char *name, size_t n)
{
	const struct {
		const char *name;
		uint64_t ns;
	} times[] = {
		{"from_", l->from_ns},
		{"until_", l->until_ns},
		{"start_", l->start_ns},
		{"end_", l->end_ns},
	};

	for (size_t i = 0; i < SP_ARRAY_LEN(times); i++) {
		size_t len = strlen(times[i].name);
		const char *unit = name + len;

		if (n < len || memcmp(times[i].name, name, len) != 0)
			continue;
		if (is("ns", unit, n - len))
			put_number(w, times[i].ns);
		else if (is("ms", unit, n - len))
			put_number(w, times[i].ns / SP_NS_PER_MS);
		else if (is("s", unit, n - len))
			put_number(w, times[i].ns / SP_NS_PER_S);
		else
			return false;
		return true;
	}
	return false;
}

static bool put_value(struct writer *w, const struct sp_profile_url *l, const char *base,
		      const char *name, size_t n)
{
	const struct {
		const char *name;
		enum place place;
		const char *text;
		const char *before; /* this and after: left out without the value, in presets */
		const char *after;
	} texts[] = {
		{"base", PLAIN, base, "", ""},
		{"span_id", PLAIN, l->span_id, "", ""},
		{"trace_id", PLAIN, l->trace_id, "", ""},
		{"profile_type", PATH, l->profile_type, "", ""},
		{"service", PATH, l->service, "", ""},
		{"service_query", QUERY, l->service, "", ""},
		{"service_selector", SELECTOR, l->service, "", ""},
		{"datasource", PATH, l->datasource, "", ""},
		{"datasource_variable", PATH, l->datasource, "var-dataSource=", "&"},
		{"datasource_member", JSON, l->datasource, "%22datasource%22%3A%22", "%22%2C"},
		{"span_name", PATH, l->span_name, "", ""},
		{"span_name_filter", FILTER, l->span_name, "", ""},
		{"span_name_selector", SELECTOR, l->span_name, "", ""},
	};

	if (is("labels_query", name, n)) {
		put_labels_query(w, l);
		return true;
	}
	for (size_t i = 0; i < SP_ARRAY_LEN(texts); i++) {
		const char *text = texts[i].text != NULL ? texts[i].text : "";
		size_t len;

		if (!is(texts[i].name, name, n))
			continue;
		len = text == l->span_name ? l->span_name_len : strlen(text);
		if (text == base && len > 0 && text[len - 1] == '/')
			len--;
		put(w, texts[i].before, len != 0 ? strlen(texts[i].before) : 0);
		put_text(w, text, len, texts[i].place);
		put(w, texts[i].after, len != 0 ? strlen(texts[i].after) : 0);
		return true;
	}
	return put_time(w, l, name, n);
}

size_t sp_profile_url_format(const struct sp_profile_url *l, char out[SP_PROFILE_URL_MAX])
{
	struct writer w = {.out = out};
	const char *form = l->kind != SP_URL_DIFF ? l->form : NULL;
	const char *base = l->base;

	for (size_t i = 0; i < SP_ARRAY_LEN(presets); i++) {
		const struct preset *p = &presets[i];

		if (strcasecmp(l->form, p->name) != 0)
			continue;
		form = l->kind == SP_URL_BASELINE && p->finds_by_name && !l->name_is_label
			       ? NULL
			       : p->form[l->kind];
		base = base != NULL ? base : p->base;
	}
	while (form != NULL && *form != '\0' && !w.full) {
		size_t plain = strcspn(form, "{");
		size_t n;

		put(&w, form, plain);
		form += plain;
		if (*form == '\0')
			break;
		n = strcspn(form + 1, "}");
		if (form[1 + n] == '}' && put_value(&w, l, base, form + 1, n)) {
			form += n + 2;
		} else {
			put(&w, form, 1);
			form++;
		}
	}
	if (w.full)
		w.len = 0;
	out[w.len] = '\0';
	return w.len;
}
