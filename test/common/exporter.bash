# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Finds the exporter of a profiled process: another process that has mapped the same region, and does not
# have our object, as a forked child would.

# exporter_of PID: its process id; nothing and false if there is none.
exporter_of()
{
	local region maps

	region=$(awk '$6 ~ /^\/memfd:spanprof/ { print $4, $5; exit }' "/proc/$1/maps" 2>/dev/null)
	[[ -n $region ]] || return 1
	for maps in /proc/[0-9]*/maps; do
		if [[ $maps != "/proc/$1/maps" ]] && grep -q " $region .*/memfd:spanprof" "$maps" 2>/dev/null &&
			! grep -q ' r-xp .*/libspanprof\.so$' "$maps" 2>/dev/null; then
			maps=${maps#/proc/}
			echo "${maps%/maps}"
			return 0
		fi
	done
	return 1
}

# Instead of an object that a process is to have mapped: an exporter that it is to have.
# shellcheck disable=SC2034
readonly ACTIVE=spanprof-exporter

# has_mapped PID PART: an object of that name, or $ACTIVE.
has_mapped()
{
	if [[ $2 == "$ACTIVE" ]]; then
		exporter_of "$1" >/dev/null
	else
		grep -q "$2" "/proc/$1/maps" 2>/dev/null
	fi
}
