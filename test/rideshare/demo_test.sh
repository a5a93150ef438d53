#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo under difficulties: the load goes on until there are enough orders, but not for ever; if the server dies, the
# demo says so and draws the existing data; and it fails if the report writes no page of slow orders, or no sentences.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly PROGRAMS=$TEST_LIBS/rideshare

# load [OPTION]...: the number of orders that the load generator sent
load()
{
	"$PROGRAMS/loadgen" --url "http://127.0.0.1:$(<"$WORK/port")" "$@" 2>"$WORK/load.err" ||
		fail "$(<"$WORK/load.err")"
	sed -n '$s/^loadgen: \([0-9]*\) orders in .*, 0 failed$/\1/p' "$WORK/load.err"
}

"$PROGRAMS/server" --port-file "$WORK/port" >"$WORK/server.out" &
server=$!
STARTED+=("$server")
poll_until 60 test -s "$WORK/port" || fail "the server does not listen"
(($(load --seconds 1 --rate 20 --at-least 30 --at-most 200) == 30)) || fail "$(<"$WORK/load.err")"
sent=$(load --seconds 1 --rate 20 --at-least 1000 --at-most 2)
((sent > 0 && sent < 60)) || fail "$(<"$WORK/load.err")"
kill -TERM "$server"
wait "$server" || fail "the server ended with status $?"
grep -q '^{"process_cpu_ns":[0-9]' "$WORK/server.out" || fail "the server's end was not clean"

has_profile()
{
	[[ -n $(find "$WORK/demo/profiles" -name '*.pb.gz' 2>/dev/null) ]]
}

SPANPROF_DEMO_OUT=$WORK/demo SPANPROF_DEMO_SECONDS=3600 SPANPROF_UPLOAD_INTERVAL=1s \
	test/rideshare/demo.sh >"$WORK/demo.out" 2>"$WORK/demo.err" &
demo=$!
STARTED+=("$demo")
poll_until 60 has_profile || fail "no profile after 60 s: $(<"$WORK/demo.err")"
pkill -KILL -P "$demo" -x server
rc=0
wait "$demo" || rc=$?
((rc == 1)) || fail "the demo ended with status $rc: $(<"$WORK/demo.err")"
for line in '^demo: FAIL' '^the server ended before it was told to, with status 137$' \
	'^  why:  signal 9$' '^loadgen: http://.*/[a-z]*?region=[a-z-]*: [A-Z]'; do
	grep -q "$line" "$WORK/demo.err" || fail "no line $line: $(<"$WORK/demo.err")"
done
grep -q 'flamegraph.html$' "$WORK/demo.out" || fail "no flame graph: $(<"$WORK/demo.out")"
[[ -s $WORK/demo/flamegraph.html ]] || fail "the flame graph is not there"
grep -q '"requests":\[' "$WORK/demo/slow.html" || fail "no page of slow orders"
(($(grep -cE '^  [123]\. [0-9.]+ (ms|s), ' "$WORK/demo.out") == 3)) || fail "not three sentences: $(<"$WORK/demo.out")"
# README shows how a demo ends.
last=$(sed -n '/<!-- demo:begin -->/,/<!-- demo:end -->/p' test/rideshare/README.md | grep -B 1 '^```$' | head -n 1)
grep -qxF -- "${last/build\/demo/$WORK/demo}" "$WORK/demo.out" ||
	fail "README says that it ends with $last (scripts/update-readme.sh --demo): $(tail -n 1 "$WORK/demo.out")"

# A build whose report leaves out a part: its page, or the sentences.
mkdir "$WORK/build"
ln -s "$TEST_BUILD"/* "$WORK/build"
rm "$WORK/build/spanprof-report"
cat >"$WORK/build/spanprof-report" <<-END
	#!/bin/bash
	case " \$* " in
	*' --page '*' $WORK/page/'*) "$TEST_BUILD/spanprof-report" "\$@"; : >"$WORK/page/slow.html" ;;
	*' --page '*) "$TEST_BUILD/spanprof-report" "\$@" | head -n 1 ;;
	*) exec "$TEST_BUILD/spanprof-report" "\$@" ;;
	esac
END
chmod 755 "$WORK/build/spanprof-report"

# lacks WHAT LINE: a demo whose report leaves that out fails and says so.
lacks()
{
	rc=0
	SPANPROF_DEMO_BUILD=$WORK/build SPANPROF_DEMO_OUT=$WORK/$1 SPANPROF_DEMO_SECONDS=2 \
		SPANPROF_UPLOAD_INTERVAL=1s test/rideshare/demo.sh >"$WORK/lacks.out" 2>"$WORK/lacks.err" || rc=$?
	((rc == 1)) || fail "without $1 the demo ended with status $rc"
	grep -q -- "$2" "$WORK/lacks.out" "$WORK/lacks.err" || fail "no line \"$2\": $(<"$WORK/lacks.err")"
}

lacks page '^no page of slow orders$'
lacks sentences 'FAIL there are 3 sentences, .*(0, 0 without)'
