#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A debuginfod server: debuginfod.py FOLDER PORT_FILE LOG serves FOLDER/<build id> and logs the requests; with FOLDER
"-" it accepts every connection and never answers."""
import http.server
import os
import re
import sys
import threading

folder, port_file, log = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(log, "a", encoding="ascii") as out:
            out.write(self.path + "\n")
        if folder == "-":
            threading.Event().wait()
        m = re.fullmatch(r"/buildid/([0-9a-f]+)/debuginfo", self.path)
        path = os.path.join(folder, m[1]) if m else ""
        if not m or not os.path.isfile(path):
            self.send_error(404)
            return
        with open(path, "rb") as f:
            body = f.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(port_file + ".new", "w", encoding="ascii") as f:
    f.write(str(server.server_address[1]))
os.rename(port_file + ".new", port_file)
server.serve_forever()
