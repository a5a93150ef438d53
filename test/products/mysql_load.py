# SPDX-License-Identifier: Apache-2.0
"""A load for MySQL, over its socket:

  mysql_load.py SOCKET prepare          a table, and telemetry that traces
  mysql_load.py SOCKET statements N     N statements of six kinds, in two sessions
  mysql_load.py SOCKET few STATEMENT    this statement, three that compute long, one that sleeps, and one that waits for
                                        another session's row lock
"""

import sys
import threading

import pymysql

ROWS = 32000
SLEEP_S, HELD_S = 2.0, 2.0
KINDS = (
    "SELECT note FROM orders WHERE id = {0}",
    "SELECT COUNT(*) FROM orders WHERE note LIKE '%f{1}e%'",
    "SELECT id FROM orders ORDER BY note, amount LIMIT {1}",
    "SELECT customer, SUM(amount) FROM orders GROUP BY customer HAVING SUM(amount) > {0}",
    "SELECT COUNT(*) FROM orders a JOIN orders b ON a.id = b.customer WHERE a.id < 300 + {1}",
    "UPDATE orders SET amount = amount + 1 WHERE id BETWEEN {0} AND {0} + 9",
)
socket, what = sys.argv[1:3]


def session():
    return pymysql.connect(unix_socket=socket, user="root", autocommit=True, database="shop")


def ask(connection, statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def prepare():
    connection = pymysql.connect(unix_socket=socket, user="root", autocommit=True)
    # The component stays installed when the server starts again.
    if not ask(connection, "SELECT 1 FROM mysql.component WHERE component_urn LIKE '%telemetry'"):
        ask(connection, "INSTALL COMPONENT 'file://component_telemetry'")
    for statement in (
            "DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop", "USE shop",
            "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount INT, note VARCHAR(80))",
            "SET SESSION cte_max_recursion_depth = 100000",
            "INSERT INTO orders WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
            "SELECT i, i %% 500, i * 7919 %% 1000, SHA2(i, 256) FROM n" % ROWS,
            "SET GLOBAL telemetry.trace_enabled = ON"):
        ask(connection, statement)


def statements(n, first):
    connection = session()
    for i in range(first, n, 2):
        ask(connection, KINDS[i // 2 % len(KINDS)].format(i * 31 % (ROWS - 20) + 1, i % 10))
    connection.close()


def few():
    holder, waiter = session(), session()
    ask(holder, sys.argv[3])
    for _ in range(3):
        ask(holder, "SELECT BENCHMARK(3000000, SHA2('x', 256))")
    ask(holder, "SELECT SLEEP(%s)" % SLEEP_S)
    ask(holder, "BEGIN")
    ask(holder, "UPDATE orders SET amount = 0 WHERE id = 1")
    thread = threading.Thread(target=ask, args=(waiter, "DELETE FROM orders WHERE id = 1"))
    thread.start()
    watcher = session()
    while not ask(watcher, "SELECT 1 FROM performance_schema.data_lock_waits"):
        pass
    ask(holder, "DO SLEEP(%s)" % HELD_S)
    ask(holder, "COMMIT")
    thread.join()
    for connection in (holder, waiter, watcher):
        connection.close()


if what == "prepare":
    prepare()
elif what == "statements":
    threads = [threading.Thread(target=statements, args=(int(sys.argv[3]), first)) for first in (0, 1)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
else:
    few()
