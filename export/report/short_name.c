/* SPDX-License-Identifier: Apache-2.0 */
/* Shortens names of functions (short_name.h), step by step as page/page.js does. Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/short_name.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "export/util/log.h"

/*
 * In "operator<" and "->" the brackets are a part of the name. While names are shortened, control
 * characters, which no name has, replace them.
 */
static const char brackets[] = "<>() ";

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

/* The length of the operator at s, behind the word "operator"; 0 = none. */
static size_t sign_of(const char *s)
{
	static const char *const signs[] = {"()", "<=>", "<<=", ">>=", "->*", "<<",
					    ">>", "<=",  ">=",  "->",  "<",   ">"};

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (strncmp(s, signs[i], strlen(signs[i])) == 0)
			return strlen(signs[i]);
	/* "operator new", "operator bool" */
	return s[0] == ' ' && is_word(s[1]) && (s[1] < '0' || s[1] > '9') ? 1 : 0;
}

static void hide_operators(char *s)
{
	static const char word[] = "operator";
	const size_t len = sizeof(word) - 1;
	size_t from = 0;
	size_t end;

	for (size_t i = 0; s[i] != '\0'; i = end > i ? end : i + 1) {
		end = 0;
		if (strncmp(s + i, word, len) == 0 && (i == 0 || !is_word(s[i - 1]))) {
			from = i + len;
			end = sign_of(s + from) != 0 ? from + sign_of(s + from) : 0;
		} else if (s[i] == '-' && s[i + 1] == '>') {
			from = i;
			end = i + 2;
		}
		for (size_t k = from; k < end; k++) {
			const char *at = strchr(brackets, s[k]);

			if (at != NULL)
				s[k] = (char)(at - brackets + 1);
		}
	}
}

static void show_operators(char *s)
{
	for (; *s != '\0'; s++)
		if (*s > 0 && (size_t)*s < sizeof(brackets))
			*s = brackets[*s - 1];
}

/* Replaces Rust's "<Type as Trait>::method" by "Type::method". */
static void take_type(char *s)
{
	char *rest = s;
	char *as;
	int depth = 0;

	if (s[0] != '<')
		return;
	for (; *rest != '\0'; rest++) {
		depth += *rest == '<' ? 1 : 0;
		if (*rest == '>' && --depth == 0)
			break;
	}
	if (*rest == '\0')
		return;
	*rest++ = '\0';
	as = strstr(s + 1, " as ");
	if (as != NULL)
		*as = '\0';
	memmove(s, s + 1, strlen(s));
	memmove(s + strlen(s), rest, strlen(rest) + 1);
}

/* Removes brackets and their content; nothing if a bracket is not closed. */
static void remove_brackets(char *s)
{
	char out[SP_SHORT_NAME_MAX + 1];
	size_t len = 0;
	unsigned depth = 0;

	for (const char *c = s; *c != '\0'; c++) {
		depth += *c == '<' || *c == '(' ? 1 : 0;
		if (depth == 0)
			out[len++] = *c;
		else if (*c == '>' || *c == ')')
			depth--;
	}
	if (depth != 0)
		return;
	memcpy(s, out, len);
	s[len] = '\0';
}

static bool take_end(char *s, const char *end)
{
	size_t len = strlen(s);
	size_t n = strlen(end);

	if (len < n || strcmp(s + len - n, end) != 0)
		return false;
	s[len - n] = '\0';
	return true;
}

/* Removes additions of compilers, as in "f [clone .part.0]" and "f const &". */
static void remove_additions(char *s)
{
	static const char clone[] = " [clone ";

	for (char *at = s; (at = strstr(at, clone)) != NULL;) {
		char *end = strchr(at, ']');

		if (end == NULL)
			break;
		memmove(at, end + 1, strlen(end + 1) + 1);
	}
	while (take_end(s, " const") || take_end(s, " volatile") || take_end(s, " &&") ||
	       take_end(s, " &"))
		;
	while (take_end(s, " "))
		;
}

#define PARTS_MAX (SP_SHORT_NAME_MAX / 2)

/* Splits a name at "::" into parts, without empty ones. */
static size_t parts_of(char *s, const char *part[PARTS_MAX])
{
	size_t n = 0;

	for (char *next; s != NULL; s = next) {
		next = strstr(s, "::");
		if (next != NULL) {
			*next = '\0';
			next += 2;
		}
		if (*s != '\0')
			part[n++] = s;
	}
	return n;
}

/*
 * The index of the part with which the shortest name begins: the class; for a lambda, the function
 * that contains it.
 */
static size_t last_parts(const char *const *part, size_t n)
{
	unsigned named = 0;

	while (n > 0 && named < 2)
		named += part[--n][0] != '{' ? 1 : 0;
	return n;
}

static void join(const char *const *part, size_t n, const char *full,
		 char out[SP_SHORT_NAME_MAX + 1])
{
	struct sp_text_out t = {out, SP_SHORT_NAME_MAX + 1, 0};

	out[0] = '\0';
	for (size_t i = 0; i < n; i++)
		sp_text_out_put(&t, "%s%s", i != 0 ? "::" : "", part[i]);
	show_operators(out);
	if (n == 0)
		memcpy(out, full, strlen(full) + 1);
}

static void of_function(const char *full, struct sp_short_name *name)
{
	const char *part[PARTS_MAX];
	char s[SP_SHORT_NAME_MAX + 1];
	char *blank;
	size_t from;
	size_t n;

	memcpy(s, full, strlen(full) + 1);
	memcpy(name->with_namespaces, full, strlen(full) + 1);
	memcpy(name->last_parts, full, strlen(full) + 1);
	if (strpbrk(full, "<(:") == NULL || full[0] == '[' || full[0] == '(')
		return;
	hide_operators(s);
	take_type(s);
	remove_brackets(s);
	remove_additions(s);
	blank = strrchr(s, ' ');
	n = parts_of(blank != NULL ? blank + 1 : s, part);
	/*
	 * "operator()" of a lambda is left out, because a lambda has no name that it would say more
	 * of.
	 */
	if (n > 1 && strcmp(part[n - 1], "operator\3\4") == 0 && part[n - 2][0] == '{')
		n--;
	from = last_parts(part, n);
	join(part, n, full, name->with_namespaces);
	join(part + from, n - from, full, name->last_parts);
}

/* Finds " (src/cart.cc:12)" at the end of a name, which --lines adds; NULL = none. */
static const char *source_of(const char *full)
{
	const char *open = strrchr(full, '(');
	size_t len = open != NULL ? strcspn(open + 1, ")") : 0;

	if (open == NULL || open - full < 2 || open[-1] != ' ' || open[-2] == ' ' ||
	    open[1 + len] != ')' || open[2 + len] != '\0' || strcspn(open + 1, "./") >= len)
		return NULL;
	return open - 1;
}

void sp_short_name(const char *full, struct sp_short_name *name)
{
	char function[SP_SHORT_NAME_MAX + 1];
	const char *source = source_of(full);
	size_t len;

	if (source == NULL) {
		of_function(full, name);
		return;
	}
	memcpy(function, full, (size_t)(source - full));
	function[source - full] = '\0';
	of_function(function, name);
	source = sp_text_file_name(source + 2);
	for (size_t i = 0; i < 2; i++) {
		char *text = i == 0 ? name->with_namespaces : name->last_parts;

		/* The result is not longer than the whole name. */
		len = strlen(text);
		(void)snprintf(text + len, SP_SHORT_NAME_MAX + 1 - len, " (%s", source);
	}
}
