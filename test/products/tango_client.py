# SPDX-License-Identifier: Apache-2.0
"""Calls of a TangoTest device without a database: tango_client.py PORT CALLS."""

import sys

import numpy
import tango

device = tango.DeviceProxy("tango://127.0.0.1:%s/sys/tg_test/1#dbase=no" % sys.argv[1])
# Long enough that a call has a sample now and then: 40,000 short calls have fewer than 200.
array = numpy.full(50000, 0.5)
for i in range(int(sys.argv[2])):
    if i % 4:
        device.command_inout("DevVarDoubleArray", array)
    else:
        device.read_attribute("double_image_ro")
