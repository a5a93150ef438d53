# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Finds the exporter of a profiled process: another process that has mapped the same region, but not our object, which
# a forked child would have.

# exporter_of PID: prints its process id; prints nothing and fails if there is none.
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

# In place of the name of an object that must be mapped: the process must have an exporter.
# shellcheck disable=SC2034
readonly ACTIVE=spanprof-exporter

# has_mapped PID PART: an object with that name, or an exporter for $ACTIVE.
has_mapped()
{
	if [[ $2 == "$ACTIVE" ]]; then
		exporter_of "$1" >/dev/null
	else
		grep -q "$2" "/proc/$1/maps" 2>/dev/null
	fi
}
