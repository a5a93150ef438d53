#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Messages of the log and complaints of the tools have one line each, one form and a length that a person reads. The
# variables in them exist. The texts that the doctor searches in them, and that the manual quotes, agree with them.
# Each of these checks notices a fault.
cd "$(dirname "$0")/../.."
# shellcheck source=test/gates/seed.bash
source test/gates/seed.bash

python3 test/gates/messages.py

mkdir "$work/build"
cp build/print-config "$work/build/"
cp -r sampler preload export scripts test "$work/"
cd "$work"

# fault FILE EXPRESSION
fault()
{
	cp "$1" before
	sed -i "$2" "$1"
	! cmp -s "$1" before || { echo "nothing to seed a fault into: $1, $2"; exit 1; }
}

fault sampler/config/config_read.c 's/variables are unknown, too/&./'
fault preload/lifecycle/sdk.c 's/no supported OpenTelemetry SDK/No supported/'
fault preload/exporter/exporter.c 's/no more profiles of this process/& SPANPROF_NO_SUCH/'
fault preload/lifecycle/lifecycle.c 's/waiting for the last push/& of a batch/'
fault export/push/file_sink.c 's/cannot write a profile/& of ours/'
fault export/push/destination.c "s/the process ends/&$(printf ' and ends%.0s' {1..30})/"
fault export/loop/status.c 's/the path is too long; ignored/the path is too long\\n/'
fault export/loop/worker.c 's/an object has no lines/an object  has no lines/'
fault scripts/spanprof-doctor 's/": not profiling this process"/": no profiles of this process"/'
fault scripts/man/spanprof.7 's/^the program took signal/the program has taken signal/'
expect_fail 'full stop: ' python3 test/gates/messages.py
for text in 'lower case: ' 'SPANPROF_NO_SUCH is no variable: ' '"batch" is no word' 'who "we" are: ' \
	'characters, more than 240: ' 'more than a line: ' 'spaces: ' "no message is like that: ': no profiles of this process'" \
	"no message has 'the program has taken signal "; do
	grep -qF "$text" "$work/output" || { echo "not noticed: $text"; cat "$work/output"; exit 1; }
done
