#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# /etc/ld.so.preload loads our object into a program whose environment may come from a user with fewer rights: a
# set-user-id program passes SPANPROF_* on to a helper that it executes as root, and the loader has removed only
# LD_PRELOAD. Such a user can make us execute no program, write, replace or send no file, and ask no server.
# The settings in root's /etc/spanprof.conf count. The machine's own files are never touched: the test runs in a mount
# namespace of its own.
if ((EUID == 0)) && [[ ${1-} != inside ]] && unshare -m true 2>/dev/null; then
	exec unshare -m --propagation private bash "$0" inside
fi
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

unset SPANPROF_ATTRIBUTES
[[ ${1-} == inside ]] || skip "needs root and mount namespaces"
[[ -z ${TEST_EMULATOR:-} ]] || skip "an emulator has no /etc/ld.so.preload"
need setpriv unshare mount gcc python3
readonly NOBODY=65534
# Not below /tmp, where "enable" refuses objects.
readonly MACHINE=/mnt
mount -t tmpfs none "$MACHINE" 2>/dev/null || skip "nothing can be mounted at $MACHINE"
chmod 755 "$WORK" "$MACHINE"
mkdir -p "$MACHINE/etc" "$MACHINE/lib" "$MACHINE/root" "$MACHINE/up/lib"
mkdir -m 777 "$MACHINE/theirs"
cp -a /etc/passwd /etc/group /etc/ld.so.cache /etc/nsswitch.conf "$MACHINE/etc"
cp "$SO" "$EXPORTER" "$MACHINE/lib"
chown -R 0:0 "$MACHINE/lib"
# As on a machine without 32-bit programs, because each of them would print a message.
for loader in /lib/ld-linux.so.2 /lib32/ld-linux.so.2 /libx32/ld-linux-x32.so.2; do
	[[ ! -e $loader ]] || mount --bind /dev/null "$loader"
done

# fusermount did this (CVE-2015-3202): a set-user-id program executes a helper as root.
printf '%s\n' '#include <unistd.h>' 'int main(int argc, char **argv) {' \
	'	return argc < 2 || setgid(0) || setuid(0) || execv(argv[1], argv + 1); }' |
	gcc -x c -o "$MACHINE/suid" -
chmod 4755 "$MACHINE/suid"
cp "$HOSTS/spend" "$MACHINE/helper"
export LD_LIBRARY_PATH=$TEST_LIBS
run plain setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups "$MACHINE/suid" /usr/bin/id -u
[[ $(<"$WORK/plain.out") == 0 ]] || skip "set-user-id programs do not work in $WORK (nosuid)"
unset LD_LIBRARY_PATH
mount --bind "$MACHINE/etc" /etc
echo "$MACHINE/lib/libspanprof.so" >/etc/ld.so.preload

# helped NAME VARIABLE=VALUE...: an unprivileged user sets these variables, and the helper runs as root.
helped()
{
	run "$1" setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups env "${@:2}" "$MACHINE/suid" "$BASH" -c \
		'for ((i = 0; i < 40000; i++)); do :; done'
	expect_rc "$1" 0
}
# nothing_of NAME: none of the variables had an effect.
nothing_of()
{
	[[ ! -e $MACHINE/theirs/executed ]] || fail "$1: the user's program ran as $(<"$MACHINE/theirs/executed")"
	[[ $(<"$MACHINE/root/file") == kept ]] || fail "$1: a file of root was replaced"
	[[ ! -e $MACHINE/root/new && -z $(ls "$MACHINE/root/folder") ]] || fail "$1: a file was written: $(ls "$MACHINE"/root/*)"
	[[ ! -s $MACHINE/theirs/asked ]] || fail "$1: the user's server was asked: $(<"$MACHINE/theirs/asked")"
}
printf '#!/bin/sh\nid >%s/theirs/executed\n' "$MACHINE" >"$MACHINE/theirs/evil"
chmod 755 "$MACHINE/theirs/evil"
echo kept >"$MACHINE/root/file"
mkdir -m 755 "$MACHINE/root/folder"
# The user's server records each request, and the secrets in it.
python3 - "$MACHINE/theirs/asked" >"$WORK/port" <<'END_OF_SERVER' &
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        with open(sys.argv[1], "a") as f:
            print(self.path, self.headers, file=f)
        self.send_response(200)
        self.end_headers()
    do_GET = do_CONNECT = do_POST
    def log_message(self, *args):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
