/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works in a library, or in its own program, whose file is gone. Usage: fileless HOW MS FILE FOLDER [NAME], with
 *   unlink   copies FILE to FOLDER/NAME, loads it from there and unlinks it at once, as Java does with libraries
 *   memfd    copies FILE to memory (memfd_create), loads it from there, and closes the descriptor
 *   program  renames FILE over the program
 *   killed   the same, and when the folder NAME has a file, the program ends by a signal
 * NAME may contain one "%s", which a random number replaces.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/hosts/host.h"

__attribute__((noinline)) static void work_of_program(int ms)
{
	host_burn_ms(ms);
	__asm__ volatile("" ::: "memory");
}

static void copy(const char *from, int to)
{
	int fd = open(from, O_RDONLY | O_CLOEXEC);
	struct stat st;

	HOST_CHECK(fd >= 0 && fstat(fd, &st) == 0);
	while (lseek(to, 0, SEEK_CUR) < st.st_size)
		HOST_CHECK(sendfile(to, fd, NULL, (size_t)st.st_size) > 0);
	close(fd);
}

static void work_in(const char *path, int to, int ms, int is_unlinked)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void (*work)(int ms);

	HOST_CHECK(library != NULL);
	HOST_CHECK(!is_unlinked || unlink(path) == 0);
	HOST_CHECK(close(to) == 0);
	__extension__ work = (void (*)(int))dlsym(library, "exported_work");
	HOST_CHECK(work != NULL);
	work(ms);
}

static int has_a_file(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;

	HOST_CHECK(dir != NULL);
	do
		entry = readdir(dir);
	while (entry != NULL && entry->d_name[0] == '.');
	closedir(dir);
	return entry != NULL;
}

int main(int argc, char **argv)
{
	char path[512], name[256], number[32];
	int to;

	HOST_CHECK(argc >= 5);
	(void)snprintf(number, sizeof(number), "%lld%d", (long long)host_clock_ns(CLOCK_REALTIME),
		       getpid());
	(void)snprintf(name, sizeof(name), argc > 5 ? argv[5] : "", number); // NOLINT
	(void)snprintf(path, sizeof(path), "%s/%s", argv[4], name);
	if (argv[1][0] == 'u') {
		to = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
		HOST_CHECK(to >= 0);
		copy(argv[3], to);
		work_in(path, to, atoi(argv[2]), 1);
	} else if (argv[1][0] == 'm') {
		to = memfd_create("generated", MFD_CLOEXEC);
		HOST_CHECK(to >= 0);
		copy(argv[3], to);
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", to);
		work_in(path, to, atoi(argv[2]), 0);
	} else {
		HOST_CHECK(rename(argv[3], argv[0]) == 0);
		do
			work_of_program(atoi(argv[2]));
		while (argv[1][0] == 'k' && !has_a_file(argv[5]));
		HOST_CHECK(argv[1][0] != 'k' || raise(SIGTERM) == 0);
	}
	printf("done\n");
	return 21;
}
