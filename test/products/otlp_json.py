# SPDX-License-Identifier: Apache-2.0
"""Spans of receiver.py as a collector's file exporter writes them, a message in JSON for each service:
otlp_json.py SPANS."""

import json
import sys


def value(v):
    if isinstance(v, bool):
        return {"boolValue": v}
    if isinstance(v, int):
        return {"intValue": str(v)}
    if isinstance(v, float):
        return {"doubleValue": v}
    return {"stringValue": v if isinstance(v, str) else json.dumps(v)}


def pairs(attributes):
    return [{"key": key, "value": value(v)} for key, v in attributes.items()]


services = {}
with open(sys.argv[1], encoding="utf-8") as file:
    for s in map(json.loads, file):
        services.setdefault(s["service"] or "", []).append({
            "traceId": s["trace_id"], "spanId": s["span_id"], "parentSpanId": s["parent_span_id"], "name": s["name"],
            "startTimeUnixNano": str(s["start_ns"]), "endTimeUnixNano": str(s["end_ns"]),
            "attributes": pairs(s["attributes"])})
for service, spans in services.items():
    print(json.dumps({"resourceSpans": [{"resource": {"attributes": pairs({"service.name": service})},
                                         "scopeSpans": [{"scope": {}, "spans": spans}]}]}))
