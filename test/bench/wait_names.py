# SPDX-License-Identifier: Apache-2.0
"""One row of the table of wait_names.sh: usage wait_names.py NAME TRUTH REPORT. For each span name by how much the
report's waiting time differs from the program's own clocks, and in brackets the error by chance (two standard errors,
each 141 % divided by the root of the number of looks). Fails if a sum is off by more than 2 % and three of them."""

import json
import sys


def main(label, truth, report):
    with open(report) as file:
        told = {row["span_name"]: row for row in json.load(file)["span_names"]}
    cells, bad = [], False
    for line in open(truth):
        name, *figures = line.split()
        if name == "EINTR":
            cells.append(figures[0])
            bad = bad or figures[0] != "0"
            continue
        seconds = float(figures[0])
        row = told.get(name, {"ns": 0, "samples": 0})
        off = 100 * (row["ns"] / 1e9 / seconds - 1) if seconds else 0
        error = 141.4 / row["samples"] ** 0.5 if row["samples"] else 100
        bad = bad or abs(off) > 2 + 3 * error
        cells.append(f"{off:+.1f} % ({2 * error:.0f})")
    print(f"| {label} | {' | '.join(cells)} |")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
