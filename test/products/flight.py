# SPDX-License-Identifier: Apache-2.0
"""A Flight server that traces its calls, and a client of it:

  flight.py serve          prints its port; ends at SIGTERM, and prints then, on standard error, a line "METHOD NS" for
                           each method: the CPU time of its handlers, by the clock of their threads
  flight.py ask PORT N     N calls of each kind; prints the answers
"""

import signal
import sys
import threading
import time

import pyarrow
import pyarrow.compute as compute
import pyarrow.flight as flight

ROWS = 400_000
took = {"DoGet": 0, "DoAction": 0}
counting = threading.Lock()


def summary(number):
    amount = compute.sin(pyarrow.array(range(number, number + ROWS)))
    return pyarrow.table({"amount": amount.take(compute.sort_indices(amount))[:10]})


def customers(number):
    name = compute.cast(compute.multiply(pyarrow.array(range(number, number + ROWS)), 7919), "string")
    return str(compute.count_distinct(compute.utf8_reverse(name))).encode()


def timed(method, function, *arguments):
    began = time.thread_time_ns()
    answer = function(*arguments)
    with counting:
        took[method] += time.thread_time_ns() - began
    return answer


class Orders(flight.FlightServerBase):
    def do_get(self, context, ticket):
        return flight.RecordBatchStream(timed("DoGet", summary, int(ticket.ticket)))

    def do_action(self, context, action):
        return [timed("DoAction", customers, int(action.body.to_pybytes()))]


def serve():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    # From here on it serves, in its own threads.
    server = Orders("grpc://127.0.0.1:0", middleware={"tracing": flight.TracingServerMiddlewareFactory()})
    print(server.port, flush=True)
    signal.sigwait([signal.SIGTERM])
    server.shutdown()
    for method, ns in took.items():
        print(method, ns, file=sys.stderr)


def ask(port, calls):
    client = flight.FlightClient("grpc://127.0.0.1:%s" % port)
    for i in range(calls):
        print(client.do_get(flight.Ticket(b"%d" % i)).read_all().to_pydict())
        print([answer.body.to_pybytes() for answer in client.do_action(flight.Action("customers", b"%d" % i))])


if sys.argv[1] == "serve":
    serve()
else:
    ask(sys.argv[2], int(sys.argv[3]))
