#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that becomes another one: its samples are sent before, and the new one gets what it was
# to get, whichever function of the family it was and whether or not it worked.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export REPLACED=inherited

for how in execve execv execvp execvpe execl execlp execle fexecve execveat missing vfork; do
	mkdir "$WORK/$how.profiles"
	run "$how" "$HOSTS/replaced" "$how"
	run_under "$how.under" SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/$how.profiles" \
		"$HOSTS/replaced" "$how"
	expect_rc "$how.under" 0
	expect_same "$how" "$how.under" out err
	[[ -s $WORK/$how.out ]] || fail "$how: the host says nothing"
	report "$WORK/$how.profiles" "$WORK/$how.json"
	expect "$WORK/$how.json" "sum(f['total_ns'] for f in d['functions'] \
		if f['function'].startswith('host_burn_ms')) >= 1e8"
done
expect "$WORK/missing.json" "sum(f['total_ns'] for f in d['functions'] if f['function'] == 'work_on') >= 1e8"

# Nothing to send, nothing to wait for: the server that is not there costs nothing.
run_under quick SPANPROF_PROFILE=on-span SPANPROF_SERVER_ADDRESS=http://192.0.2.1:4040 \
	"$HOSTS/replaced" execv
(($(result quick.ms) < 3000)) || fail "exec waited $(result quick.ms) ms"
