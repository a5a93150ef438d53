#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# The way of a Kubernetes pod: an init container of another user with a read-only root copies us into
# an empty volume; the application's container has that volume read-only, preloads from it and pushes
# to a strict server.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/install/root.bash
source test/install/root.bash

need busybox curl python3
need_containers
readonly INIT_USER=13020 APP_USER=65532
readonly CARRIER=$WORK/carrier APP=$WORK/app VOLUME=$WORK/volume
root_make "$APP"
mkdir -p "$CARRIER"/{proc,dev,spanprof} "$CARRIER/opt" "$APP/spanprof"
mv "$APP$PRODUCT" "$CARRIER$PRODUCT"
root_add "$CARRIER" "$(type -P busybox)" /bin/busybox
chmod -R a+rX "$CARRIER" "$APP"
# An emptyDir belongs to root and is open to all.
mkdir -m 777 "$VOLUME"
chmod 777 "$VOLUME"

inside init "$INIT_USER" "$CARRIER" --bind "$VOLUME" /spanprof -- \
	/bin/busybox cp -r "$PRODUCT/." /spanprof/
expect_rc init 0
[[ ! -s $WORK/init.err ]] || fail "init: $(<"$WORK/init.err")"
if ((EUID == 0)); then
	[[ $(stat -c %u "$VOLUME/lib/spanprof/libspanprof.so") == "$INIT_USER" ]] ||
		fail "not copied by the user of the init container"
fi
inside again "$INIT_USER" "$CARRIER" --bind "$VOLUME" /spanprof -- \
	/bin/busybox cp -r "$PRODUCT/." /spanprof/
expect_rc again 0

double_start
readonly SETTINGS=(--setenv PYROSCOPE_SERVER_ADDRESS "$DOUBLE_URL" --setenv SPANPROF_LABELS pod=shop-1)
inside variable "$APP_USER" "$APP" --ro-bind "$VOLUME" /spanprof "${SETTINGS[@]}" \
	--setenv OTEL_SERVICE_NAME shop --setenv LD_PRELOAD /spanprof/lib/spanprof/libspanprof.so -- \
	/app/test/spend 200 checkout
expect_rc variable 7
expect_silent variable
inside runner "$APP_USER" "$APP" --ro-bind "$VOLUME" /spanprof "${SETTINGS[@]}" -- \
	/spanprof/bin/spanprof-run --service counter /app/test/spend 200 pay
expect_rc runner 7
expect_silent runner

expect_clean_double
double_get /double/spans "$WORK/spans.json"
expect "$WORK/spans.json" '{"shop", "counter"} <= set(d["services"])'
# By name: the stand-in SDK makes its ids of the process id, which is 1 in both.
expect "$WORK/spans.json" 'set(d["span_names"]) == {"checkout", "pay"}'
expect "$WORK/spans.json" 'min(s["ns"] for s in d["span_names"].values()) >= 100e6'
