# SPDX-License-Identifier: Apache-2.0
#
# OTLP beside others' programs. It builds them from the Go module proxy, so it is no part of "make test".

.PHONY: otlp
otlp: all test-programs $(B)/release/test/hostile/test_otlp ## profcheck, a collector and PYROSCOPE_URL's server on what we send in OTLP (minutes)
	@TEST_LEFT_OUT=/dev/stderr bash test/otlp/otlp.sh
