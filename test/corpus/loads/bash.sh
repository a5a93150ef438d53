# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Some seconds of bash's own work: arithmetic, words, patterns, arrays, subshells, traps.
RANDOM=$1
declare -A count=()
told=0

tell()
{
	told=$(((told * 31 + $1) % 1000003))
}

deep()
{
	if (($1 > 0)); then
		deep $(($1 - 1))
	else
		tell 7
	fi
}

trap 'tell 1' USR1
for ((round = 0; round < 40; round++)); do
	for ((i = 0; i < 1200; i++)); do
		word=$((RANDOM % 997))x$((i % 13))
		count[$word]=$((${count[$word]:-0} + 1))
		[[ $word =~ ^([0-9]+)x([0-9]+)$ ]] && tell "${BASH_REMATCH[1]}"
		case $word in
		*1?x*) tell 2 ;;
		[3-5]*x[0-9]) tell 3 ;;
		esac
		long=${word//x/-}${word%%x*}${word^^}
		printf -v line '%-10s|%05d|%q' "$word" "$i" "$long"
		tell ${#line}
	done
	deep 20
	mapfile -t lines < <(for key in "${!count[@]}"; do echo "$key"; done)
	tell ${#lines[@]}
	read -r -a parts <<<"${lines[*]:0:200}"
	tell ${#parts[@]}
	tell "$(
		total=0
		for part in "${parts[@]}"; do
			total=$((total + ${part%x*}))
		done
		echo $total
	)"
	kill -USR1 $BASHPID
	eval "tell $((round * 3))"
	local_copy=("${parts[@]/#/p}")
	tell ${#local_copy[*]}
done
echo "$told"
