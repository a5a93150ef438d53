# SPDX-License-Identifier: Apache-2.0
"""An ordinary job with PyArrow: parquet_job.py FOLDER ROUNDS. Writes a table as Parquet, reads it, filters, groups
and sorts it. Prints the results, and on standard error its CPU time in nanoseconds."""

import os
import sys
import time

import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet

folder, rounds = sys.argv[1], int(sys.argv[2])
ROWS = 300_000
path = os.path.join(folder, "orders.parquet")
began = time.process_time_ns()
number = pyarrow.array(range(ROWS))
parquet.write_table(pyarrow.table({
    "id": number,
    "customer": compute.cast(compute.multiply(number, 7919), "string"),
    "amount": compute.sin(number),
}), path, row_group_size=50_000, compression="zstd")
total = 0
for _ in range(rounds):
    table = parquet.read_table(path)
    some = table.filter(compute.greater(table["amount"], -0.5))
    longest = compute.max(compute.utf8_length(compute.utf8_reverse(some["customer"]))).as_py()
    groups = some.group_by("customer").aggregate([("amount", "sum")])
    order = compute.sort_indices(groups, sort_keys=[("amount_sum", "descending")])
    total += longest + groups.num_rows + len(order)
print(total)
print(time.process_time_ns() - began, file=sys.stderr)
