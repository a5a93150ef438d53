/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one host in several environments at once and asks them for rounds in turn, so that other load affects all
 * alike. Prints for each environment its label, the median time of a round, and the medians of difference and ratio
 * to the first environment's round just before.
 *
 * The rounds of the first seconds do not count: processes that a host starts at its first span, such as an exporter,
 * are busy then and use a processor. And one process may be slower than another one of the same program all its life,
 * so all are restarted several times.
 *
 *	rounds COUNT HOST [ARGUMENT ...] <environments
 *
 * An environment is a line "label|NAME=VALUE NAME=VALUE".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOSTS_MAX 16
#define COUNT_MAX 1001
#define WARM_UP_S 2
#define STARTS 5

struct host {
	char label[64];
	char assignments[4096];
	pid_t pid;
	FILE *ask;
	FILE *told;
	double ns[COUNT_MAX];
};

static struct host hosts[HOSTS_MAX];
static double scratch[COUNT_MAX];

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(int count)
{
	qsort(scratch, (size_t)count, sizeof(scratch[0]), by_value);
	return scratch[count / 2];
}

/* The time of a round when the machine is quiet: a tenth of them are faster. */
static double quiet(const struct host *h, int count)
{
	memcpy(scratch, h->ns, sizeof(scratch));
	qsort(scratch, (size_t)count, sizeof(scratch[0]), by_value);
	return scratch[count / 10];
}

static void start(struct host *h, char **argv)
{
	int in[2];
	int out[2];

	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		die("pipe");
	h->pid = fork();
	if (h->pid < 0)
		die("fork");
	if (h->pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		for (char *a = strtok(h->assignments, " "); a != NULL; a = strtok(NULL, " "))
			putenv(a);
		execv(argv[0], argv);
		die(argv[0]);
	}
	close(in[0]);
	close(out[1]);
	h->ask = fdopen(in[1], "w");
	h->told = fdopen(out[0], "r");
	if (h->ask == NULL || h->told == NULL)
		die("fdopen");
}

static void stop(struct host *h)
{
	fclose(h->ask);
	fclose(h->told);
	waitpid(h->pid, NULL, 0);
}

static double round_of(struct host *h)
{
	double ns;

	if (fputs("go\n", h->ask) < 0 || fflush(h->ask) != 0 || fscanf(h->told, "%lf", &ns) != 1) {
		fprintf(stderr, "rounds: %s gave no answer\n", h->label);
		exit(2);
	}
	return ns;
}

/* At least one round of each environment. */
static void warm_up(int n)
{
	struct timespec now;
	time_t end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + WARM_UP_S;
	do {
		for (int i = 0; i < n; i++)
			(void)round_of(&hosts[i]);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end);
}

static void report(const struct host *h, int count)
{
	double ns;
	double more;

	memcpy(scratch, h->ns, sizeof(scratch));
	ns = median(count);
	for (int i = 0; i < count; i++)
		scratch[i] = h->ns[i] - hosts[0].ns[i];
	more = median(count);
	for (int i = 0; i < count; i++)
		scratch[i] = h->ns[i] / hosts[0].ns[i];
	printf("%s|%.0f|%.1f|%.4f|", h->label, ns, more, median(count));
	printf("%.0f|%.1f\n", quiet(h, count), quiet(h, count) - quiet(&hosts[0], count));
}

static void measure(int n, int from, int to, char **argv)
{
	for (int i = 0; i < n; i++)
		start(&hosts[i], argv);
	warm_up(n);
	for (int r = from; r < to; r++) {
		for (int i = 0; i < n; i++)
			hosts[i].ns[r] = round_of(&hosts[i]);
	}
	for (int i = 0; i < n; i++)
		stop(&hosts[i]);
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[1]) : 0;
	char line[4096];
	int n = 0;

	if (count < 1 || count > COUNT_MAX)
		return 2;
	while (n < HOSTS_MAX && fgets(line, sizeof(line), stdin) != NULL) {
		char *bar = strchr(line, '|');

		if (bar == NULL)
			return 2;
		line[strcspn(line, "\n")] = '\0';
		*bar = '\0';
		snprintf(hosts[n].label, sizeof(hosts[n].label), "%.60s", line);
		snprintf(hosts[n].assignments, sizeof(hosts[n].assignments), "%s", bar + 1);
		n++;
	}
	for (int s = 0; s < STARTS; s++)
		measure(n, count * s / STARTS, count * (s + 1) / STARTS, argv + 2);
	for (int i = 0; i < n; i++)
		report(&hosts[i], count);
	return 0;
}
