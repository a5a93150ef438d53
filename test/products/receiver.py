# SPDX-License-Identifier: Apache-2.0
"""Takes spans as a collector does, OTLP over HTTP, and writes each as a line of JSON, in the form that
test/e2e/check.py reads: receiver.py PORT_FILE SPANS REFUSED. It takes only what the protocol describes. Another path,
type or field, an id of another length, or a repeated key gets status 400, and is written to REFUSED."""

import gzip
import http.server
import json
import os
import struct
import sys
import threading

sys.path.insert(0, "test/common")
from pb import fields

port_file, spans_file, refused_file = sys.argv[1:]
writing = threading.Lock()
BODY_MAX = 64 << 20


def message(data, known):
    """The fields of a message by name; known has the number, name and form of each: single, or a list."""
    found = {name: [] for name, many in known.values() if many}
    for number, value in fields(data):
        if number not in known:
            raise ValueError("field %d is none of %s" % (number, sorted(known)))
        name, many = known[number]
        if many:
            found[name].append(value)
        elif name in found:
            raise ValueError(name + " comes twice")
        else:
            found[name] = value
    return found


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def any_value(data):
    parts = list(fields(data))
    if len(parts) > 1:
        raise ValueError("a value of several types")
    if not parts:
        return None
    number, value = parts[0]
    if number == 1:
        return value.decode("utf-8")
    if number == 2:
        return value != 0
    if number == 3:
        return signed(value)
    if number == 4:
        return struct.unpack("<d", value.to_bytes(8, "little"))[0]
    if number == 5:
        return [any_value(v) for v in message(value, {1: ("values", True)})["values"]]
    if number == 6:
        return attributes(message(value, {1: ("values", True)})["values"])
    if number == 7:
        return value.hex()
    raise ValueError("a value of type %d" % number)


def attributes(pairs):
    found = {}
    for pair in pairs:
        pair = message(pair, {1: ("key", False), 2: ("value", False)})
        key = pair["key"].decode("utf-8")
        if key in found or not key:
            raise ValueError("the key '%s' comes twice, or is empty" % key)
        found[key] = any_value(pair.get("value", b""))
    return found


def identifier(data, length):
    if len(data) != length or not any(data):
        raise ValueError("an id of %d bytes: %s" % (len(data), data.hex()))
    return data.hex()


def span(data):
    s = message(data, {1: ("trace_id", False), 2: ("span_id", False), 3: ("trace_state", False), 4: ("parent", False),
                       5: ("name", False), 6: ("kind", False), 7: ("start", False), 8: ("end", False),
                       9: ("attributes", True), 10: ("dropped_attributes", False), 11: ("events", True),
                       12: ("dropped_events", False), 13: ("links", True), 14: ("dropped_links", False),
                       15: ("status", False), 16: ("flags", False)})
    if not 0 < s["start"] <= s["end"]:
        raise ValueError("a span from %d to %d" % (s["start"], s["end"]))
    links = [message(link, {1: ("trace_id", False), 2: ("span_id", False), 3: ("trace_state", False),
                            4: ("attributes", True), 5: ("dropped", False), 6: ("flags", False)}) for link in s["links"]]
    return {"trace_id": identifier(s["trace_id"], 16), "span_id": identifier(s["span_id"], 8),
            "parent_span_id": identifier(s["parent"], 8) if s.get("parent") else "",
            "name": s["name"].decode("utf-8"), "start_ns": s["start"], "end_ns": s["end"],
            "attributes": attributes(s["attributes"]),
            "links": [identifier(link["trace_id"], 16) + identifier(link["span_id"], 8) for link in links]}


def spans_of(body):
    for resource in message(body, {1: ("spans", True)})["spans"]:
        resource = message(resource, {1: ("resource", False), 2: ("scopes", True), 3: ("schema", False)})
        of = message(resource.get("resource", b""), {1: ("attributes", True), 2: ("dropped", False)})
        about = attributes(of["attributes"])
        for scope in resource["scopes"]:
            for data in message(scope, {1: ("scope", False), 2: ("spans", True), 3: ("schema", False)})["spans"]:
                yield {**span(data), "service": about.get("service.name"), "sdk": about.get("telemetry.sdk.version")}


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def read_body(self):
        if self.path != "/v1/traces":
            raise ValueError("path " + self.path)
        if self.headers.get("Content-Type") != "application/x-protobuf":
            raise ValueError("type %s" % self.headers.get("Content-Type"))
        length = int(self.headers["Content-Length"])
        if length > BODY_MAX:
            raise ValueError("%d bytes" % length)
        body = self.rfile.read(length)
        encoding = self.headers.get("Content-Encoding")
        if encoding not in (None, "gzip"):
            raise ValueError("encoding " + encoding)
        return gzip.decompress(body) if encoding else body

    def do_POST(self):
        try:
            lines = "".join(json.dumps(s) + "\n" for s in spans_of(self.read_body()))
            with writing, open(spans_file, "a", encoding="utf-8") as out:
                out.write(lines)
            status = 200
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OSError) as error:
            with writing, open(refused_file, "a", encoding="utf-8") as out:
                out.write("%s: %s\n" % (type(error).__name__, error))
            status = 400
            self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
for name in (spans_file, refused_file):
    open(name, "w", encoding="utf-8").close()
with open(port_file + ".new", "w", encoding="utf-8") as out:
    out.write("%d\n" % server.server_port)
os.rename(port_file + ".new", port_file)
server.serve_forever()
