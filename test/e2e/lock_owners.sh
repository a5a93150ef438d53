#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Waits for locks name the holder: every owner in the profile was the real one, and nine tenths of the time that
# threads wait for held mutexes have an owner. Locks that are not the C library's have none. $LOCK_SECTIONS of each
# lock (make owners-long: 1,000), among 16 threads.
# Runs alone: it judges how long threads wait, and for whom.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly THREADS=16 SECTIONS=${LOCK_SECTIONS:-160}
names=(normal recursive errorcheck adaptive inherit inherit_robust inherit_shared robust robust_shared shared timed
	std_mutex std_recursive std_shared writers readers condition semaphore join future once imposter imposter_inline)
if chrt -f 1 true 2>/dev/null; then
	names+=(protect protect_shared)
else
	left_out "threads get no priority here"
fi

# Locks of other languages, if their compilers are installed.
if command -v rustc >/dev/null &&
	env -u MAKEFLAGS rustc -O --crate-type cdylib -o "$WORK/liblocks_rust.so" test/hosts/lib/locks.rs; then
	names+=(rust)
else
	left_out "there is no Rust compiler"
fi
if command -v go >/dev/null &&
	GO111MODULE=off GOTOOLCHAIN=local go build -buildmode=c-shared -o "$WORK/liblocks_go.so" test/hosts/lib/locks.go; then
	names+=(go)
else
	left_out "there is no Go compiler"
fi

mkdir "$WORK/owners"
run_under owners SPANPROF_OUTPUT_DIR="$WORK/owners" SPANPROF_OFF_CPU=true SPANPROF_UPLOAD_INTERVAL=5s \
	SPANPROF_FLUSH_TIMEOUT=20s LOCKS_RUST="$WORK/liblocks_rust.so" LOCKS_GO="$WORK/liblocks_go.so" \
	OTELC_SPANS_JSON="$WORK/owners.spans" "$HOSTS/locks" "$THREADS" "$SECTIONS" "$(IFS=,; echo "${names[*]}")"
expect_rc owners 0
expect_silent owners
python3 test/e2e/lock_owners.py "$WORK/owners" "$WORK/owners.spans" "$WORK/owners.out" "${names[@]}"

# A deadlock is reported once.
mkdir "$WORK/deadlock"
run_under deadlock SPANPROF_OUTPUT_DIR="$WORK/deadlock" SPANPROF_OFF_CPU=true OTELC_SPANS_JSON="$WORK/deadlock.spans" \
	"$HOSTS/locks" deadlock 3
expect_rc deadlock 0
function='(\(anonymous namespace\)::)?block_each_other'
line="deadlock: thread [0-9]+ \(locks\) in (debit|credit) in $function waits for a lock of"
line+=" thread [0-9]+ \(locks\) in (debit|credit) in $function, which waits for one of the first\$"
[[ $(grep -Ec "$line" "$WORK/deadlock.err") == 1 && $(wc -l <"$WORK/deadlock.err") == 1 ]] ||
	fail "one line about the deadlock: $(<"$WORK/deadlock.err")"
for name in debit credit; do
	grep -q " in $name " "$WORK/deadlock.err" || fail "no $name: $(<"$WORK/deadlock.err")"
done
