#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-imports.sh passes on the build. It fails on every function that the object calls or looks up without a listed
# reason, on functions that no reason can allow, and on superfluous entries.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

expect_pass scripts/check-imports.sh

readonly GATE=(scripts/check-imports.sh "$work/list")
printf '#define SP_FOR_EACH_NEXT(X) \\\n\tX(execve) \\\n\tX(dlsym)\n\nX(malloc)\n' >"$work/lookups"
printf 'global:\n\texecve;\n' >"$work/exports"
cat >"$work/list" <<'L'
# Entries for the test's objects.
getpid    # which process
_ITM_*    # the compiler's
__cxa_*   # the compiler's
__gmon_*  # the linker's
~dlsym    # the program's own call
L

seed_shared good <<<'#include <unistd.h>
int number(void) { return getpid(); }'
expect_pass "${GATE[@]}" "$work/good.so" "$work/lookups" "$work/exports"

seed_shared thread <<<'#include <pthread.h>
#include <unistd.h>
int make(pthread_t *t, void *(*f)(void *)) { return pthread_create(t, 0, f, 0) + getpid(); }'
expect_fail 'uses pthread_create, which is not in' "${GATE[@]}" "$work/thread.so" "$work/lookups" "$work/exports"
cp "$work/list" "$work/before"
echo 'pthread_*  # is not a reason' >>"$work/list"
expect_fail 'uses pthread_create, which nothing can allow' "${GATE[@]}" "$work/thread.so" "$work/lookups" \
	"$work/exports"
cp "$work/before" "$work/list"

seed_shared heap <<<'#include <stdlib.h>
#include <unistd.h>
void *take(void) { return malloc((size_t)getpid()); }'
expect_fail 'uses malloc' "${GATE[@]}" "$work/heap.so" "$work/lookups" "$work/exports"
seed_shared file <<<'#include <fcntl.h>
#include <unistd.h>
int get(void) { return open("/", O_RDONLY) + getpid(); }'
expect_fail 'uses open, which is not in' "${GATE[@]}" "$work/file.so" "$work/lookups" "$work/exports"
# A weak reference counts, too.
seed_shared weak <<<'#include <unistd.h>
#pragma weak pause
int rest(void) { return pause ? pause() : getpid(); }'
expect_fail 'uses pause, which is not in' "${GATE[@]}" "$work/weak.so" "$work/lookups" "$work/exports"

# Looked up by name, but not hooked.
printf '#define SP_FOR_EACH_NEXT(X) \\\n\tX(execve) \\\n\tX(pthread_detach) \\\n\tX(dlsym)\n' >"$work/more"
expect_fail 'uses ~pthread_detach' "${GATE[@]}" "$work/good.so" "$work/more" "$work/exports"
printf 'global:\n\tother;\n' >"$work/none"
expect_fail 'uses ~execve, which is not in' "${GATE[@]}" "$work/good.so" "$work/lookups" "$work/none"

echo 'getppid  # nobody calls it' >>"$work/list"
expect_fail 'nothing uses getppid any more' "${GATE[@]}" "$work/good.so" "$work/lookups" "$work/exports"
cp "$work/before" "$work/list"
sed -i 's/^getpid .*/getpid/' "$work/list"
expect_fail 'no "entry  # reason": getpid' "${GATE[@]}" "$work/good.so" "$work/lookups" "$work/exports"
expect_fail "no $work/absent" scripts/check-imports.sh "$work/list" "$work/absent"
