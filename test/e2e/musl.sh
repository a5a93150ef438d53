#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In programs for musl we do no harm: their loader loads our object or not, and the program notices nothing, with any
# value of our variables. Both launchers print one line and run the program without us.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/install/root.bash
source test/install/root.bash

need musl-gcc
readonly HOST=$WORK/host
cat >"$WORK/host.c" <<'END'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *arg)
{
	double *sum = arg;

	for (int i = 1; i < 2000000; i++)
		*sum += 1.0 / i;
	return NULL;
}

static void take(int signo)
{
	(void)signo;
}

int main(int argc, char **argv)
{
	struct sigaction act;
	char line[4096];
	double sum = 0;
	pthread_t thread;
	int status = 0;
	int mapped = 0;
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		mapped |= strstr(line, "libspanprof.so") != NULL;
	/* What we hook: threads, signals, forks and ends of all kinds. */
	memset(&act, 0, sizeof(act));
	act.sa_handler = take;
	sigaction(SIGURG, &act, NULL);
	signal(SIGUSR1, take);
	raise(SIGURG);
	pthread_create(&thread, NULL, work, &sum);
	pthread_join(thread, NULL);
	if (fork() == 0)
		_exit(5);
	wait(&status);
	fprintf(stderr, "mapped %d\n", mapped);
	printf("%.3f %d", sum, WEXITSTATUS(status));
	for (int i = 1; i < argc; i++)
		printf(" [%s]", argv[i]);
	printf("\n");
	return 11;
}
END
musl-gcc -O2 -o "$HOST" "$WORK/host.c"
build/spanprof-run --check "$HOST" >"$WORK/check" || true
grep -q 'musl (' "$WORK/check" || fail "not a program for musl: $(<"$WORK/check")"

run plain "$HOST" 'a b'
expect_rc plain 11
mkdir "$WORK/profiles"
run_under asleep "$HOST" 'a b'
run_under always SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/profiles" SPANPROF_LOG_LEVEL=debug \
	"$HOST" 'a b'
for name in asleep always; do
	expect_same plain "$name" out rc
	# Otherwise the test would prove nothing.
	grep -qx 'mapped 1' "$WORK/$name.err" || fail "$name: musl's loader did not take us in"
	[[ $(<"$WORK/$name.err") == 'mapped 1' ]] || fail "$name: $(<"$WORK/$name.err")"
done
[[ -z $(profiles_in "$WORK/profiles") ]] || fail "profiled under musl"

# The exporter's libraries are glibc's: none of them may be searched for.
for start in build/spanprof-{run,entrypoint}; do
	run aside "$start" "$HOST" 'a b'
	expect_same plain aside out rc
	[[ $(wc -l <"$WORK/aside.err") == 2 ]] || fail "$start: $(<"$WORK/aside.err")"
	grep -q 'built for musl.*without the profiler' "$WORK/aside.err" || fail "$start: $(<"$WORK/aside.err")"
	grep -qx 'mapped 0' "$WORK/aside.err" || fail "$start preloads all the same"
done

# An image that has only musl: our own program needs no file of glibc's.
need_containers
readonly IMAGE=$WORK/image

# The loader that a program names.
loader_of()
{
	{ build/spanprof-run --check "$1" || true; } | sed -n 's/^kind.*(\(.*\))$/\1/p'
}

loader=$(loader_of "$HOST")
named=$(loader_of "$HOSTS/entry")
mkdir -p "$IMAGE"/{app,dev,proc} "$IMAGE"{"${loader%/*}","${named%/*}","$PRODUCT/bin","$PRODUCT/lib/spanprof"}
cp -L "$loader" "$IMAGE$loader"
cp "$HOST" "$HOSTS/entry" "$IMAGE/app"
cp build/spanprof-run "$IMAGE$PRODUCT/bin"
cp "$SO" "$IMAGE$PRODUCT/lib/spanprof"
# gcompat does this: a loader with glibc's name that is musl's.
ln -s "$loader" "$IMAGE$named"
chmod -R a+rX "$IMAGE"
inside image 65532 "$IMAGE" -- "$PRODUCT/bin/spanprof-run" /app/host 'a b'
expect_same plain image out rc
grep -q 'built for musl.*without the profiler' "$WORK/image.err" || fail "image: $(<"$WORK/image.err")"
inside gcompat 65532 "$IMAGE" -- "$PRODUCT/bin/spanprof-run" --check /app/entry
expect_rc gcompat 2
grep -q '^verdict .*musl' "$WORK/gcompat.out" || fail "gcompat: $(<"$WORK/gcompat.out")"
