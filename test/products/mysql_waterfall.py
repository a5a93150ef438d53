# SPDX-License-Identifier: Apache-2.0
"""Whether the waterfall of a client's statement has the server's below it, with MySQL's own figure for its CPU time:
mysql_waterfall.py SPANS WATERFALL. Exit status 0 if so."""

import json
import re
import sys

TIME = r"~?[0-9.]+ (?:us|ms|s)"
ROW = re.compile(rf"^ *({TIME}) +({TIME}) +({TIME})? *({TIME})? *\[[ =]{{20}}\]  ( *)(.*?): (.*)$")
UNITS = {"us": 1e-3, "ms": 1, "s": 1000}


def milliseconds(text):
    number, unit = text.lstrip("~").split()
    return float(number) * UNITS[unit]


with open(sys.argv[1], encoding="utf-8") as file:
    spans = {s["span_id"]: s for s in map(json.loads, file)}
rows = []
with open(sys.argv[2], encoding="utf-8") as file:
    for line in file:
        match = ROW.match(line)
        if match:
            rows.append({"depth": len(match[5]) // 2, "cpu": match[3], "service": match[6], "name": match[7]})
        elif rows and line.lstrip().startswith("span "):
            rows[-1]["id"] = line.split()[1].rstrip(":")
client = next((r for r in rows if r["service"] == "mysql"), None)
below = rows[rows.index(client) + 1:] if client else []
statement = next((r for r in below if r["name"] == "stmt" and r["depth"] == client["depth"] + 1), None)
if statement is None or "id" not in client or "id" not in statement:
    sys.exit("FAIL: no statement of the server below one of the client: %s" % rows)
said, truth = milliseconds(statement["cpu"]), spans[statement["id"]]["attributes"]["mysql.cpu_time"] / 1e6
print("  the statement took %.1f ms on a CPU, mysql.cpu_time %.1f ms" % (said, truth))
# MySQL begins before its span and ends after it; a figure has three digits.
sys.exit(0 if abs(said - truth) < 0.02 * truth + 1 else "FAIL: not mysql.cpu_time")
