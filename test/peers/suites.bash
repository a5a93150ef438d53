# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The suites, for run.sh. Each suite has five functions. NAME_get downloads the suite, NAME_version prints its
# version, NAME_all runs it. NAME_one runs one test again; exit status 0: the test passes. NAME_results turns the log
# of NAME_all into lines "ok TEST" and "fail TEST", one per test, in any order. Sources are Debian's own packages.

readonly PARTS=$ROOT/build/peers
# These variables are for the suites; our own variables are set for the profiled programs.
export LC_ALL=C.UTF-8

# debian_source PACKAGE: the source of Debian 12's package in $PARTS/PACKAGE. It uses separate lists and this
# machine's mirrors, so nothing on the machine changes.
debian_source()
{
	local package=$1 apt=$PARTS/apt option
	local -a options=()

	[[ ! -d $PARTS/$package ]] || return 0
	mkdir -p "$apt/lists/partial" "$apt/archives/partial"
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		awk '$3 == "main" && $2 ~ /^bookworm(-updates)?$/ {
			print "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]", $0 }' |
		sort -u >"$apt/sources.list"
	for option in Dir::Etc::SourceList="$apt/sources.list" Dir::Etc::SourceParts=/dev/null \
		Dir::State::Lists="$apt/lists" Dir::Cache="$apt"; do
		options+=(-o "$option")
	done
	apt-get "${options[@]}" -qq update
	mkdir -p "$PARTS/source.$package"
	(cd "$PARTS/source.$package" && apt-get "${options[@]}" -qq --only-source source "$package")
	mv "$PARTS/source.$package"/*/ "$PARTS/$package"
}

# Some tests do not run as root.
as_nobody()
{
	if ((EUID == 0)); then
		chmod 0777 "$PARTS/profiles"
		setpriv --reuid nobody --regid nogroup --clear-groups "$@"
	else
		"$@"
	fi
}

package_version()
{
	dpkg-query -W -f '${Version}' "$1"
}

# --- CPython: what concerns signals, threads, processes and descriptors -----------------------------

readonly PYTHON=/usr/bin/python3
PYTHON_TESTS=(test_signal test_threading test_thread test_threadsignals test_subprocess
	test_fork1 test_wait3 test_wait4 test_posix test_os test_popen test_pty test_faulthandler
	test_resource test_select test_selectors test_poll test_epoll test_socket test_ssl
	test_asyncio test_multiprocessing_fork test_multiprocessing_spawn test_concurrent_futures
	test_ctypes test_mmap test_tempfile test_time test_venv)
# Then every object is a block of malloc().
if [[ ${PEERS_ALLOC:-} == 1 ]]; then
	export PYTHONMALLOC=malloc
	PYTHON_TESTS=(test_signal test_threading test_thread test_threadsignals test_subprocess test_fork1 test_wait3
		test_wait4 test_posix test_popen test_faulthandler test_multiprocessing_fork test_concurrent_futures
		test_ctypes test_mmap test_gc test_tracemalloc test_memoryview test_array test_bytes test_list test_dict
		test_weakref test_json test_zlib test_embed test_interpreters)
fi

python_get() { package_version libpython3.11-testsuite >/dev/null; }
python_version() { package_version libpython3.11-testsuite; }

# In a separate folder, because the tests leave files where they run. Each module has its own process (-j1), so a test
# that hangs ends only its module. One test of VSOCK waits for ever in virtual machines.
python_tests()
{
	mkdir -p "$PARTS/python.work"
	(cd "$PARTS/python.work" && timeout "${LIMIT_S:-3600}" "$PYTHON" -m test -j1 --timeout 600 \
		--ignore ThreadedVSOCKSocketStreamTest "$@")
}

python_all()
{
	python_tests --junit-xml "$PARTS/python.xml" "${PYTHON_TESTS[@]}" || true
	cat "$PARTS/python.xml"
}

# file:Class.method; a name without a match does not count as passed
python_one()
{
	python_tests --match "*.${1#*:}" "${1%%:*}" | tee "$PARTS/python.one.log" && ! grep -q 'ran no tests' "$PARTS/python.one.log"
}

# TEST is "file:Class.method"; skipped tests are left out.
python_results()
{
	"$PYTHON" - "$1" <<'END'
import re, sys
import xml.etree.ElementTree as ET
text = open(sys.argv[1], errors="replace").read()
found = {}
at = text.find("<testsuites")
for case in ET.fromstring(text[at:text.find("</testsuites>") + len("</testsuites>")]).iter("testcase") if at >= 0 else []:
    # "test.test_signal.PosixTests.test_x (subtest)"
    name = case.get("name", "").split(" ")[0]
    module = re.match(r"(?:test\.)?(\w+)", name)
    if module is None or case.find("skipped") is not None:
        continue
    bad = case.find("failure") is not None or case.find("error") is not None
    key = module.group(1) + ":" + ".".join(name.split(".")[-2:])
    found[key] = found.get(key, False) or bad
for name, bad in found.items():
    print("fail" if bad else "ok", name)
END
}

# --- libuv: its own runner, one process a test ----------------------------------------------------

libuv_get()
{
	debian_source libuv1
	[[ -x $PARTS/libuv1/build/uv_run_tests ]] || {
		cmake -S "$PARTS/libuv1" -B "$PARTS/libuv1/build" -DBUILD_TESTING=ON -DCMAKE_BUILD_TYPE=Release
		cmake --build "$PARTS/libuv1/build" -j "$(nproc)" --target uv_run_tests
	} >"$PARTS/libuv.build.log" 2>&1
	if ((EUID == 0)); then
		chown -R nobody "$PARTS/libuv1"
	fi
}

libuv_version() { dpkg-parsechangelog -l "$PARTS/libuv1/debian/changelog" -S Version; }
libuv_run() { (cd "$PARTS/libuv1" && HOME=$PARTS/libuv1 TMPDIR=/tmp as_nobody timeout "${LIMIT_S:-1800}" ./build/uv_run_tests "$@"); }
libuv_all() { libuv_run; }
libuv_one() { libuv_run "$1" && libuv_run "$1" 2>&1 | grep -q '^ok '; }

libuv_results()
{
	sed -n -e '/# SKIP/d' -e 's/^ok [0-9]* - \([a-z0-9_]*\).*/ok \1/p' \
		-e 's/^not ok [0-9]* - \([a-z0-9_]*\).*/fail \1/p' "$1" | sort -u
}

