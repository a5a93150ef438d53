#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a host pushes can be read back from a real Pyroscope:
#
#	make e2e PYROSCOPE_URL=http://localhost:4040
#
# PYROSCOPE_TENANT=name besides for a server with tenants. read_back.sh asks the strict double the
# same, so that this cannot rot unseen.

# The library forgets variables that begin like ours.
url=${PYROSCOPE_URL:-} TENANT=${PYROSCOPE_TENANT:-}
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/e2e/read_back.bash
source test/e2e/read_back.bash

[[ -n $url ]] || skip "PYROSCOPE_URL is not set"
DOUBLE_URL=${url%/}
curl -sS --max-time 10 -o /dev/null "$DOUBLE_URL/ready" || fail "nothing answers at $DOUBLE_URL"
read_back sent
