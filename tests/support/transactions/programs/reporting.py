"""What a program that consumes, transforms and produces reads and reports, with any client.

The program is one instance of many that share a group. It is started with the broker's address,
the topics that it reads and writes, its group, its transactional id and its own name, then
settings, each `consumer.NAME=VALUE`, `producer.NAME=VALUE` or `hold=true`. A record of the input
is `PARTITION/NUMBER/PAYLOAD`; it becomes `PARTITION/NUMBER/INSTANCE/ATTEMPT/PAYLOAD` with its
payload in capitals, in the same partition of the output. Each transaction is an attempt, with a
number of its own, on at most BATCH records, whose offsets are committed in it. With an odd number
it is flushed and stays open for DWELL_MS, so that an instance that is killed is often in the middle
of one; each ABORTED_EVERY-th is flushed and aborted on purpose.

At the end of its standard input the program ends the transaction it is at, then itself. On
standard output it reports, a line of JSON each, as it happens: `t` is the wall clock in ms, `m` the
instance, `e` what, `a` the attempt:

    ready                            the producer has its id
    sent a, r: [[PLACE, FIRST, LAST]]   it has written these, by their offsets in the input, and
                                     asks for the end of the transaction after this line only
    held a                           with hold=true, at its first attempt, whose records lie in the
                                     log: it waits for a line; then it writes all again, flushes,
                                     and commits
    refused a, why                   with hold=true: what it wrote after the line was not taken
    committing a                     it asks the client to commit
    committed a                      the client says so
    aborted a, why                   the client says so; the records come again in another attempt
    fenced a, why                    another has the transactional id, says the client; it ends
    failed why                       it ends by itself for another reason, with exit code 1; `why`
                                     begins with HANGS if a call does not return, and that not
                                     for a reason within the client that is known
    left                             it has ended politely
"""

from __future__ import annotations

from typing import Any

from support.groups.programs.reporting import value_of

BATCH = 100
DWELL_MS = 20
ABORTED_EVERY = 8
POLL_MS = 100
HANGS = "hangs in"


class Abort(Exception):
    """The transaction has to be aborted; the producer is well."""


class Fenced(Exception):
    """Another has the transactional id."""


def transformed(value: bytes, instance: str, attempt: int) -> bytes:
    """What becomes of a record."""
    partition, number, payload = value.split(b"/", 2)
    return b"%s/%s/%s/%d/%s" % (partition, number, instance.encode(), attempt, payload.upper())


def settings(of: str, given: list[str]) -> dict[str, str]:
    """Those that begin with `of`, without that."""
    pairs = (setting.partition("=") for setting in given)
    return {name.removeprefix(of): value for name, _, value in pairs if name.startswith(of)}


def keywords(of: str, given: list[str]) -> dict[str, Any]:
    """The same as arguments of a function."""
    found = settings(of, given)
    return {name.replace(".", "_"): value_of(value) for name, value in found.items()}