# --- redis: its Tcl suite against Debian's own server ---------------------------------------------

redis_get()
{
	debian_source redis
	ln -sf /usr/bin/redis-server /usr/bin/redis-cli /usr/bin/redis-benchmark "$PARTS/redis/src/"
	ln -sf /usr/bin/redis-server "$PARTS/redis/src/redis-sentinel"
	ln -sf /usr/bin/redis-check-rdb "$PARTS/redis/src/redis-check-rdb"
	ln -sf /usr/bin/redis-check-aof "$PARTS/redis/src/redis-check-aof"
}

redis_version() { package_version redis-server; }

# Tests that kill "the server's child", the first that pgrep -P prints, are left out with us and without: with us that
# is our keeper (LIMITATIONS in spanprof(7)), and some of them wait for ever.
redis_run()
{
	local name
	local -a skipped=()

	for name in 'failed bgsave prevents writes' 'diskless replication child being killed is collected' \
		"Don't rehash if redis has child process"; do
		skipped+=(--skiptest "$name")
	done
	(cd "$PARTS/redis" && timeout "${LIMIT_S:-3600}" ./runtest --clients 2 --timeout 300 "${skipped[@]}" "$@")
}

redis_all()
{
	redis_run --single unit/type/list --single unit/type/string --single unit/expire --single unit/multi \
		--single unit/pubsub --single unit/scripting --single unit/bitops --single unit/other \
		--single unit/introspection --single unit/obuf-limits --single unit/client-eviction \
		--single integration/aof --single integration/rdb --single integration/logging \
		--single integration/shutdown --single integration/replication \
		--single integration/redis-cli --single integration/block-repl
}

