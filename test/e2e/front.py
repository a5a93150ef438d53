#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands before the double: TLS with a certificate of the test's choice, or a Unix socket.

usage: front.py PORT_FILE BACKEND_PORT (--cert PEM [--client-ca PEM] [--version 1.2|1.3] | --unix PATH)
Copies bytes both ways, one connection at a time per thread, until it is killed.
"""
import os
import socket
import ssl
import sys
import threading


def copy(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def serve(client, context, backend):
    try:
        if context is not None:
            client = context.wrap_socket(client, server_side=True)
        with client, socket.create_connection(("127.0.0.1", backend)) as server:
            back = threading.Thread(target=copy, args=(server, client), daemon=True)
            back.start()
            copy(client, server)
            back.join()
    except OSError:
        client.close()


def main():
    port_file, backend = sys.argv[1], int(sys.argv[2])
    options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
    context = None
    if "--cert" in options:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options["--cert"])
    if "--version" in options:
        context.minimum_version = context.maximum_version = {
            "1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[options["--version"]]
    if "--client-ca" in options:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(options["--client-ca"])
    if "--unix" in options:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(options["--unix"])
        port = 0
    else:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    listener.listen(16)
    with open(port_file + ".partial", "w") as f:
        f.write(f"{port}\n")
    os.rename(port_file + ".partial", port_file)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, context, backend), daemon=True).start()


main()
