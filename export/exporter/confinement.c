/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and compares the confinement of processes (confinement.h). Context: the exporter, with its
 * turn.
 */
#define _GNU_SOURCE
#include "export/exporter/confinement.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Enough for the lines that follow a long list of groups. */
#define STATUS_MAX ((size_t)1 << 20)

static uint64_t number_after(const char *status, const char *label)
{
	const char *line = strstr(status, label);

	return line != NULL ? strtoull(line + strlen(label), NULL, 10) : 0;
}

uint64_t sp_confinement_filters(const char *status)
{
	/* Strict mode has no filter. */
	return number_after(status, "\nSeccomp_filters:") * 4 +
	       number_after(status, "\nSeccomp:") % 4 + 1;
}

/* At most cap - 1 bytes and a NUL; "" if it cannot be read. */
static void read_text(int folder, const char *name, char *text, size_t cap)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t have = 0;
	ssize_t got;

	while (fd >= 0 && have < cap - 1 && (got = read(fd, text + have, cap - 1 - have)) > 0)
		have += (size_t)got;
	text[have] = '\0';
	if (fd >= 0)
		(void)close(fd);
}

uint64_t sp_confinement_own_filters(void)
{
	static char status[STATUS_MAX];
	static uint64_t own;

	if (own != 0)
		return own;
	read_text(AT_FDCWD, "/proc/self/status", status, sizeof(status));
	if (status[0] != '\0')
		own = sp_confinement_filters(status);
	return own;
}

static struct sp_namespace read_namespace(int proc, const char *name)
{
	struct stat st;

	if (fstatat(proc, name, &st, 0) != 0)
		return (struct sp_namespace){.inode = 0};
	return (struct sp_namespace){.device = st.st_dev, .inode = st.st_ino};
}

void sp_confinement_read(int proc, const struct sp_confinement *before, struct sp_confinement *out)
{
	*out = (struct sp_confinement){.label = ""};
	if (proc < 0)
		return;
	out->mounts = read_namespace(proc, "ns/mnt");
	out->users = read_namespace(proc, "ns/user");
	if (before == NULL || before->label[0] != '\0')
		read_text(proc, "attr/current", out->label, sizeof(out->label));
	out->label[strcspn(out->label, "\n")] = '\0';
}

/* AppArmor writes the mode of a profile after its name: "name (enforce)". */
static size_t length_of(const char *label)
{
	const char *mode = strrchr(label, ' ');

	return mode != NULL && mode[1] == '(' ? (size_t)(mode - label) : strlen(label);
}

/*
 * A process may enter a subprofile of AppArmor (a hat) and leave it by a token (aa_change_hat), as
 * mod_apparmor does for each request. Access that a process can take back at any time is not given
 * up. "//&" joins two profiles that both apply.
 */
static bool is_hat_of(const char *label, size_t len, const char *of, size_t of_len)
{
	return len > of_len + 2 && memcmp(label, of, of_len) == 0 &&
	       memcmp(label + of_len, "//", 2) == 0 && label[of_len + 2] != '&';
}

static bool is_other_label(const char *before, const char *now)
{
	size_t before_len = length_of(before);
	size_t now_len = length_of(now);

	if (before_len == 0 || now_len == 0)
		return false;
	return (before_len != now_len || memcmp(before, now, now_len) != 0) &&
	       !is_hat_of(now, now_len, before, before_len) &&
	       !is_hat_of(before, before_len, now, now_len);
}

static bool is_other_namespace(struct sp_namespace before, struct sp_namespace now)
{
	return before.inode != 0 && now.inode != 0 &&
	       (before.inode != now.inode || before.device != now.device);
}

enum sp_confined sp_confinement_compare(const struct sp_confinement *before,
					const struct sp_confinement *now)
{
	if (is_other_label(before->label, now->label))
		return SP_CONFINED_LABEL;
	if (is_other_namespace(before->mounts, now->mounts))
		return SP_CONFINED_MOUNTS;
	if (is_other_namespace(before->users, now->users))
		return SP_CONFINED_USERS;
	return SP_CONFINED_NOT;
}

const char *sp_confinement_text(enum sp_confined how)
{
	static const char *const texts[SP_CONFINED_N] = {
		[SP_CONFINED_FILTER] = "the program installed a seccomp filter",
		[SP_CONFINED_LABEL] = "the program changed its security label (AppArmor, SELinux)",
		[SP_CONFINED_MOUNTS] = "the program entered another mount namespace",
		[SP_CONFINED_USERS] = "the program entered another user namespace",
	};

	return texts[how];
}