redis_one() { redis_run --only "$1"; }

redis_results()
{
	sed -e 's/\x1b\[[0-9;]*m//g' "$1" | sed -n -e 's/^\[ok\]: \(.*\) ([0-9]* ms)$/ok \1/p' \
		-e 's/^\[err\]: \(.*\) in tests.*/fail \1/p' -e 's/^\[exception\]: \(.*\)/fail \1/p' | sort -u
}

# --- PostgreSQL: backends that are killed ----------------------------------------------------------

readonly PG_BIN=/usr/lib/postgresql/15/bin

postgresql_get() { [[ -x $PG_BIN/postgres ]]; }
postgresql_version() { package_version postgresql-15; }

# Prints "ok NAME" and "fail NAME" itself.
postgresql_all()
{
	local dir

	dir=$(mktemp -d /tmp/spanprof-peers.XXXXXX)
	chmod 0777 "$dir"
	as_nobody bash "$ROOT/test/peers/postgresql.sh" "$PG_BIN" "$dir" "${1-}" || true
	rm -rf "$dir"
}

postgresql_one() { postgresql_all "$1" | grep -qx "ok $1"; }
postgresql_results() { grep -E '^(ok|fail) ' "$1" | sort -u; }

# --- Open POSIX test suite: each test a program of its own ----------------------------------------

# Tests whose functions are missing here (aio of a list) are left out.
posix_get()
{
	local source

	debian_source posixtestsuite
	[[ ! -e $PARTS/posixtestsuite/built ]] || return 0
	(
		cd "$PARTS/posixtestsuite" || exit
		find conformance/interfaces -name '[0-9]*-[0-9]*.c' ! -name '*buildonly*' | while IFS= read -r source; do
			gcc -g -O1 -w -std=gnu99 -D_POSIX_C_SOURCE=200112L -D_GNU_SOURCE -Iinclude "$source" \
				-o "${source%.c}.test" -lpthread -lrt || true
		done >../posix.build.log 2>&1
		touch built
	)
	if ((EUID == 0)); then
		chown -R nobody "$PARTS/posixtestsuite"
	fi
}

posix_version() { dpkg-parsechangelog -l "$PARTS/posixtestsuite/debian/changelog" -S Version; }
# Not as root: some tests would set the machine's clock.
posix_all() { as_nobody bash "$ROOT/test/peers/posix.sh" "$PARTS/posixtestsuite" "$@"; }
posix_one() { posix_all "$1" | grep -qx "ok $1"; }
posix_results() { grep -E '^(ok|fail) ' "$1" | sort -u; }

# --- LevelDB, in C++, linked with tcmalloc: each of its tests a program, which runs its cases ------

leveldb_get()
{
	debian_source leveldb
	[[ -x $PARTS/leveldb/build/db_test ]] || {
		cmake -S "$PARTS/leveldb" -B "$PARTS/leveldb/build" -DCMAKE_BUILD_TYPE=Release
		cmake --build "$PARTS/leveldb/build" -j "$(nproc)"
	} >"$PARTS/leveldb.build.log" 2>&1
	ldd "$PARTS/leveldb/build/db_test" | grep -q libtcmalloc
}

leveldb_version() { dpkg-parsechangelog -l "$PARTS/leveldb/debian/changelog" -S Version; }

# leveldb_run [PROGRAM [CASES]]
leveldb_run()
{
	local program folder failed=0

	folder=$(mktemp -d /tmp/spanprof-peers.XXXXXX)
	for program in "$PARTS/leveldb/build/"${1:-*_test}; do
		TEST_TMPDIR=$folder timeout "${LIMIT_S:-900}" "$program" --gtest_filter="${2:-*}" || failed=1
	done
	rm -rf "$folder"
	return "$failed"
}

leveldb_all() { leveldb_run; }
leveldb_one() { leveldb_run '*_test' "$1"; }

leveldb_results()
{
	sed -n -e 's/^\[       OK \] \([^ ]*\) .*/ok \1/p' -e 's/^\[  FAILED  \] \([^ ]*\) (.*/fail \1/p' "$1" | sort -u
}
