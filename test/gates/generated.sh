#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every test program that is compiled with a generated header has the header as a prerequisite. Otherwise make may run
# the compiler while the header is being written, and the build fails now and then.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

# without_header MAKEFILE_DUMP: prints a line for every object that is compiled with -I of a folder with generated
# headers, but has none of them as a prerequisite. The dump has the commands as they would run, and the rules.
without_header()
{
	awk -v build="$work/build" '
		/ -c -o / {
			folders = ""
			for (i = 1; i <= NF; i++) {
				if (index($i, "-I" build "/test/") == 1)
					folders = folders " " substr($i, 3)
				if ($i == "-o")
					object = $(i + 1)
			}
			if (folders != "")
				needs[object] = folders
		}
		$1 ~ /:$/ && index($1, build "/") == 1 { rule[substr($1, 1, length($1) - 1)] = $0 " " }
		END {
			for (object in needs) {
				seen++
				n = split(needs[object], folder, " ")
				for (i = 1; i <= n; i++)
					if (!match(rule[object], " " folder[i] "/(first|opentelemetry)"))
						print object " does not wait for " folder[i]
			}
			if (seen < 20)
				print "only " seen + 0 " objects are compiled with generated headers"
		}' "$1"
}

# -k, because commands that make runs to know the rest fail when nothing is built.
env -u MAKEFLAGS -u MAKELEVEL make -kpn DEV=1 B="$work/build" test-programs >"$work/dump" 2>/dev/null || true
missing=$(without_header "$work/dump")
[[ -z $missing ]] || { echo "$missing"; exit 1; }

# A missing prerequisite is noticed.
object=$work/build/test/conformance/v2_24/driver.o
for folder in api/v2_24/opentelemetry first.h.gch; do
	sed "s,^\($object:.*\) $work/build/test/otelcpp/$folder/[^ ]*,\1," "$work/dump" >"$work/faulty"
	told=$work/build/test/otelcpp/$folder
	[[ $(without_header "$work/faulty") == "$object does not wait for ${told%/*}" ]] ||
		{ echo 'a prerequisite that is missing is not seen'; exit 1; }
done
