/* SPDX-License-Identifier: Apache-2.0 */
/* Names descriptors of the host (descriptor.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/off_cpu/descriptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TABLE_MAX ((size_t)1 << 20)
#define ROW_MAX 512U
#define PATH_MAX_OWN 128U

bool sp_descriptor_link(const char *proc, uint64_t fd, char link[SP_DESCRIPTOR_TEXT])
{
	char path[PATH_MAX_OWN];
	ssize_t n;

	if (fd > INT32_MAX)
		return false;
	(void)snprintf(path, sizeof(path), "%s/fd/%" PRIu64, proc, fd);
	n = readlink(path, link, SP_DESCRIPTOR_TEXT - 1);
	link[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The field with that number, counted from 0, between blanks. NULL if there are fewer. */
static const char *field(const char *row, unsigned number)
{
	for (;; number--) {
		row += strspn(row, " ");
		if (*row == '\0' || *row == '\n')
			return NULL;
		if (number == 0)
			return row;
		row += strcspn(row, " \n");
	}
}

static bool is_of_inode(const char *row, unsigned number, uint64_t inode)
{
	const char *text = field(row, number);
	char *end;

	if (text == NULL || *text < '0' || *text > '9')
		return false;
	return strtoull(text, &end, 10) == inode && (*end == ' ' || *end == '\n');
}

/* So many hexadecimal digits, no more and no fewer. */
static bool hex(const char *text, unsigned digits, uint32_t *out)
{
	char part[9] = "";
	char *end;

	memcpy(part, text, strnlen(text, digits));
	*out = (uint32_t)strtoul(part, &end, 16);
	return end == part + digits && part[0] != ' ' && part[0] != '-' && part[0] != '+' &&
	       part[1] != 'x' && part[1] != 'X';
}

/* "0100007F:1538", in the byte order of the machine, by words of 4 bytes. */
static bool address(const char *text, bool is_v6, char *out, size_t cap)
{
	uint32_t word[4] = {0};
	unsigned words = is_v6 ? 4 : 1;
	char shown[INET6_ADDRSTRLEN];
	uint32_t port;

	if (text == NULL)
		return false;
	for (unsigned i = 0; i < words; i++, text += 8)
		if (!hex(text, 8, &word[i]))
			return false;
	if (*text != ':' || !hex(text + 1, 4, &port) ||
	    inet_ntop(is_v6 ? AF_INET6 : AF_INET, word, shown, sizeof(shown)) == NULL)
		return false;
	(void)snprintf(out, cap, is_v6 ? "[%s]:%" PRIu32 : "%s:%" PRIu32, shown, port);
	return port != 0;
}

/* sl, both addresses, state, queues, timer, retransmissions, uid, timeout, inode */
bool sp_descriptor_inet_row(const char *row, bool is_v6, uint64_t inode, char *text, size_t cap)
{
	return is_of_inode(row, 9, inode) && (address(field(row, 2), is_v6, text, cap) ||
					      address(field(row, 1), is_v6, text, cap));
}

/* number, references, protocol, flags, type, state, inode, path */
bool sp_descriptor_unix_row(const char *row, uint64_t inode, char *text, size_t cap)
{
	const char *path = is_of_inode(row, 6, inode) ? field(row, 7) : NULL;

	if (path == NULL)
		return false;
	(void)snprintf(text, cap, "%.*s", (int)strcspn(path, "\n"), path);
	return true;
}

static const struct table {
	const char *file;
	const char *name;
	bool is_v6;
	bool is_unix;
} tables[] = {
	{"tcp", "tcp", false, false}, {"tcp6", "tcp", true, false}, {"unix", "unix", false, true},
	{"udp", "udp", false, false}, {"udp6", "udp", true, false},
};

static bool row_of(const struct table *t, const char *row, uint64_t inode, char *text, size_t cap)
{
	return t->is_unix ? sp_descriptor_unix_row(row, inode, text, cap)
			  : sp_descriptor_inet_row(row, t->is_v6, inode, text, cap);
}

static bool find(const char *proc, const struct table *t, uint64_t inode, char *text, size_t cap)
{
	char path[PATH_MAX_OWN];
	char row[ROW_MAX];
	size_t bytes = 0;
	bool found = false;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/net/%s", proc, t->file);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	while (!found && bytes < TABLE_MAX && fgets(row, sizeof(row), f) != NULL) {
		bytes += strlen(row);
		found = row_of(t, row, inode, text, cap);
	}
	(void)fclose(f);
	return found;
}

void sp_descriptor_describe(const char *proc, const char *link, char text[SP_DESCRIPTOR_TEXT])
{
	char end[SP_DESCRIPTOR_TEXT - 8];
	uint64_t inode;

	if (strncmp(link, "socket:[", 8) != 0) {
		size_t len = strcspn(link, link[0] == '/' ? "" : ":");

		(void)snprintf(text, SP_DESCRIPTOR_TEXT, "%.*s", (int)len, link);
		return;
	}
	inode = strtoull(link + 8, NULL, 10);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (!find(proc, &tables[i], inode, end, sizeof(end)))
			continue;
		(void)snprintf(text, SP_DESCRIPTOR_TEXT, "%s %s", tables[i].name, end);
		return;
	}
	(void)snprintf(text, SP_DESCRIPTOR_TEXT, "socket");
}
