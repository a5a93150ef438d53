#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The double answers what a real Pyroscope has answered, and keeps its bounds whatever arrives. It is the one that
# was built with the sanitizers, which say what else it does.
set -euo pipefail

python3 test/pyroscope/recorded.py check build/asan/test/pyroscope-double
