#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails if a file reaches into a layer it may not know: include direction of our own headers, and
# external libraries and loader functions outside the one file they live in. Comments and strings
# do not count.
# Usage: check-layers.sh [ROOT]; default is this repository.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# Which of our headers a folder may include. preload/ and export/ are two programs, which know of each other
# by the region of sampler/ alone.
readonly OWN_HEADERS='
sampler/        ^sampler/
export/         ^(sampler|export)/|\.pb-c\.h$
export/exporter/ ^(sampler|export)/
export/report/  ^(sampler|export)/|\.pb-c\.h$
preload/        ^(sampler|preload)/
'
# What may be included or named in which files only: "include" matches <headers>, "name" words.
readonly ONE_HOME='
include  ^libunwind                          export/unwind_snapshot\.c
include  ^curl/                              export/(http[a-z_]*\.[ch]|(address|libcurl)\.c)
include  ^protobuf-c/                        export/(pprof|push)\.c|export/report/.*
own      \.pb-c\.h$                          export/(pprof|push)[a-z_]*\.[ch]|export/report/.*
include  ^jansson\.h                         export/.*
include  ^(elfutils/|dwarf\.h)               export/(lines|dwarf_index)\.[ch]
include  ^(libelf\.h|gelf\.h)               export/(elf_file|symtab|plt|lines|fde_file)\.[ch]
include  ^lzma\.h                            export/xz\.c
include  ^zlib\.h                            export/.*
include  ^(pthread|threads)\.h               preload/.*|sampler/threads\.c|export/.*
name     dlsym|dlvsym|__libc_dlsym           preload/(resolve\.[ch]|sdk_instances\.c|hook_dl\.c)|export/(debuginfod|keylog|libcurl)\.c
name     dlopen|dlmopen|dladdr|dl_iterate_phdr  preload/.*|export/(demangle|debuginfod|keylog|libcurl)\.c
name     f?exec[lv][a-z]*|posix_spawnp?|popen|system        preload/(hook[a-z_]*\.c|resolve\.h)
name     listen                              preload/(hook[a-z_]*\.c|resolve\.h)|export/exporter/join\.c
'
bad=0

complain()
{
	echo "check-layers: $*"
	bad=1
}

# The file without comments, strings and character constants; include lines stay whole.
code_of()
{
	gcc -fpreprocessed -dD -E -P -w -x c "$1" |
		sed -E '/^[[:space:]]*#[[:space:]]*include/!{ s/"(\\.|[^"\\])*"/""/g; s/'"'(\\\\.|[^'\\\\])*'"'/0/g }'
}

includes_own()
{
	sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]*)".*/\1/p' <<<"$1"
}

includes_system()
{
	sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*<([^>]*)>.*/\1/p' <<<"$1"
}

check_own()
{
	local file=$1 code=$2 folder allowed header

	while read -r folder allowed; do
		[[ $folder == "${file%/*}/" ]] || continue
		while read -r header; do
			[[ -z $header || $header =~ $allowed ]] ||
				complain "$file may not include \"$header\""
		done < <(includes_own "$code")
		return
	done <<<"$OWN_HEADERS"
	complain "$file is in a folder without a rule"
}

check_homes()
{
	local file=$1 code=$2 kind pattern home found

	while read -r kind pattern home; do
		[[ -n $kind ]] || continue
		[[ ! $file =~ ^($home)$ ]] || continue
		case $kind in
		include) found=$(includes_system "$code" | grep -E "$pattern" || true) ;;
		own) found=$(includes_own "$code" | grep -E "$pattern" || true) ;;
		name) found=$(grep -owE "$pattern" <<<"$code" | sort -u || true) ;;
		esac
		[[ -z $found ]] || complain "$file may not use ${found//$'\n'/, }; it lives in $home"
	done <<<"$ONE_HOME"
}

files=0
while read -r file; do
	code=$(code_of "$file")
	check_own "$file" "$code"
	check_homes "$file" "$code"
	files=$((files + 1))
done < <(find sampler export preload -name '*.[ch]' 2>/dev/null | LC_ALL=C sort)
((files > 0)) || complain "no source files below $PWD"
exit "$bad"
