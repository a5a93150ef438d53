#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server in front of the double: TLS with a certificate of the test's choice, a Unix socket, a forwarder, or a
page.

usage: front.py PORT_FILE BACKEND_PORT [--cert PEM [--client-ca PEM] [--version 1.2|1.3] | --unix PATH] [--away PATH]
       [--page TITLE] [--count PATH]
Copies bytes both ways, one connection at a time per thread, until it is killed. While the file of --away exists it
closes what it accepts, as a forwarder of layer 4 that has nobody behind it. --page answers everything with such a page,
with --away while that file exists. --count adds a line to the file for each connection: the bytes that went to the server.
"""
import os
import socket
import ssl
import sys
import threading


def copy(source, sink):
    copied = 0
    try:
        while data := source.recv(65536):
            sink.sendall(data)
            copied += len(data)
    except OSError:
        pass
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    return copied


def answer_with_page(client, title):
    page = f"<html><title>{title}</title><body>Your name?</body></html>".encode()
    client.recv(65536)
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n"
                   b"Content-Length: %d\r\n\r\n%s" % (len(page), page))
    client.shutdown(socket.SHUT_WR)
    while client.recv(65536):
        pass
    client.close()


def serve(client, context, backend, options):
    try:
        is_away = os.path.exists(options.get("--away", ""))
        if is_away and "--page" not in options:
            client.close()
            return
        if "--page" in options and (is_away or "--away" not in options):
            answer_with_page(client, options["--page"])
            return
        if context is not None:
            client = context.wrap_socket(client, server_side=True)
        with client, socket.create_connection(("127.0.0.1", backend)) as server:
            back = threading.Thread(target=copy, args=(server, client), daemon=True)
            back.start()
            sent = copy(client, server)
            back.join()
        if "--count" in options:
            with open(options["--count"], "a") as f:
                f.write(f"{sent}\n")
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
        threading.Thread(target=serve, args=(client, context, backend, options), daemon=True).start()


main()
