# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2016
# The programs whose stacks are tested, in the order of the table. Their work is in test/corpus/loads/, or load_NAME
# of servers.bash. WORDS are run in $DATA by an unprofiled shell; $ROUND makes each run different. PROCESS is the name
# of its processes.

ROOTED=(python3 perl php php_jit bash git gzip xz openssl sqlite3 gcc clang node java redis nginx postgres
	postgres_jit mariadb memcached)

declare -A WORDS=(
	[python3]='python3 -S $CORPUS/loads/python3.py $ROUND'
	[perl]='perl $CORPUS/loads/perl.pl $ROUND'
	[php]='php $CORPUS/loads/php.php $ROUND'
	[php_jit]='php $CORPUS/loads/php.php $ROUND 1'
	[bash]='bash $CORPUS/loads/bash.sh $ROUND'
	[git]='rm -rf copy && git clone -q --no-local base.git copy && cd copy &&
		git log -p --stat -M | cat >log && git blame -s file3 >blame &&
		git repack -q -a -d -f --depth=$((ROUND % 90 + 10)) --window=50 &&
		git fsck --full && git grep -c -E "[1-3]+$ROUND" $(git rev-list HEAD) >grep;
		git diff HEAD~20 HEAD --word-diff >diff;
		for _ in {1..30}; do git rev-list --objects --all >list; git status >status; done'
	[gzip]='gzip -$((ROUND % 9 + 1)) -n -c big >big.gz; gzip -dc big.gz >big.again; gzip -t big.gz'
	[xz]='xz -T$((ROUND % 2 + 1)) -$((ROUND % 7)) -c big >big.xz; xz -dc big.xz >big.again;
		xz -F lzma -1 -c big | xz -dc >big.again;
		xz --x86 --delta=dist=2 --lzma2=preset=1 -c big | xz -dc >big.again'
	[openssl]='openssl genrsa $((2048 + ROUND % 3 * 512)) 2>&1 >key;
		openssl req -x509 -key key -subj /CN=x -out crt;
		openssl cms -sign -in crt -signer crt -inkey key -out signed;
		openssl cms -verify -in signed -CAfile crt -purpose any >verified 2>&1;
		openssl dhparam -dsaparam 1024 >dh 2>&1; openssl ecparam -name secp521r1 -genkey >eckey;
		for digest in sha256 sha512 sha3-256 md5 sm3 blake2b512 ripemd160; do openssl dgst -$digest big; done \
			>digests 2>&1;
		for cipher in aes-128-ctr aes-256-cbc chacha20 camellia-256-cbc aria-128-ctr sm4-cbc des-ede3-cbc; do
			openssl enc -$cipher -k x -pbkdf2 -iter 9999 -in big -out big.enc;
			openssl enc -d -$cipher -k x -pbkdf2 -iter 9999 -in big.enc -out big.again;
		done;
		set -- aes-256-gcm chacha20-poly1305 aes-128-ocb aes-256-ccm aria-256-gcm aes-256-xts;
		shift $((ROUND % 6)); openssl speed -seconds 1 -bytes 8192 -evp $1 >speed 2>&1;
		set -- rsa2048 ecdsap256 ed25519 ecdhx25519 ecdsap384 dsa2048 ecdhx448 rsa4096;
		shift $((ROUND % 8)); openssl speed -seconds 1 $1 >speed 2>&1'
	[sqlite3]='sqlite3 :memory: ".read $CORPUS/loads/sqlite3.sql"'
	[gcc]='for file in $ROOT/sampler/*/*.c $ROOT/preload/*/*.c; do
		gcc -std=gnu11 -D_GNU_SOURCE= -I$ROOT -g -O$((ROUND % 4)) -c -o source.o "$file"; done'
	[clang]='for file in $ROOT/sampler/*/*.c $ROOT/preload/*/*.c; do
		clang -std=gnu11 -D_GNU_SOURCE= -I$ROOT -g -O$((ROUND % 4)) -c -o source.o "$file"; done'
	[node]='node $CORPUS/loads/node.js $ROUND'
	[java]='java $CORPUS/loads/Load.java $ROUND'
)

# The profiler's name for a service: the file of the program.
declare -A PROCESS=([python3]='python3[.0-9]*' [perl]='perl' [php]='php[.0-9]*' [php_jit]='php[.0-9]*'
	[bash]='bash' [git]='git' [gzip]='gzip' [xz]='xz' [openssl]='openssl' [sqlite3]='sqlite3'
	[gcc]='.*gcc.*|cc1|.*as|collect2' [clang]='clang.*' [node]='node' [java]='java'
	[redis]='redis.*' [nginx]='nginx' [postgres]='postgres' [postgres_jit]='postgres'
	[mariadb]='mariadbd' [memcached]='memcached')

declare -A PACKAGE=([python3]=python3.11-minimal [perl]=perl-base [php]=php8.2-cli [php_jit]=php8.2-cli
	[bash]=bash [git]=git [gzip]=gzip [xz]=xz-utils [openssl]=openssl [sqlite3]=sqlite3 [gcc]=gcc-12
	[clang]=clang-14 [node]=nodejs [java]=openjdk-17-jre-headless [redis]=redis-server
	[nginx]=nginx-light [postgres]=postgresql-15 [postgres_jit]=postgresql-15
	[mariadb]=mariadb-server-core [memcached]=memcached)

declare -A TITLE=([php_jit]='php, regular expressions compiled' [postgres_jit]='postgres, `jit = on`'
	[redis]='redis-server' [mariadb]='mariadbd' [gcc]='gcc (with cc1, as)')
