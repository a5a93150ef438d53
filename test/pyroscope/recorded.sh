#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The double gives the answers of a real Pyroscope, and stays within its limits whatever arrives. The test runs the double
# that was built with the sanitizers, which report memory errors.
set -euo pipefail

python3 test/pyroscope/recorded.py check build/asan/test/pyroscope-double
