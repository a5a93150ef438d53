#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every option is read: as a member of struct sp_config through a pointer or struct named config, cfg or c, which is
# the convention, or as a variable by its number, before the struct exists. An option that no code reads would be in
# the help and in the manual, and do nothing. The check notices one.
cd "$(dirname "$0")/../.."
# shellcheck source=test/gates/seed.bash
source test/gates/seed.bash

# unread TABLE FOLDER...: "ID member" for each row of the table that no code in the folders reads
unread()
{
	local table=$1 id member

	shift
	grep -rhE '\b([a-z_]*config(\(\))?|cfg|c)(->|\.)[a-z_0-9]+|SP_VAR_[A-Z_0-9]+' --include='*.[ch]' \
		--exclude='config_table.*' "$@" |
		sed -E 's/\b([a-z_]*config(\(\))?|cfg|c)(->|\.)[a-z_0-9]+ = //g' >"$work/lines"
	while read -r id member; do
		grep -qE "\b([a-z_]*config(\(\))?|cfg|c)(->|\.)$member\b|\bSP_VAR_$id\b" "$work/lines" || echo "$id $member"
	done < <(sed -nE 's/^\tX\(([A-Z_0-9]+), [A-Z_]+, ([a-z_0-9]+),.*/\1 \2/p' "$table")
}

table=sampler/config/config_table.h
options=$(grep -cE '^	X\(' "$table")
((options > 50)) || { echo "only $options options"; exit 1; }
found=$(unread "$table" sampler preload export)
[[ -z $found ]] || { echo "nobody reads: $found"; exit 1; }

# An option that is only set, and an option that is not even set.
sed '0,/^\tX(/s//\tX(IDLE, BOOL, idle, .fallback = "false") \\\n\tX(/' "$table" >"$work/table.h"
mkdir "$work/sources"
echo 'void set(struct sp_config *config) { config->idle = true; }' >"$work/sources/idle.c"
found=$(unread "$work/table.h" sampler preload export "$work/sources")
[[ $found == 'IDLE idle' ]] || { echo "unnoticed: an option that nobody reads ($found)"; exit 1; }
echo 'bool get(const struct sp_config *config) { return config->idle; }' >>"$work/sources/idle.c"
found=$(unread "$work/table.h" sampler preload export "$work/sources")
[[ -z $found ]] || { echo "taken for unread: $found"; exit 1; }
