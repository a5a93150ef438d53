/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the values that stay text. A value that passes can be put into an HTTP header, a profile
 * or a message without breaking its format. Reasons are constant texts, so that no part of a value
 * gets into a message. Contexts INIT and APP.
 */
#include "sampler/config/config_text.h"

#include <string.h>

#include "sampler/base/fmt.h"
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

/* File names need not be UTF-8. */
static const char *check_path(const char *s)
{
	if (s[0] != '/')
		return "is not an absolute path";
	if (strlen(s) > PATH_BYTES_MAX)
		return "is too long for a path";
	for (size_t i = 0; s[i] != '\0'; i++)
		if (sp_text_is_control(s[i]))
			return has_control;
	return NULL;
}

/* Compares the front of s with a lower-case scheme; its length, or 0. */
static size_t scheme(const char *s, const char *wanted)
{
	size_t i;

	for (i = 0; wanted[i] != '\0'; i++) {
		char c = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] - 'A' + 'a') : s[i];

		if (c != wanted[i])
			return 0;
	}
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
	if (host == 0)
		return false;
	return host == len || (s[host] == ':' && port_good(s + host + 1, len - host - 1));
}

static const char *check_url(enum sp_config_type type, const char *s)
{
	size_t at;
	size_t len;
	size_t host = 0;

	for (size_t i = 0; s[i] != '\0'; i++)
		if ((unsigned char)s[i] <= 0x20 || (unsigned char)s[i] >= 0x7f)
			return "contains a character that a URL cannot hold";
	if (type == SP_TYPE_ADDRESS && (at = scheme(s, "unix://")) != 0)
		return s[at] == '/' ? NULL : "does not name an absolute socket path after unix://";
	at = scheme(s, "http://");
	if (at == 0)
		at = scheme(s, "https://");
	if (at == 0)
		return type == SP_TYPE_ADDRESS ? "does not begin with http://, https:// or unix://"
					       : "does not begin with http:// or https://";
	len = strcspn(s + at, "/?#");
	for (size_t i = 0; i < len; i++)
		if (s[at + i] == '@')
			host = i + 1;
	if (host != 0 && type != SP_TYPE_ADDRESS)
		return "contains user information, which must not get into spans";
	return host_good(s + at + host, len - host) ? NULL : "has no valid host and port";
}

/* Whether it is valid JSON is checked by the exporter, which has a parser. */
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

/* Decodes into out, which holds len + 1 bytes, with a NUL. NULL or the reason. */
static const char *decode(const char *s, size_t len, char *out, size_t *out_len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = s[i];

		if (c == '%') {
			if (i + 2 >= len || sp_text_digit(s[i + 1]) < 0 ||
			    sp_text_digit(s[i + 2]) < 0)
				return "has a % that is not followed by two hex digits";
			c = (char)(sp_text_digit(s[i + 1]) << 4 | sp_text_digit(s[i + 2]));
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
 * Where the value of that key is stored, NULL = nowhere. A key that becomes a label stays in buf.
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
	if (i == SP_RESOURCE_LABELS_MAX - 1)
		return NULL;
	if (r->label[i].key == NULL) {
		r->label[i].key = key;
		*used += len + 1;
	}
	return &r->label[i].value;
}

/* The key is decoded to where the value goes afterwards. *used grows by what is kept. */
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

const char *sp_config_check_text(enum sp_config_type type, const char *text)
{
	if (type == SP_TYPE_PATH || type == SP_TYPE_SECRET_FILE)
		return check_path(text);
	if (type == SP_TYPE_ADDRESS || type == SP_TYPE_BASE_URL || type == SP_TYPE_LINK)
		return check_url(type, text);
	if (type == SP_TYPE_PAIRS)
		return check_pairs(text);
	if (type == SP_TYPE_HEADERS)
		return check_headers(text);
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
