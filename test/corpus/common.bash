# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Common parts of the scripts of this folder: Debian's programs before others of the same name, and the files that
# they work on. Sourced after test/e2e/lib.bash.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export HOME=$WORK GIT_AUTHOR_DATE=@1700000000 GIT_COMMITTER_DATE=@1700000000
export GIT_AUTHOR_NAME=t GIT_COMMITTER_NAME=t EMAIL=t@example.com GIT_CONFIG_NOSYSTEM=1
export GIT_COMMITTER_EMAIL=t@example.com GIT_AUTHOR_EMAIL=t@example.com

readonly DATA=$WORK/data
readonly CORPUS=$ROOT/test/corpus
declare -i failures=0

bad()
{
	echo "FAIL: $*"
	failures+=1
}

# make_data LINES: makes numbers in $DATA/lines, ten bytes each; "big", 12 MB; a repository, "base.git".
make_data()
{
	local i

	mkdir -p "$DATA"
	python3 - "$DATA" "$1" <<-'PYTHON'
		import random
		import sys
		random.seed(1)
		with open(sys.argv[1] + "/lines", "w") as file:
		    for _ in range(int(sys.argv[2])):
		        file.write("%09d\n" % random.randrange(10**9))
		with open(sys.argv[1] + "/big", "wb") as file:
		    file.write(bytes(random.choices(b"abcdefgh \n", k=12_000_000)))
	PYTHON
	git init -q --bare -b main "$DATA/base.git"
	git init -q -b main "$DATA/first"
	for i in {1..40}; do
		seq $((i * 1000)) $((i * 1400)) >"$DATA/first/file$((i % 7))"
		git -C "$DATA/first" add .
		git -C "$DATA/first" commit -q -m "change $i"
	done
	git -C "$DATA/first" push -q "$DATA/base.git" main
	rm -rf "$DATA/first"
	# Servers with another user read here.
	chmod 755 "$WORK"
}

# version PACKAGE: Debian's version; a version from elsewhere is recognisable.
version()
{
	dpkg-query -W -f '${Version}' "$1" 2>/dev/null || echo '?'
}

# between MARKER FILE README: replaces the lines of README between "<!-- MARKER:begin -->" and ":end" by those of
# FILE, unless that would lose rows of programs that did not run here.
between()
{
	local had

	had=$(sed -n "/<!-- $1:begin -->/,/<!-- $1:end -->/p" "$3" | wc -l)
	if (($(wc -l <"$2") < had - 2)); then
		echo "$3 keeps its table, which has more programs than were run here"
		return
	fi
	awk -v marker="$1" -v file="$2" -f "$ROOT/scripts/between.awk" "$3" >"$WORK/readme"
	cat "$WORK/readme" >"$3"
}
