#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails if a file includes a header of a folder that it must not know, uses an external library or a
# loader function outside of the file that may, or if folders, files or nouns include each other in
# a circle. Comments and strings do not count.
# Usage: check-layers.sh [ROOT [TABLE]]; default is this repository, and the table of folders below.
set -euo pipefail
folders=${2:+$(<"$2")}
readonly whole=$((${#} == 0))
cd "${1:-$(dirname "$0")/..}"

# A row is "folder : what its files may include": the folder itself, the named folders, and single
# headers of others. preload/ and export/ are two programs, which share only the region of sampler/.
readonly FOLDERS='
sampler/base         :
sampler/region       : sampler/base
sampler/config       : sampler/base sampler/region
sampler/unwind       : sampler/base sampler/region
sampler/open_spans   : sampler/base
sampler/context      : sampler/base sampler/region sampler/config sampler/open_spans
sampler/thread       : sampler/base sampler/region sampler/unwind sampler/open_spans sampler/context
sampler/span         : sampler/base sampler/region sampler/config sampler/open_spans sampler/context sampler/thread
sampler/sampling     : sampler/base sampler/region sampler/unwind sampler/open_spans sampler/thread sampler/span
sampler              : sampler/base sampler/region sampler/config sampler/unwind sampler/open_spans sampler/context sampler/thread sampler/span sampler/sampling
preload/elf          : sampler/base
preload/exporter     : preload/elf sampler/base sampler/region sampler/config sampler/sampling
preload/lifecycle    : preload/elf preload/exporter sampler sampler/base sampler/region sampler/config sampler/open_spans sampler/context sampler/thread sampler/span sampler/sampling
preload/alloc        : preload/elf preload/lifecycle/allocations.h sampler/base
preload/sdk          : preload/elf preload/lifecycle sampler/base sampler/region sampler/open_spans sampler/thread sampler/span
preload/sdk/otelcpp  : preload/elf preload/lifecycle preload/sdk sampler/base sampler/open_spans sampler/span
preload/sdk/otelc    : preload/elf preload/lifecycle preload/sdk sampler/base sampler/open_spans sampler/span
preload/hooks        : preload/elf preload/lifecycle preload/sdk/otelcpp preload/sdk/otelc sampler/base sampler/config sampler/context sampler/thread sampler/sampling
preload              : preload/lifecycle sampler/base sampler/region sampler/span
export               : sampler/base sampler/region sampler/config
export/util          : export sampler/base
export/objects       : export/util sampler/base sampler/region sampler/unwind/ehframe_sig.h
export/symbols       : export/objects export/util sampler/base sampler/config sampler/unwind/ehframe_sig.h
export/profile       : export export/symbols export/util sampler/base sampler/region
export/push          : export export/profile export/util sampler/base sampler/config
export/off_cpu       : export export/objects export/util sampler/base sampler/region
export/loop          : export export/objects export/off_cpu export/profile export/push export/symbols export/util sampler/config
export/exporter      : export export/objects export/util sampler/base sampler/region sampler/config
export/report        : export/profile export/util sampler/base
'
: "${folders:=$FOLDERS}"

# Headers and words that only some files may use: "include" matches <headers>, "name" words.
readonly ONE_HOME='
include  ^libunwind                          export/objects/unwind_snapshot\.c
include  ^curl/                              export/push/(http|libcurl)\.c
include  ^protobuf-c/                        export/profile/(pprof\.c|otlp\.c|packed\.h)|export/report/.*
own      region_version\.h$                   sampler/region/region\.c|export/exporter/(view|family)\.c|preload/exporter/.*\.c
own      \.pb-c\.h$                          export/profile/(pprof|otlp|cut)\.c|export/report/.*
include  ^jansson\.h                         export/.*
include  ^microhttpd\.h                     export/report/serve\.c
include  ^(elfutils/|dwarf\.h)               export/symbols/(builds|die_names|elf_file|lines|plt)\.[ch]
include  ^(libelf\.h|gelf\.h)               export/symbols/(builds|die_names|elf_file|lines|plt)\.[ch]
include  ^lzma\.h                            export/symbols/builds\.c
include  ^zlib\.h                            export/.*
include  ^(pthread|threads)\.h               preload/.*|export/.*
name     dlsym|dlvsym|__libc_dlsym           preload/(elf/resolve\.[ch]|hooks/hook_main\.c|sdk/otelc/adapter_otelc\.c)|export/(symbols/debuginfod|push/libcurl)\.c
name     dlopen|dlmopen|dladdr|dl_iterate_phdr  preload/.*|export/(symbols/debuginfod|push/libcurl)\.c
name     f?exec[lv][a-z]*|posix_spawnp?|popen|system        preload/(hooks/hook[a-z_]*\.c|elf/(hook[a-z_]*\.c|resolve\.h))
name     listen                              preload/(hooks/hook[a-z_]*\.c|elf/(hook[a-z_]*\.c|resolve\.h))|export/exporter/family\.c
'

# A noun is the topic of a file and its header: names.c, names.h and names_sig.c are one noun. The
# nouns of a folder must not include each other in a circle.
bad=0

complain()
{
	echo "check-layers: $*"
	bad=1
}

# Prints the file without comments, strings and character constants; include lines stay complete.
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

declare -A may_include
edges=
nouns=

# Reads the table. A folder's list begins and ends with a blank.
read_folders()
{
	local folder colon rest

	while read -r folder colon rest; do
		[[ -n $folder ]] || continue
		[[ $colon == : && -z ${may_include[$folder]+x} ]] ||
			complain "no row \"folder : what it may include\", or a second one: $folder"
		may_include[$folder]=" $folder $rest "
		((!whole)) || compgen -G "$folder/*.[ch]" >/dev/null || complain "there is no folder $folder"
	done <<<"$folders"
}

# add_nouns FILE HEADER
add_nouns()
{
	local one=${1%.[ch]} other=${2%.h}

	one=${one%_sig}
	other=${other%_sig}
	if [[ ${1%/*} == "${2%/*}" && $one != "$other" ]]; then
		nouns+="$one $other"$'\n'
	fi
}

check_own()
{
	local file=$1 own=$2 folder=${1%/*} header

	if [[ -z ${may_include[$folder]+x} ]]; then
		complain "$file is in a folder without a rule"
		return
	fi
	while read -r header; do
		# Generated headers belong to no folder; the table above says which files may
		# include them.
		[[ -n $header && $header != *.pb-c.h && $header != region_version.h ]] || continue
		[[ ${may_include[$folder]} == *" ${header%/*} "* || ${may_include[$folder]} == *" $header "* ]] ||
			complain "$file may not include \"$header\""
		edges+="$file $header"$'\n'
		add_nouns "$file" "$header"
	done <<<"$own"
}

check_homes()
{
	local file=$1 code=$2 own=$3 system kind pattern home where found

	system=$(includes_system "$code")
	while read -r kind pattern home; do
		[[ -n $kind ]] || continue
		[[ ! $file =~ ^($home)$ ]] || continue
		case $kind in
		include) where=$system ;;
		own) where=$own ;;
		name) where=$code ;;
		esac
		# Most files have no match, so they start no program.
		[[ $where =~ ${pattern//[\^\$]/} ]] || continue
		case $kind in
		name) found=$(grep -owE "$pattern" <<<"$where" | sort -u || true) ;;
		*) found=$(grep -E "$pattern" <<<"$where" || true) ;;
		esac
		[[ -z $found ]] || complain "$file may not use ${found//$'\n'/, }; it lives in $home"
	done <<<"$ONE_HOME"
}

# Reads edges, lines of two words. Prints the members of one circle, if there is any.
circle_of()
{
	{ LC_ALL=C tsort <<<"$1" 2>&1 >/dev/null || true; } | sed -n '/contains a loop/d; s/^tsort: //p' | paste -sd ' '
}

# If the table has no circle and all files obey it, folders do not include each other in a circle.
check_circles()
{
	local folder other of_folders='' found

	for folder in "${!may_include[@]}"; do
		for other in ${may_include[$folder]}; do
			[[ $other != *.h ]] || other=${other%/*}
			of_folders+="$folder $other"$'\n'
		done
	done
	found=$(circle_of "$of_folders")
	[[ -z $found ]] || complain "folders may include each other in a circle: $found"
	found=$(circle_of "$edges")
	[[ -z $found ]] || complain "files include each other in a circle: $found"
	found=$(circle_of "$nouns")
	[[ -z $found ]] || complain "nouns include each other in a circle: $found"
}

read_folders

files=0
while read -r file; do
	code=$(code_of "$file")
	own=$(includes_own "$code")
	check_own "$file" "$own"
	check_homes "$file" "$code" "$own"
	files=$((files + 1))
done < <(find sampler export preload -name '*.[ch]' 2>/dev/null | LC_ALL=C sort)
check_circles
((files > 0)) || complain "no source files below $PWD"
exit "$bad"
