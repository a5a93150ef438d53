#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same in OTLP, by OTLP/HTTP's rules of what may be repeated.
# Runs alone: it judges how long requests take, and how many are handled.
exec bash test/e2e/server_faults.sh otlp
