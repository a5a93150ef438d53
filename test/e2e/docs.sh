#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every command of the front page, of the pages to which users are sent and of the man pages works, as far as it needs
# neither network nor root. docs.py finds these commands. The test runs them as they are printed, but with other
# paths: the objects of the build, the server of the test, and for ./your-server a host that records spans. "make"
# only prints its actions, and "sudo" runs its command as the present user.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 make
readonly BIN=$WORK/bin PLACE=$WORK/place PROFILES=$WORK/profiles
mkdir "$BIN" "$PLACE"
ln -s "$HOSTS/spend" "$PLACE/your-server"
ln -s "$ROOT/scripts" "$PLACE/scripts"
for program in "$ROOT"/scripts/spanprof-* "$TEST_BUILD"/spanprof-*; do
	ln -sf "$program" "$BIN/"
done
printf '#!/bin/sh\nexec "$@"\n' >"$BIN/sudo"
printf '#!/bin/sh\necho "apt-get is not for tests" >&2; exit 1\n' >"$BIN/apt-get"
printf '#!/bin/sh\nunset MAKEFLAGS MAKELEVEL MFLAGS LD_PRELOAD\nexec %s -n -C %s SPANPROF_SKIP_DEPS=1 "$@"\n' \
	"$(type -P make)" "$ROOT" >"$BIN/make"
chmod +x "$BIN"/{sudo,apt-get,make}

# shellcheck disable=SC2119
double_start
# The profiles that the pages mention: two spans of one name, and one of their ids.
for id in 1 2; do
	run_under "profiles.$id" SPANPROF_OUTPUT_DIR="$PROFILES" "$HOSTS/spend" 200 'OrderVehicle /car'
	expect_rc "profiles.$id" 7
done
report "$PROFILES" "$WORK/profiles.json"
span_id=$(sed -n 's/.*"span_id": *"\([0-9a-f]*\)".*/\1/p' "$WORK/profiles.json" | head -n 1)
[[ -n $span_id ]] || fail "no span in the profiles"

# placed COMMANDS: the commands with the paths of this test
placed()
{
	sed -e "s|/usr/local/lib/spanprof/libspanprof.so|$SO|g; s|http://pyroscope:4040|$DOUBLE_URL|g" \
		-e "s#/var/lib/\(profiles\|before\|after\)#$PROFILES#g; s|9a517183f26a089d|$span_id|g" <<<"$1" |
		sed -E 's/^(.*your-server.*)$/{ \1; } || [ $? = 7 ]/'
}

# attempt NAME COMMANDS: runs them as a reader would, in a separate shell.
attempt()
{
	local name=$1 commands

	commands=$(placed "$2")
	# If the lines only set variables, they are for the next server that is started.
	if ! grep -qv '^export ' <<<"$commands"; then
		commands+=$'\n{ ./your-server; } || [ $? = 7 ]'
	fi
	run "$name" PATH="$BIN:$PATH" HOME="$WORK" OTEL_SERVICE_NAME=checkout PYROSCOPE_SERVER_ADDRESS="$DOUBLE_URL" \
		bash -euc "cd '$PLACE'; $commands"
	[[ $(result "$name.rc") == 0 ]] || return 1
	# A server that is profiled as the page says prints no message of ours.
	[[ $commands != *your-server* ]] || ! grep '^spanprof' "$WORK/$name.err"
}

tried=0
while read -r place commands; do
	tried=$((tried + 1))
	attempt "command.$tried" "${commands//$'\t'/$'\n'}" || {
		cat "$WORK/command.$tried".{out,err} >&2
		fail "$place: ${commands//$'\t'/; }"
	}
done < <(python3 test/e2e/docs.py README.md scripts/deploy/README.md CONTRIBUTING.md scripts/man/*.[1-8])
((tried >= 10)) || fail "only $tried blocks of commands"
[[ -s $PLACE/slow.html ]] || fail "the page's flame graph was not written"
# The doctor's push has no samples.
double_get /double/stats "$WORK/stats.json"
expect "$WORK/stats.json" 'd["accepted"]["profiles"] >= 4 and d["rejected"] == {}'

# A command that does not work is found in each kind of page.
printf '%s\n' '```sh' 'spanprof-report --no-such /var/lib/profiles' '```' >"$WORK/block.md"
printf '%s\n' 'Run `spanprof-run --no-such ./your-server`.' >"$WORK/inline.md"
printf '%s\n' '.SH EXAMPLES' '.nf' 'spanprof\-report \-\-no\-such /var/lib/profiles' '.fi' >"$WORK/page.1"
printf '%s\n' '```sh' 'SPANPROF_NO_SUCH=1 LD_PRELOAD=/usr/local/lib/spanprof/libspanprof.so ./your-server' '```' \
	>"$WORK/variable.md"
printf '%s\n' '```sh' 'make no-such-target' '```' >"$WORK/target.md"
for page in block.md inline.md page.1 variable.md target.md; do
	read -r place commands < <(python3 test/e2e/docs.py "$WORK/$page") || fail "$page: no command was found"
	if attempt "seeded.$page" "$commands" 2>/dev/null >&2; then
		fail "a command that does not work went unnoticed: $place $commands"
	fi
done
echo "$tried blocks of commands"
