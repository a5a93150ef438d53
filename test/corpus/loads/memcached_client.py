# SPDX-License-Identifier: Apache-2.0
"""Asks memcached many things at once and checks each answer. Arguments: its socket, the round."""
import hashlib
import socket
import sys
import threading

BATCHES = 12
KEYS = 20000


def told_by(connection, request, answer_bytes):
    """Sends everything while the answer of that length comes in; returns its digest."""
    sender = threading.Thread(target=connection.sendall, args=(request,))
    digest = hashlib.md5()
    sender.start()
    while answer_bytes > 0:
        part = connection.recv(min(answer_bytes, 1 << 20))
        if not part:
            sys.exit("memcached hung up")
        digest.update(part)
        answer_bytes -= len(part)
    sender.join()
    return digest.hexdigest()


with socket.socket(socket.AF_UNIX) as server:
    server.settimeout(100)
    server.connect(sys.argv[1])
    keys = ["key%05d" % i for i in range(KEYS)]
    value = "%08d" % int(sys.argv[2])
    for key in ("n", "deleted"):
        told_by(server, b"set %s 0 0 1\r\n0\r\n" % key.encode(), 8)
    print(told_by(server, "".join("set %s 0 0 8\r\n%s\r\n" % (k, value) for k in keys).encode(),
                  8 * KEYS))
    lines = sum(len("VALUE %s 0 8\r\n%s\r\n" % (k, value)) for k in keys)
    for _ in range(BATCHES):
        print(told_by(server, "".join("get %s\r\n" % k for k in keys).encode(), lines + 5 * KEYS))
        print(told_by(server, "".join("get %s\r\n" % " ".join(keys[i:i + 20])
                                      for i in range(0, KEYS, 20)).encode(), lines + 5 * KEYS // 20))
        print(told_by(server, b"get nothing\r\n" * KEYS, 5 * KEYS))
        print(told_by(server, b"touch key00007 0\r\n" * KEYS, 9 * KEYS))
        print(told_by(server, b"append key00001 0 0 0\r\n\r\n" * KEYS, 8 * KEYS))
