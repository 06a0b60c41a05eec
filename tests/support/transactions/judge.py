"""Whether what lies in the output is what transactions promise. Pure.

- Each record of the input is in the output once, transformed, in the input's order.
- An attempt that its client says is committed is there whole; one that is aborted, or fenced before
  it asked for the commit, is not there at all; of one whose end was never reported, all or nothing
  is there.
- What is there for who reads committed records only is there for all, at the same offsets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from support.transactions.events import Report

Records = Mapping[int, Sequence[tuple[int, bytes]]]
"""Offset and value of what a reader got, by partition, in the order in which it got it."""

SHOWN = 60
"""Characters of a value in a complaint."""


class Attempt(NamedTuple):
    """One transaction of one instance."""

    instance: str
    number: int

    def __str__(self) -> str:
        return f"{self.instance}/{self.number}"


class Output(NamedTuple):
    """A record of the output, taken apart."""

    partition: int
    number: int
    attempt: Attempt
    payload: bytes


class Foreign(ValueError):
    """No instance writes that."""


def input_value(partition: int, number: int) -> bytes:
    """The record of the input: hexadecimal digits, with letters to be made capitals."""
    return b"%d/%d/%s" % (partition, number, _payload(partition, number))


def parse(value: bytes) -> Output:
    """Take a record of the output apart, or raise Foreign."""
    parts = value.split(b"/", 4)
    try:
        partition, number, instance, attempt, payload = parts
        return Output(
            int(partition), int(number), Attempt(instance.decode(), int(attempt)), payload
        )
    except ValueError:
        raise Foreign(repr(value[:SHOWN])) from None


def disorder(records: Records, counts: Mapping[int, int]) -> list[str]:
    """Complaints about lost, doubled, disordered and changed records.

    `counts` says how many records each partition of the input has.
    """
    complaints = []
    for partition, count in counts.items():
        expected = 0
        seen: Counter[int] = Counter()
        for offset, value in records.get(partition, ()):
            at = f"output/{partition}@{offset}"
            try:
                output = parse(value)
            except Foreign as foreign:
                complaints.append(f"{at}: {foreign} is not from the input")
                continue
            number = output.number
            if output.partition != partition or number >= count:
                complaints.append(f"{at}: {value[:SHOWN]!r} does not belong here")
                continue
            if output.payload != _payload(partition, number).upper():
                complaints.append(f"{at}: {value[:SHOWN]!r} is not what {number} becomes")
            if seen[number]:
                complaints.append(f"{at}: {number} is there twice, now by {output.attempt}")
            elif number < expected:
                complaints.append(f"{at}: {number} by {output.attempt} comes after {expected - 1}")
            seen[number] += 1
            expected = max(expected, number + 1)
        lost = [number for number in range(count) if not seen[number]]
        complaints += [f"output/{partition}: {number} is lost" for number in lost]
    return complaints


def broken_promises(records: Records, reports: Iterable[Report]) -> list[str]:
    """Complaints about attempts that are there and should not be, not there, or there in part."""
    there: dict[Attempt, Counter[tuple[int, int]]] = defaultdict(Counter)
    for partition_records in records.values():
        for _, value in partition_records:
            output = parse(value)
            there[output.attempt][output.partition, output.number] += 1
    sent: dict[Attempt, set[tuple[int, int]]] = defaultdict(set)
    ends: dict[Attempt, str] = {}
    for report in reports:
        attempt = Attempt(report.instance, report.attempt)
        if report.what == "sent":
            for place, first, last in report.ranges:
                partition = int(place.rpartition("/")[2])
                sent[attempt].update((partition, number) for number in range(first, last + 1))
        elif report.what in ("committing", "committed", "aborted"):
            ends[attempt] = report.what
        elif report.what == "fenced" and ends.get(attempt) != "committing":
            ends[attempt] = report.what  # else perhaps only the retry of its commit was fenced
    complaints = [
        f"{attempt} was never reported as sent" for attempt in there if attempt not in sent
    ]
    for attempt, records_sent in sent.items():
        complaints += _judged(attempt, ends.get(attempt), records_sent, there[attempt])
    return complaints


def _judged(
    attempt: Attempt,
    end: str | None,
    sent: set[tuple[int, int]],
    there: Counter[tuple[int, int]],
) -> list[str]:
    if end in ("aborted", "fenced") and there:
        return [f"{attempt} is {end}, and {len(there)} of its records are there"]
    if end == "committed" and not there:
        return [f"{attempt} is committed, and none of its records is there"]
    if there and set(there) != sent:
        missing = len(sent - set(there))
        return [f"{attempt} is there in part: {missing} of {len(sent)} records are not"]
    return []


def not_for_all(committed: Records, uncommitted: Records) -> list[str]:
    """Complaints about committed records that who reads uncommitted ones too does not get."""
    complaints = []
    for partition, records in committed.items():
        others = dict(uncommitted.get(partition, ()))
        complaints += [
            f"output/{partition}@{offset}: {value[:SHOWN]!r} is committed, and not in the log"
            for offset, value in records
            if others.get(offset) != value
        ]
    return complaints


def differing(first: Records, second: Records, readings: str) -> list[str]:
    """Complaints where two readers of the same did not get the same."""
    return [
        f"output/{partition}: {readings}: {len(first.get(partition, ()))} records and"
        f" {len(second.get(partition, ()))}, or not the same"
        for partition in sorted({*first, *second})
        if list(first.get(partition, ())) != list(second.get(partition, ()))
    ]


def _payload(partition: int, number: int) -> bytes:
    return b"%016x" % ((partition << 32 | number) * 0x9E3779B97F4A7C15 % 2**64) * 4