END_OF_SERVER
STARTED+=("$!")
poll_until 10 test -s "$WORK/port" || fail "no server"
URL=http://127.0.0.1:$(<"$WORK/port")
readonly URL
readonly -a WISHES=(SPANPROF_PROFILE=always SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_LOG_LEVEL=debug
	SPANPROF_EXPORTER="$MACHINE/theirs/evil" SPANPROF_STATUS_FILE="$MACHINE/root/file"
	SPANPROF_OUTPUT_DIR="$MACHINE/root/folder" SPANPROF_SERVER_ADDRESS="$URL" PYROSCOPE_SERVER_ADDRESS="$URL"
	OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT="$URL" SPANPROF_AUTH_TOKEN_FILE="$MACHINE/root/file"
	SPANPROF_TLS_CA_FILE="$MACHINE/root/file" SSL_CERT_FILE="$MACHINE/root/file" DEBUGINFOD_URLS="$URL"
	DEBUGINFOD_CACHE_PATH="$MACHINE/root/new" HOME="$MACHINE/theirs" http_proxy="$URL" ALL_PROXY="$URL"
	LD_PRELOAD=/nonexistent/libspanprof.so OTEL_SERVICE_NAME=theirs SPANPROF_LABELS=team=blue)

# sampled: whether the helper was sampled; then forgets it
sampled()
{
	compgen -G "$MACHINE/profiles/spanprof-theirs-*" >/dev/null || return 1
	rm "$MACHINE"/profiles/spanprof-*
}

# Without root's file nothing starts, even if the user's variables ask for it.
helped none "${WISHES[@]}"
nothing_of none
[[ ! -s $WORK/none.err ]] || fail "$(<"$WORK/none.err")"
for wish in "${WISHES[@]}"; do
	helped one SPANPROF_PROFILE=always "$wish"
	nothing_of "$wish"
done

# The command writes root's settings: they count, and of the user's variables only the name of the service and its
# labels.
mkdir -m 700 "$MACHINE/profiles"
run enable build/spanprof-preload --object "$MACHINE/lib/libspanprof.so" enable --set SPANPROF_PROFILE=always \
	--set SPANPROF_OUTPUT_DIR="$MACHINE/profiles" --set SPANPROF_SAMPLE_RATE=500 --set SPANPROF_LOG_LEVEL=info
expect_rc enable 0
[[ $(stat -c '%u %a' /etc/spanprof.conf) == '0 644' ]] || fail "$(stat /etc/spanprof.conf)"
rm -f "$MACHINE"/profiles/spanprof-*
helped file "${WISHES[@]}"
nothing_of file
grep -q 'SPANPROF_[A-Z_]* is ignored: LD_PRELOAD does not name this libspanprof.so' "$WORK/file.err" ||
	fail "it is not told: $(<"$WORK/file.err")"
sampled || fail "root's settings do not count: $(ls "$MACHINE/profiles")"
helped off "${WISHES[@]}" SPANPROF_DISABLED=true
! sampled || fail "not switched off: $(<"$WORK/off.err")"
run enable build/spanprof-preload --object "$MACHINE/lib/libspanprof.so" enable --set SPANPROF_DISABLED=true
expect_rc enable 0
helped off "${WISHES[@]}" SPANPROF_DISABLED=false
! sampled || fail "a user has switched on what root has switched off"
run enable build/spanprof-preload --object "$MACHINE/lib/libspanprof.so" enable --set SPANPROF_DISABLED=
expect_rc enable 0

# A file to which others may write does not count.
for how in 'chown 65534' 'chmod 666' 'chmod 664'; do
	$how /etc/spanprof.conf
	helped file "${WISHES[@]}"
	nothing_of "$how"
	! sampled || fail "$how: it counts"
	chown 0 /etc/spanprof.conf
	chmod 644 /etc/spanprof.conf
done

# A program that a user starts with LD_PRELOAD has only this user's rights, so all variables have their usual effect.
run preloaded LD_PRELOAD="$MACHINE/lib/libspanprof.so" SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$MACHINE/root/folder" \
	"$BASH" -c 'for ((i = 0; i < 40000; i++)); do :; done'
expect_rc preloaded 0
[[ -n $(profiles_in "$MACHINE/root/folder") ]] || fail "$(<"$WORK/preloaded.err")"
rm "$MACHINE"/root/folder/*

# Root starts only programs that belong to root in all their folders, by their real path.
helped own "${WISHES[@]}"
sampled || fail "no profile, as a test of what follows"
cp "$MACHINE"/lib/* "$MACHINE/up/lib"
echo "$MACHINE/up/lib/libspanprof.so" >/etc/ld.so.preload
for part in up/lib/spanprof-exporter up/lib up; do
	chown "$NOBODY" "$MACHINE/$part"
	helped theirs "${WISHES[@]}"
	! sampled || fail "$part is another's, and the exporter ran"
	grep -q 'cannot start the exporter .*another user than root could change it' "$WORK/theirs.err" ||
		fail "$part: $(<"$WORK/theirs.err")"
	chown 0 "$MACHINE/$part"
done
rm /etc/ld.so.preload
