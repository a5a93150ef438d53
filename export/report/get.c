/* SPDX-License-Identifier: Apache-2.0 */
/* Reads heads of requests (get.h). Context: the report tool, a process for each connection. */
#define _GNU_SOURCE
#include "export/report/get.h"

#include <string.h>

#include "sampler/base/text.h"

bool sp_get_is_whole(const char *head, size_t len)
{
	return memmem(head, len, "\r\n\r\n", 4) != NULL;
}

static bool is_text(const char *head, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)head[i];

		if ((c < ' ' && c != '\r' && c != '\n' && c != '\t') || c > '~')
			return false;
	}
	return true;
}

/* Cuts the next line off, which ends with CR LF. NULL = there is none, or it is malformed. */
static char *cut_line(char **at)
{
	char *line = *at;
	char *end = strpbrk(line, "\r\n");

	if (end == NULL || end[0] != '\r' || end[1] != '\n')
		return NULL;
	*end = '\0';
	*at = end + 2;
	return line;
}

/* "GET /path?query HTTP/1.1" */
static int parse_line(char *line, struct sp_get *out)
{
	char *target = strchr(line, ' ');
	char *version = target != NULL ? strchr(target + 1, ' ') : NULL;
	char *query;
	size_t len;

	if (version == NULL ||
	    (strcmp(version, " HTTP/1.1") != 0 && strcmp(version, " HTTP/1.0") != 0))
		return 400;
	*target++ = '\0';
	*version = '\0';
	if (strcmp(line, "GET") != 0)
		return 405;
	if (target[0] != '/' || strchr(target, '#') != NULL || strchr(target, '\t') != NULL)
		return 400;
	query = strchr(target, '?');
	if (query != NULL)
		*query++ = '\0';
	out->query = query;
	len = strlen(target);
	if (len >= sizeof(out->path))
		return 404;
	memcpy(out->path, target, len + 1);
	return 200;
}

/*
 * A web site can give its own name the address 127.0.0.1 and then read what is served there, as its own
 * pages; but its browser says that name. The port is not compared, because ssh may forward another one.
 */
static bool is_this_machine(const char *host)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);

		if (strncasecmp(host, names[i], len) != 0)
			continue;
		if (host[len] == '\0')
			return true;
		return host[len] == ':' && host[len + 1] != '\0' &&
		       host[len + 1 + strspn(host + len + 1, "0123456789")] == '\0';
	}
	return false;
}

/*
 * By the value of Sec-Fetch-Site, in which a browser tells who makes it send the request: "same-origin"
 * is our own page, "none" the user. The page of another site could not read the answer, but it could
 * keep us busy with requests.
 */
static bool is_other_site(const char *value)
{
	return strcmp(value, "same-origin") != 0 && strcmp(value, "none") != 0;
}

/* "Name: value" */
static int parse_field(char *line, unsigned *hosts)
{
	char *value = strchr(line, ':');

	/* A line that begins with a blank would belong to the one before. */
	if (value == NULL || value == line || strcspn(line, " \t") < (size_t)(value - line))
		return 400;
	*value++ = '\0';
	value += strspn(value, " \t");
	if (strcasecmp(line, "Content-Length") == 0 || strcasecmp(line, "Transfer-Encoding") == 0)
		return 400;
	if (strcasecmp(line, "Sec-Fetch-Site") == 0 && is_other_site(value))
		return 403;
	if (strcasecmp(line, "Host") != 0)
		return 200;
	(*hosts)++;
	return is_this_machine(value) ? 200 : 403;
}

int sp_get_parse(char *head, size_t len, struct sp_get *out)
{
	char *at = head;
	char *line;
	unsigned hosts = 0;
	int status;

	*out = (struct sp_get){.query = NULL};
	if (!is_text(head, len))
		return 400;
	line = cut_line(&at);
	status = line != NULL ? parse_line(line, out) : 400;
	while (status == 200) {
		line = cut_line(&at);
		if (line == NULL)
			return 400;
		if (line[0] == '\0')
			return hosts == 1 ? 200 : 400;
		status = parse_field(line, &hosts);
	}
	return status;
}

/* "%2F" becomes "/", and "+" a blank. False if it is malformed, or has a NUL. */
static bool decode(char *text)
{
	char *to = text;

	for (const char *s = text; *s != '\0'; s++) {
		int high, low;

		if (*s != '%') {
			*to++ = (char)(*s == '+' ? ' ' : *s);
			continue;
		}
		high = sp_text_digit(s[1]);
		low = high >= 0 ? sp_text_digit(s[2]) : -1;
		if (low < 0 || high + low == 0)
			return false;
		*to++ = (char)(high << 4 | low);
		s += 2;
	}
	*to = '\0';
	return true;
}

int sp_get_pair(char **query, char **key, char **value)
{
	char *pair = strsep(query, "&");

	if (pair == NULL || (pair[0] == '\0' && *query == NULL))
		return 0;
	*key = pair;
	*value = strchr(pair, '=');
	if (*value == NULL)
		return -1;
	*(*value)++ = '\0';
	return decode(*key) && decode(*value) ? 1 : -1;
}
