# SPDX-License-Identifier: Apache-2.0
"""Calls of a TangoTest device without a database: tango_client.py PORT CALLS."""

import sys

import tango

device = tango.DeviceProxy("tango://127.0.0.1:%s/sys/tg_test/1#dbase=no" % sys.argv[1])
for i in range(int(sys.argv[2])):
    if i % 4:
        device.command_inout("DevDouble", 2.5)
    else:
        device.read_attribute("double_image_ro")
