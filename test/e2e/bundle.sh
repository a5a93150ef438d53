#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In a Kubernetes pod the volume alone suffices. The image of an application, without libcurl and our other libraries,
# is profiled with the files that the init container of scripts/deploy copied, by the settings of its manifest. The
# exporter runs on the loader and the C library of the volume, so that the image may have older ones. If the program
# itself has these libraries, it gets its own and no others.
# shellcheck disable=SC2119
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/install/root.bash
source test/install/root.bash

need busybox curl python3 gcc
python3 -c 'import yaml' 2>/dev/null || skip "python3-yaml is not installed"
[[ -e build/carrier.done ]] || skip "no build/carrier (make carrier)"
need_containers
readonly APP=$WORK/app CARRIER=$WORK/carrier VOLUME=$WORK/volume APP_USER=65532
readonly BUNDLE=lib/spanprof/bundle

manifest()
{
	python3 test/install/manifests.py "$@"
}

root_make "$APP"
mkdir -p "$CARRIER"/{proc,dev,spanprof,opt} "$APP/spanprof" "$APP/usr/lib"
rm -r "${APP:?}$PRODUCT"
# Removes the files that came with the exporter; the others are the program's own.
rm -rf "${APP:?}"/{lib,lib64,usr}
for file in "$HOSTS/spend:/app/test/spend" "$TEST_LIBS/libfixture-otelc.so:/usr/lib/libfixture-otelc.so"; do
	root_add "$APP" "${file%%:*}" "${file#*:}"
done
[[ -z $(find "$APP" -name 'libcurl*' -o -name 'libssl*' -o -name 'libelf*') ]] || fail "not a bare root"
cp -r build/carrier "$CARRIER$PRODUCT"
root_add "$CARRIER" "$(type -P busybox)" /bin/busybox
chmod -R a+rX "$CARRIER" "$APP"
mkdir -m 777 "$VOLUME"
chmod 777 "$VOLUME"

mapfile -t command < <(manifest init-command)
inside init "$(manifest init-user)" "$CARRIER" --bind "$VOLUME" /spanprof -- "${command[@]}"
expect_rc init 0
[[ ! -s $WORK/init.err ]] || fail "init: $(<"$WORK/init.err")"
((EUID != 0)) || [[ $(stat -c %u "$VOLUME/lib/spanprof/libspanprof.so") == "$(manifest init-user)" ]] ||
	fail "not copied by the user of the init container"
# A container that is restarted copies the files again.
inside again "$(manifest init-user)" "$CARRIER" --bind "$VOLUME" /spanprof -- "${command[@]}"
expect_rc again 0
[[ -x $VOLUME/lib/spanprof/spanprof-exporter ]] || fail "the copy of the exporter is not executable"
mebibytes=$(du -sm "$VOLUME" | cut -f 1)
((mebibytes <= 48)) || fail "$mebibytes MiB in a volume of 64"

double_start
preload=$(manifest env LD_PRELOAD)
inside bare "$APP_USER" "$APP" --ro-bind "$VOLUME" /spanprof --setenv LD_LIBRARY_PATH /usr/lib \
	--setenv LD_PRELOAD "$preload" --setenv OTEL_SERVICE_NAME bare \
	--setenv PYROSCOPE_SERVER_ADDRESS "$DOUBLE_URL" -- /app/test/spend 200 checkout
expect_rc bare 7
[[ ! -s $WORK/bare.err ]] || fail "bare: $(<"$WORK/bare.err")"
expect_clean_double
double_get /double/spans "$WORK/spans.json"
expect "$WORK/spans.json" 'set(d["span_names"]) == {"checkout"} and "bare" in d["services"]'
expect "$WORK/spans.json" 'min(s["ns"] for s in d["span_names"].values()) >= 100e6'

# Without the bundle: one line, and no profile.
mv "$VOLUME/$BUNDLE" "$VOLUME/away"
inside empty "$APP_USER" "$APP" --ro-bind "$VOLUME" /spanprof --setenv LD_LIBRARY_PATH /usr/lib \
	--setenv LD_PRELOAD "$preload" -- /app/test/spend 50
