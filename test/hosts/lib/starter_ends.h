/* SPDX-License-Identifier: Apache-2.0 */
/* For test/hosts/starter.c: cases in which the host, the exporter or its keeper ends, forks or executes. */
#ifndef SP_TEST_STARTER_ENDS_H
#define SP_TEST_STARTER_ENDS_H

#include "test/hosts/lib/starter.h"

/* A forked child of a host with a keeper starts its own keeper; the parent's stays. */
static void case_forked(void)
{
	int status = 0;
	pid_t child;

	MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	MUST(start_it() == 0);
	SOON(works());
	child = fork();
	if (child == 0) {
		int fd = start.region_fd;

		make_region();
		close(fd);
		MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
		expect_unnoticed(true);
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child && status == 0);
	MUST(children_in_proc(NULL) == 1 && sp_exporter_process_alive(region));
	children_ended = 0;
	end_it();
}

static void case_kill_exporter(void)
{
	MUST(start_it() == 0);
	SOON(works());
	MUST(kill(exporter(), SIGKILL) == 0);
	SOON(!sp_exporter_process_alive(region));
	MUST(atomic_load(&region->exporter) == SP_EXPORTER_GONE);
	MUST(children_in_proc(NULL) == 0);
	expect_no_child(false);
	MUST(children_ended == 0);
	atomic_store(&region->exporter, SP_EXPORTER_NONE);
	MUST(start_it() == 0);
	SOON(works());
	end_it();
}

/*
 * After the keeper's death a host that adopts orphans can wait for one more child, the exporter. The host notices
 * nothing else.
 */
static void case_kill_keeper(void)
{
	pid_t child = 0;

	MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	MUST(start_it() == 0);
	SOON(works());
	MUST(children_in_proc(&child) == 1 && child != exporter());
	for (int signo = 1; signo < 32; signo++) {
		if (signo != SIGKILL && signo != SIGSTOP)
			MUST(kill(child, signo) == 0);
	}
	nap();
	MUST(kill(child, 0) == 0 && sp_exporter_process_alive(region));
	MUST(children_in_proc(NULL) == 1);
	MUST(kill(child, SIGKILL) == 0);
	SOON(!sp_exporter_process_alive(region) && kill(child, 0) != 0);
	MUST(waitpid(-1, NULL, WNOHANG) == 0);
	MUST(kill(exporter(), SIGKILL) == 0);
	SOON(waitpid(-1, NULL, WNOHANG) == exporter());
	expect_no_child(false);
	MUST(children_ended == 1 && children_in_proc(NULL) == 0);
}

/* An exporter that does not end when told is killed; nobody inherits it or finds its exit status. */
static void case_ended(void)
{
	int status = 0;
	pid_t host;

	MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	host = fork();
	if (host == 0) {
		MUST(start_it() == 0);
		SOON(works());
		MUST(sp_exporter_process_end(0) && !sp_exporter_process_alive(region));
		MUST(children_in_proc(NULL) == 0);
		expect_no_child(false);
		_exit(0);
	}
	MUST(waitpid(host, &status, 0) == host && status == 0);
	expect_no_child(false);
	MUST(children_in_proc(NULL) == 0 && children_ended == 1);
}

/* A joined exporter has ended, and another process has its id. */
static void case_reused(void)
{
	char text[512] = "";
	unsigned long long began = 0;
	FILE *f = fopen("/proc/self/stat", "re");

	MUST(f != NULL && fgets(text, sizeof(text), f) != NULL);
	fclose(f);
	MUST(sscanf(strrchr(text, ')'),
		    ") %*c" /* up to the start time */
		    " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
		    &began) == 1);
	atomic_store(&region->exporter_pid, getpid());
	atomic_store(&region->exporter_began, began);
	MUST(sp_exporter_process_alive(region));
	atomic_store(&region->exporter_began, began - 1);
	MUST(!sp_exporter_process_alive(region));
}

/* The host ends, and the keeper with it. The parent, which is a subreaper as well, checks it. */
static void case_host_ends(void)
{
	pid_t host;
	pid_t child = 0;
	int ends[2];
	int status = 0;

	MUST(pipe(ends) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	host = fork();
	if (host == 0) {
		region->pid = (uint32_t)getppid(); /* the exporter outlives its host */
		MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
		MUST(start_it() == 0);
		SOON(works());
		MUST(children_in_proc(&child) == 1);
		MUST(write(ends[1], &child, sizeof(child)) == sizeof(child));
		kill(getpid(), SIGKILL);
	}
	MUST(read(ends[0], &child, sizeof(child)) == sizeof(child));
	MUST(waitpid(host, &status, 0) == host);
	/* With __WALL, because by now it is a child with the usual signal, or not yet. */
	MUST(waitpid(child, &status, __WALL) == child && WIFEXITED(status));
	MUST(kill(exporter(), 0) == 0);
	atomic_store(&region->flush_asked, 1);
	syscall(SYS_futex, &region->flush_asked, FUTEX_WAKE, 1, NULL, NULL, 0);
	MUST(waitpid(exporter(), &status, 0) == exporter() && status == 0);
}

/* The host executes another program while it has a keeper: the keeper ends with the exporter. */
static void case_exec(const char *self)
{
	MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	MUST(start_it() == 0);
	SOON(works());
	MUST(dup2(start.region_fd, 50) == 50);
	execl(self, self, start.path, "execed", NULL);
	MUST(false);
}

static void case_execed(void)
{
	region = mmap(NULL, sizeof(*region), PROT_READ | PROT_WRITE, MAP_SHARED, 50, 0);
	MUST(region != MAP_FAILED && children_in_proc(NULL) == 1);
	expect_no_child(true);
	end_it();
	/* A zombie remains that only __WCLONE sees; the new program does not know of it. */
	MUST(waitpid(-1, NULL, __WCLONE) > 0);
	expect_no_child(false);
	MUST(children_ended <= 1);
}

#endif
