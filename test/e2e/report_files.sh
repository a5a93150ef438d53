#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spanprof-report and files that anybody may have left in its folder: small ones that would become gigabytes, FIFOs
# and devices. One line reports each, with status 2, and all valid files are read.
# Takes its time: it writes and reads many files, and compares CPU times.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 gzip mkfifo
readonly FILES=$ROOT/test/e2e/report_files.py
readonly REPORT=$ROOT/build/spanprof-report
# The limits that README.md promises: for one file, and for the sums of all files.
readonly FILE_MIB=800 SUMS_MIB=2000

# report_on NAME STATUS MIB ARGUMENT...: the tool's exit status, with at most that much memory.
report_on()
{
	local name=$1 status=$2 mib=$3

	shift 3
	run "$name" python3 "$FILES" peak "$mib" "$REPORT" "$@"
	expect_rc "$name" "$status"
}

# refused NAME TEXT: one line names the file and the reason.
refused()
{
	[[ $(grep -vc '^peak: ' "$WORK/$1.err") == 1 ]] || fail "$1: not one line: $(<"$WORK/$1.err")"
	grep -q "^spanprof-report: .*$1.*$2" "$WORK/$1.err" || fail "$1: $(<"$WORK/$1.err")"
}

# bomb NAME TEXT MIB [OPTION...]: the file is refused
bomb()
{
	local name=$1 text=$2 mib=$3 file=$WORK/$1.pb.gz

	shift 3
	python3 "$FILES" bomb "$name" "$file"
	(($(stat -c %s "$file") < 3000000)) || fail "$name is no small file"
	report_on "$name" 2 "$mib" "$@" "$file"
	refused "$name" "$text"
	rm "$file"
}
bomb empty_messages 'too much memory' "$FILE_MIB"
bomb one_wide_message 'too much memory' "$FILE_MIB"
bomb unknown_fields 'too much memory' "$FILE_MIB"
bomb packed_numbers 'too much memory' "$FILE_MIB"
bomb too_much 'too large unpacked' "$FILE_MIB"
bomb many_stacks 'too much memory' "$SUMS_MIB" --folded

# A file that is large for a good reason: it is read, and the output is no larger than the input.
python3 "$FILES" bomb long_file_names "$WORK/names.pb.gz"
report_on names 0 "$FILE_MIB" "$WORK/names.pb.gz"
python3 "$FILES" bomb many_small_spans "$WORK/spans.pb.gz"
report_on spans 0 200 --json "$WORK/spans.pb.gz"
expect "$WORK/spans.out" 'len(d["spans"]) == 300000'
rm "$WORK/spans.out"

# Valid files: one larger than servers take, one with several gzip members (but not several profiles), thousands in a
# folder.
python3 "$FILES" honest 5000000 "$WORK/large.pb.gz"
(($(stat -c %s "$WORK/large.pb.gz") > 2 << 20)) || fail "not as large as it should be"
for form in --json --folded; do
	report_on large 0 "$FILE_MIB" "$form" "$WORK/large.pb.gz"
done
python3 "$FILES" honest 30000 "$WORK/small.pb.gz"
mkdir "$WORK/members" "$WORK/thousands"
gunzip -c "$WORK/small.pb.gz" | split -b 5000 --filter='gzip -c' - >"$WORK/members/all.pb.gz"
report_on whole 0 "$FILE_MIB" --json "$WORK/small.pb.gz"
report_on members 0 "$FILE_MIB" --json "$WORK/members"
expect_same whole members out
python3 -c 'import os, sys; [os.symlink(sys.argv[1], f"{sys.argv[2]}/{n}.pb.gz") for n in range(3000)]' "$WORK/small.pb.gz" \
	"$WORK/thousands"
report_on thousands 0 "$FILE_MIB" --json "$WORK/thousands"
expect "$WORK/thousands.out" 'd["profiles"] == 3000'
cat "$WORK/small.pb.gz" "$WORK/small.pb.gz" >"$WORK/twice.pb.gz"
report_on twice 2 "$FILE_MIB" "$WORK/twice.pb.gz"
refused twice 'same id'
{ cat "$WORK/small.pb.gz" && echo garbage; } >"$WORK/trailing.pb.gz"
report_on trailing 2 "$FILE_MIB" "$WORK/trailing.pb.gz"
refused trailing 'something else follows'

# The files of a busy process in an hour: hundreds of thousands of stacks that differ in their leaves.
python3 "$FILES" hour "$WORK/hour"
for form in --json "--flamegraph $WORK/hour.html"; do
	# shellcheck disable=SC2086
	report_on hour 0 512 $form "$WORK/hour"
done
rm -r "$WORK/hour" "$WORK/hour.html" "$WORK/hour.out"

# A name is processed once for each place in the code, and not for each of its samples: names that are forty times as
# long take about the same time. The least time for long names is compared with a multiple of the least time for short
# names, so that other load on the machine does not matter.
for size in 100 4000; do
	python3 "$FILES" many "$size" "$WORK/many.$size.pb.gz"
done
for form in --threads "--flamegraph $WORK/many.html"; do
	# shellcheck disable=SC2086
	short=$(python3 "$FILES" cpu "$REPORT" $form "$WORK/many.100.pb.gz")
	# shellcheck disable=SC2086
	long=$(python3 "$FILES" cpu "$REPORT" $form "$WORK/many.4000.pb.gz")
	((long < 4 * short + 20)) ||
		fail "$form: short names take $short ms, long ones $long ms"
done

# At a terminal no row is wider than the terminal, and functions have their last parts; otherwise names are whole.
for width in 80 130; do
	python3 "$FILES" terminal "$width" "$REPORT" --threads "$WORK/many.4000.pb.gz" >"$WORK/terminal"
	# The head is a sentence, which may take several lines.
	(($(sed 1,2d "$WORK/terminal" | wc -L) <= width)) || fail "wider than $width: $(<"$WORK/terminal")"
	grep -q '%  name_of_a_function::name_of_a_funct$' "$WORK/terminal" || fail "no function: $(<"$WORK/terminal")"
done
report_on plain 0 "$FILE_MIB" "$WORK/many.4000.pb.gz"
(($(wc -L <"$WORK/plain.out") > 4000)) || fail "names in a file are cut"

# Paths that are no regular files. "run" stops a command that waits.
mkdir "$WORK/odd"
readonly fifo=$WORK/odd/fifo.pb.gz
mkfifo "$fifo"
report_on fifo 2 "$FILE_MIB" "$WORK/odd"
refused fifo 'not a regular file'
report_on fifo 2 "$FILE_MIB" --status "$fifo"
refused fifo 'not a regular file'
rm "$fifo"
ln -s /dev/zero "$WORK/odd/device.pb.gz"
report_on device 2 "$FILE_MIB" "$WORK/odd"
refused device 'not a regular file'
rm "$WORK/odd/device.pb.gz"
mkdir "$WORK/odd/folder.pb.gz"
report_on folder 2 "$FILE_MIB" "$WORK/odd"
refused folder 'not a regular file'
