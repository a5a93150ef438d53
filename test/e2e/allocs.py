# SPDX-License-Identifier: Apache-2.0
"""Compares a report of allocations with the program's own counts: TRUTH REPORT MEAN DEVIATIONS.

If a program reports 0 blocks of a kind, the report must have none.
"""
import json
import math
import sys

truth, report, mean, most = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
with open(report, encoding="utf-8") as file:
    rows = {row["span_name"]: row for row in json.load(file)["span_names"]}
worst = 0.0
bad = False
with open(truth, encoding="utf-8") as file:
    for line in file:
        size, blocks, name = line.rstrip("\n").split(" ", 2)
        size, blocks = int(size), int(blocks)
        # A block is sampled with this probability, and then counts as its inverse.
        chance = -math.expm1(-size / mean)
        row = rows.get(name, {"bytes": 0, "blocks": 0})
        # A thousandth more, because sums are rounded. Of a few large blocks one or two may be missed, so no smaller
        # deviation is possible.
        deviation = math.sqrt(blocks * (1 - chance) / chance) + blocks / 1000 + 0.4 if blocks else 1e-9
        off = max(abs(row["blocks"] - blocks) / deviation, abs(row["bytes"] - size * blocks) / (size * deviation))
        worst = max(worst, off)
        if off > most:
            bad = True
            print(f"{name}: {row['bytes']} bytes in {row['blocks']} blocks, not {size * blocks} in {blocks}: "
                  f"{off:.1f} standard deviations")
print(f"worst: {worst:.2f} standard deviations")
sys.exit(bad)
