#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that records no span pays for us with no heap, no thread and no file descriptor: its calls
# of malloc and its kin are counted by another preloaded object, and its tasks and descriptors listed
# by itself. strace_quiet.sh says the same about system calls.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need gcc python3
cat >"$WORK/count.c" <<'END_OF_COUNT'
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
static unsigned calls;
static size_t bytes;
static void count(size_t n) { calls++; bytes += n; }
void *malloc(size_t n) { count(n); return __libc_malloc(n); }
void *calloc(size_t a, size_t n) { count(a * n); return __libc_calloc(a, n); }
void *realloc(void *p, size_t n) { count(n); return __libc_realloc(p, n); }
void *aligned_alloc(size_t a, size_t n) { count(n); return __libc_memalign(a, n); }
void *memalign(size_t a, size_t n) { count(n); return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { count(n); *p = __libc_memalign(a, n); return 0; }
static void number(int fd, unsigned long n)
{
	char text[24];
	size_t at = sizeof(text);
	text[--at] = '\n';
	do text[--at] = (char)('0' + n % 10); while ((n /= 10) != 0);
	(void)!write(fd, text + at, sizeof(text) - at);
}
/* At the very end: some programs close stderr before. */
__attribute__((destructor)) static void tell(void)
{
	int fd = open(getenv("COUNT_TO"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	number(fd, calls);
	number(fd, bytes);
	close(fd);
}
END_OF_COUNT
gcc -O2 -fno-builtin -shared -fPIC -o "$WORK/count.so" "$WORK/count.c"

# The script names what there is of it, before and after some work.
readonly LOOK='import os
def look(): print(sorted(os.listdir("/proc/self/task")) == [str(os.getpid())], os.listdir("/proc/self/fd"))
look(); [str(n) for n in range(1000)]; look()'

# counted NAME PRELOAD COMMAND...: NAME.count has calls and bytes
counted()
{
	run "$1" COUNT_TO="$WORK/$1.count" LD_PRELOAD="$2" SPANPROF_OUTPUT_DIR="$WORK" "${@:3}"
	[[ $(wc -l <"$WORK/$1.count") == 2 ]] || fail "$1: nothing was counted"
}

# cost NAME COMMAND...: the same calls and bytes with us, whichever comes first
cost()
{
	local name=$1

	shift
	counted "$name" "$WORK/count.so" "$@"
	counted "$name.after" "$WORK/count.so:$SO" "$@"
	counted "$name.before" "$SO:$WORK/count.so" "$@"
	expect_same "$name" "$name.after" out err rc count
	expect_same "$name" "$name.before" out err rc count
	echo "$name: $(tr '\n' ' ' <"$WORK/$name.count")"
}
cost true /bin/true
cost ls /bin/ls /
cost python python3 -S -E -c "$LOOK"
# One thread; the descriptors are those without us, which were compared above.
[[ $(grep -c "^True .*'3'" "$WORK/python.out") == 2 ]] || fail "$(<"$WORK/python.out")"

# It would see us: a preloaded object that allocates once is one call more.
echo '#include <stdlib.h>
__attribute__((constructor)) static void allocate(void) { void *volatile p = malloc(1); free(p); }' >"$WORK/one.c"
gcc -O0 -shared -fPIC -o "$WORK/one.so" "$WORK/one.c"
counted one "$WORK/count.so:$WORK/one.so" /bin/true
[[ $(head -n 1 "$WORK/one.count") == $(($(head -n 1 "$WORK/true.count") + 1)) ]] || fail "the counting sees nothing"
