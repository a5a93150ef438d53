#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails if the preloaded object's thread-local storage is larger than promised (it comes out of
# every thread's stack) or is reached through __tls_get_addr, which may allocate and is therefore
# forbidden in a signal handler.
# Usage: check-tls.sh [OBJECT BYTES]; default build/libspanprof.so and 256.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly OBJECT=${1:-build/libspanprof.so}
readonly LIMIT=${2:-256}

[[ -e $OBJECT ]] || { echo "check-tls: no $OBJECT; run make" >&2; exit 1; }

bad=0
size=$(($(readelf -lW "$OBJECT" | awk '$1 == "TLS" { print $6 }')))
if ((size > LIMIT)); then
	echo "check-tls: $OBJECT uses $size bytes of TLS, more than $LIMIT:"
	readelf -sW "$OBJECT" | awk '$4 == "TLS" { print "  " $3 " " $8 }' | sort -rn | uniq
	bad=1
fi
if nm -D --undefined-only "$OBJECT" | grep -E '__tls_get_addr|_tlsdesc|__tls_get_offset'; then
	echo "check-tls: $OBJECT reaches TLS through a call; build it with -ftls-model=initial-exec"
	bad=1
fi
exit "$bad"