expect_rc empty 7
[[ $(wc -l <"$WORK/empty.err") == 1 && $(<"$WORK/empty.err") == *"cannot start the exporter"* ]] ||
	fail "empty: $(<"$WORK/empty.err")"
mv "$VOLUME/away" "$VOLUME/$BUNDLE"

# In an image without any C library, at another path, and through a link.
readonly BARE=$WORK/bare.root
mkdir -p "$BARE"/{proc,dev,elsewhere,out}
ln -s elsewhere/bin/spanprof-report "$BARE/report"
for command in /elsewhere/bin/spanprof-report /report; do
	inside version "$APP_USER" "$BARE" --ro-bind "$VOLUME" /elsewhere -- "$command" --version
	expect_rc version 0
	[[ $(<"$WORK/version.out") == "spanprof-report "* ]] || fail "$command: $(<"$WORK/version.out")"
done
NO_PROC=1 inside no_proc "$APP_USER" "$BARE" --ro-bind "$VOLUME" /elsewhere -- \
	/elsewhere/bin/spanprof-report --version
expect_rc no_proc 0

# The tools of the volume need no file of the image either.
mkdir -m 777 "$WORK/out"
chmod 777 "$WORK/out"
inside files "$APP_USER" "$APP" --ro-bind "$VOLUME" /spanprof --setenv LD_LIBRARY_PATH /usr/lib \
	--bind "$WORK/out" /out -- /spanprof/bin/spanprof-run --output /out /app/test/spend 100
expect_rc files 7
inside told "$APP_USER" "$APP" --ro-bind "$VOLUME" /spanprof --bind "$WORK/out" /out -- \
	/spanprof/bin/spanprof-report --json /out
expect_rc told 0
expect "$WORK/told.out" 'd["labelled"]["ns"] > 0'

# A program that opens libcurl gets the system's, and it works; ours is loaded in another process.
cat >"$WORK/late.py" <<'END_OF_LATE'
import ctypes, sys, time
def mapped(part):
    return sorted({l.split(maxsplit=5)[-1].strip() for l in open("/proc/self/maps") if part in l})
deadline = time.monotonic() + 20
while not mapped("/memfd:spanprof"):
    if time.monotonic() > deadline:
        sys.exit("nothing is recorded")
    sum(range(10000))
assert mapped("spanprof") == [p for p in mapped("spanprof") if "libspanprof.so" in p or "/memfd:" in p], mapped("spanprof")
curl = ctypes.CDLL("libcurl.so.4")
curl.curl_version.restype = ctypes.c_char_p
assert b"libcurl/" in curl.curl_version()
assert all("/bundle/" not in path for path in mapped("/libcurl.so.4")), mapped("/libcurl")
assert mapped("/libcurl.so.4")
curl.curl_easy_init.restype = ctypes.c_void_p
easy = curl.curl_easy_init()
curl.curl_easy_setopt(ctypes.c_void_p(easy), 10002, sys.argv[1].encode())
curl.curl_easy_setopt(ctypes.c_void_p(easy), 44, ctypes.c_long(1))
assert curl.curl_easy_perform(ctypes.c_void_p(easy)) == 0
END_OF_LATE
# python3 may be a shell script that starts other programs: each of them would be profiled, and all would push at once
# at their ends.
python=$(python3 -c 'import sys; print(sys.executable)')
settings=(LD_PRELOAD="$VOLUME/lib/spanprof/libspanprof.so" SPANPROF_PROFILE=always
	PYROSCOPE_SERVER_ADDRESS="$DOUBLE_URL")
# Root starts no program from a folder to which everybody may write.
chown -R 0:0 "$VOLUME"
chmod 755 "$VOLUME"
run late "${settings[@]}" OTEL_SERVICE_NAME=late "$python" "$WORK/late.py" "$DOUBLE_URL/ready"
expect_rc late 0
# And a program that is linked with libcurl, and ends while the exporter is being started.
run linked "${settings[@]}" OTEL_SERVICE_NAME=linked curl -sS -o "$WORK/body" "$DOUBLE_URL/ready"
expect_rc linked 0
for name in late linked; do
	[[ ! -s $WORK/$name.err ]] || fail "$name: $(<"$WORK/$name.err")"
done
expect_clean_double
