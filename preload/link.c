/* SPDX-License-Identifier: Apache-2.0 */
/* Filling in profile URLs. APP context. */
#include "preload/link.h"

#include <string.h>
#include <strings.h>

#include "sampler/compiler.h"

/*
 * URLs that open one span today (Grafana Profiles Drilldown, Grafana Explore): both take
 * milliseconds and a span selector.
 */
struct preset {
	const char *name;
	const char *base;
	const char *form;
};

#define CPU_PROFILE "process_cpu%3Acpu%3Ananoseconds%3Acpu%3Ananoseconds"

static const struct preset presets[] = {
	{"grafana-drilldown", "http://localhost:3000",
	 "/a/grafana-pyroscope-app/"
	 "explore?var-serviceName={service}&var-profileMetricId=" CPU_PROFILE
	 "&explorationType=flame-graph&from={from_ms}&to={until_ms}&var-spanSelector={span_id}"},
	{"grafana-explore", "http://localhost:3000",
	 "/explore?left=%7B%22range%22%3A%7B%22from%22%3A%22{from_ms}%22%2C%22to%22%3A%22{until_ms}"
	 "%22%7D%2C%22queries%22%3A%5B%7B%22refId%22%3A%22profile%22%2C%22queryType%22%3A%22profile"
	 "%22%2C%22profileTypeId%22%3A%22" CPU_PROFILE
	 "%22%2C%22groupBy%22%3A%5B%5D%2C%22labelSelector%22%3A%22%7Bservice_name%3D%5C%22{service}"
	 "%5C%22%7D%22%2C%22spanSelector%22%3A%5B%22{span_id}%22%5D%7D%5D%7D"},
};

struct writer {
	char *out;
	size_t len;
	bool full;
};

static void put(struct writer *w, const char *s, size_t n)
{
	if (w->full || n >= SP_LINK_MAX - w->len) {
		w->full = true;
		return;
	}
	memcpy(w->out + w->len, s, n);
	w->len += n;
}

void sp_link_hex(const uint8_t *bytes, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[bytes[i] >> 4];
		out[2 * i + 1] = digits[bytes[i] & 15];
	}
	out[2 * n] = '\0';
}

/* RFC 3986: only unreserved characters stay. */
static bool unreserved(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

static void put_encoded(struct writer *w, const char *s, size_t n)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < n && !w->full; i++) {
		unsigned char c = (unsigned char)s[i];
		char hex[3] = {'%', digits[c >> 4], digits[c & 15]};

		if (unreserved(c))
			put(w, (const char *)&c, 1);
		else
			put(w, hex, sizeof(hex));
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

static bool put_value(struct writer *w, const struct sp_link *l, const char *name, size_t n)
{
	const struct number numbers[] = {
		{"from_ns", l->from_ns},
		{"until_ns", l->until_ns},
		{"from_ms", l->from_ns / SP_NS_PER_MS},
		{"until_ms", l->until_ns / SP_NS_PER_MS},
		{"from_s", l->from_ns / SP_NS_PER_S},
		{"until_s", l->until_ns / SP_NS_PER_S},
	};
	const char *service = l->service != NULL ? l->service : "";

	for (size_t i = 0; i < SP_ARRAY_LEN(numbers); i++) {
		if (strlen(numbers[i].name) == n && memcmp(numbers[i].name, name, n) == 0) {
			put_number(w, numbers[i].value);
			return true;
		}
	}
	if (n == 7 && memcmp(name, "span_id", n) == 0)
		put(w, l->span_id, strlen(l->span_id));
	else if (n == 8 && memcmp(name, "trace_id", n) == 0)
		put(w, l->trace_id, strlen(l->trace_id));
	else if (n == 7 && memcmp(name, "service", n) == 0)
		put_encoded(w, service, strlen(service));
	else if (n == 9 && memcmp(name, "span_name", n) == 0)
		put_encoded(w, l->span_name, l->span_name_len);
	else
		return false;
	return true;
}

static void put_form(struct writer *w, const struct sp_link *l, const char *form)
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

size_t sp_link_format(const struct sp_link *l, char out[SP_LINK_MAX])
{
	struct writer w = {.out = out};
	const char *form = l->form;

	for (size_t i = 0; i < SP_ARRAY_LEN(presets); i++) {
		if (strcasecmp(form, presets[i].name) != 0)
			continue;
		const char *base = l->base != NULL ? l->base : presets[i].base;
		size_t n = strlen(base);

		put(&w, base, n > 0 && base[n - 1] == '/' ? n - 1 : n);
		form = presets[i].form;
		break;
	}
	put_form(&w, l, form);
	if (w.full)
		w.len = 0;
	out[w.len] = '\0';
	return w.len;
}
