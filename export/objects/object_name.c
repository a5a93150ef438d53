/* SPDX-License-Identifier: Apache-2.0 */
/* Names objects (object_name.h). Context: the exporter. */
#include "export/objects/object_name.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "export/util/log.h"
#include "sampler/base/text.h"

static bool is_folder(const char *at, size_t len)
{
	static const char *const name[] = {"tmp", "temp"};

	for (unsigned i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		if (len == strlen(name[i]) && strncasecmp(at, name[i], len) == 0)
			return true;
	return false;
}

bool sp_object_is_temporary(const char *path)
{
	const char *end;

	if (strncmp(path, "/memfd:", 7) == 0 || strncmp(path, "/dev/shm/", 9) == 0 ||
	    strncmp(path, "/run/user/", 10) == 0)
		return true;
	for (; (end = strchr(path, '/')) != NULL; path = end + 1)
		if (is_folder(path, (size_t)(end - path)))
			return true;
	return false;
}

#define SP_RANDOM_DIGITS 5U
#define SP_RANDOM_LETTERS 6U
#define SP_UUID_LENGTH 36

/*
 * Whether a part of a name is probably random: a number longer than any version, or letters and digits that alternate
 * three times, which "sha256sum" does not.
 */
static bool is_random(const char *at, size_t len)
{
	size_t digits = 0, longest = 0;
	unsigned changes = 0;

	for (size_t i = 0; i < len; i++) {
		bool is_digit = at[i] >= '0' && at[i] <= '9';

		digits = is_digit ? digits + 1 : 0;
		longest = digits > longest ? digits : longest;
		if (i != 0 && is_digit != (at[i - 1] >= '0' && at[i - 1] <= '9'))
			changes++;
	}
	return longest >= SP_RANDOM_DIGITS || (len >= SP_RANDOM_LETTERS && changes >= 3);
}

static bool is_uuid(const char *at)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	for (unsigned i = 0; i < sizeof(form) - 1; i++)
		if (form[i] == 'x' ? sp_text_digit(at[i]) < 0 : at[i] != '-')
			return false;
	return true;
}

static bool is_letter_or_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "jna8237498.tmp" becomes "jna*.tmp". */
static void star(const char *from, size_t len, char *to, size_t cap)
{
	const char *end = from + len;
	char *last = to + cap - 1;

	while (from < end && to < last) {
		const char *word = from;
		size_t n = 0;

		while (word + n < end && is_letter_or_digit(word[n]))
			n++;
		if (end - from >= SP_UUID_LENGTH && is_uuid(from)) {
			from += SP_UUID_LENGTH;
			*to++ = '*';
		} else if (n == 0) {
			*to++ = *from++;
		} else if (is_random(word, n)) {
			from += n;
			while (to < last && (*word < '0' || *word > '9'))
				*to++ = *word++;
			if (to < last)
				*to++ = '*';
		} else {
			while (n-- != 0 && to < last)
				*to++ = *from++;
		}
	}
	*to = '\0';
}

void sp_object_name(const char *path, const char *soname, char *name, size_t cap)
{
	static const char deleted[] = " (deleted)";
	const size_t tail = sizeof(deleted) - 1;
	const char *last = sp_text_file_name(path);
	size_t len = strlen(last);

	if (len > tail && strcmp(last + len - tail, deleted) == 0)
		len -= tail;
	/* A program opens a file without a folder by such a path. */
	if (strncmp(path, "/proc/", 6) == 0 && strstr(path, "/fd/") != NULL)
		(void)snprintf(name, cap, "[memfd]");
	else if (!sp_object_is_temporary(path))
		(void)snprintf(name, cap, "%.*s", (int)len, last);
	else if (soname[0] != '\0')
		(void)snprintf(name, cap, "%s", soname);
	else
		star(last, len, name, cap);
}
