#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command whose stderr is a socket, as journald gives it to a service, and prints what the command wrote
there.

Usage: messages.py COMMAND [ARGUMENT]...
"""
import socket
import subprocess
import sys


def main():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with subprocess.Popen(sys.argv[1:], stderr=theirs, stdin=subprocess.DEVNULL) as child:
        theirs.close()
        while True:
            text = ours.recv(65536)
            if not text:
                break
            sys.stdout.buffer.write(text)
    return child.returncode


sys.exit(main())
