#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The man pages are well-formed and agree with the programs: every variable that the code prints is in spanprof(7),
# and every option of --help is in the program's page and in its completion.
set -euo pipefail
cd "$(dirname "$0")/../.."

make -s --no-print-directory SPANPROF_SKIP_DEPS=1 man
for page in build/man/*.[1-8]; do
	said=$(LC_ALL=C.UTF-8 groff -man -ww -z -Tutf8 "$page" 2>&1)
	[[ -z $said ]] || { echo "$page: $said"; exit 1; }
done

# missing FILE WORD...: the words that the page does not have
missing()
{
	local page word

	page=$(sed 's/\\-/-/g' "$1")
	shift
	for word; do
		grep -q -- "$word\b" <<<"$page" || echo "$word"
	done
}

# Exactly the options that --help lists.
options_of()
{
	"$@" --help | grep -oE '^ +--[a-z-]+(, --[a-z-]+)*' | grep -oE -- '--[a-z-]+'
}

expect_none()
{
	[[ -z $2 ]] || { echo "$1: $2"; exit 1; }
}

mapfile -t variables < <(build/print-config | grep -oE '^\| `[A-Z_]+' | grep -oE '[A-Z_]+$')
((${#variables[@]} > 30)) || { echo "only ${#variables[@]} variables"; exit 1; }
expect_none spanprof.7 "$(missing build/man/spanprof.7 "${variables[@]}")"
[[ $(missing build/man/spanprof.7 "${variables[@]}" SPANPROF_NO_SUCH) == SPANPROF_NO_SUCH ]]
for name in run report; do
	mapfile -t options < <(options_of "build/spanprof-$name")
	((${#options[@]} > 5)) || { echo "only ${#options[@]} options of spanprof-$name"; exit 1; }
	expect_none "spanprof-$name.1" "$(missing "build/man/spanprof-$name.1" "${options[@]}")"
	expect_none "completion of spanprof-$name" "$(missing scripts/completion/spanprof "${options[@]}")"
done
mapfile -t options < <(options_of build/spanprof-preload)
((${#options[@]} == 5)) || { echo "only ${#options[@]} options of spanprof-preload"; exit 1; }
expect_none spanprof-preload.8 "$(missing build/man/spanprof-preload.8 "${options[@]}")"
expect_none "completion of spanprof-preload" "$(missing scripts/completion/spanprof "${options[@]}")"

# The front page names no option that the tools lack.
# unknown FILE: its options that no tool has
unknown()
{
	comm -23 <(grep -oE '`--[a-z-]+' "$1" | tr -d '`' | sort -u) \
		<(for tool in build/spanprof-{run,entrypoint,preload,report} scripts/spanprof-doctor; do "$tool" --help; done |
			grep -oE -- '--[a-z-]+' | sort -u)
}
expect_none README.md "$(unknown README.md)"
[[ $(unknown <(echo "\`--span-name\` and \`--span-id\`")) == --span-id ]]

# Every tool has both, prints the one version, and its page and --help list its exit statuses.
version=$(sed -n 's/.*SP_VERSION "\(.*\)"/\1/p' sampler/base/compiler.h)
for tool in build/spanprof-{run,entrypoint,preload,report} scripts/spanprof-doctor; do
	name=${tool##*/}
	[[ $("$tool" --version) == "$name $version" ]] || { echo "$name --version: $("$tool" --version)"; exit 1; }
	[[ $("$tool" --help) == [Uu]sage:\ "$name"* ]] || { echo "$name --help"; exit 1; }
	page=$(echo build/man/"$name".[1-8])
	expect_none "$page" "$(missing "$page" --version --help 'SH EXIT STATUS')"
	if "$tool" --no-such-option >/dev/null 2>&1; then
		echo "$name --no-such-option does not fail"
		exit 1
	fi
done
