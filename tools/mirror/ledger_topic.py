"""Reads the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Final, TypeVar

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror.failures import Again
from kavka.tools.mirror.ledger import Entry, Ledger
from kavka.tools.mirror.reader import Reader
from kavka.tools.mirror.report import Report, Silence
from kavka.tools.perf.client import now_ms

READ_WITHIN_MS: Final = 60_000
SUCCESSOR_WITHIN_MS: Final = 10_000
OWNER: Final = ["owner"]
OF_PRODUCERS: Final = ("transactional.id", "delivery.timeout.ms")
"""They may be among a producer's properties, and are none of a consumer's."""

T = TypeVar("T")


def read_ledger(properties: Mapping[str, str], topic: str, session: str, report: Report) -> Ledger:
    """All that was written before this session became its owner, which is the last entry of it.

    Only so is it sure to be all: just after an election a leader may not know yet how far its
    records are committed, and end a read too early."""
    entries = []
    silence = Silence(report, f"given all of {topic}")
    for entry in _entries(properties, topic, READ_WITHIN_MS, report, silence):
        entries.append(entry)
        if _owner(topic, entry) == session:
            return _understood(topic, lambda: Ledger(entries))
    raise Again(f"{topic} could not be read within {READ_WITHIN_MS // 1000} s")


def has_successor(properties: Mapping[str, str], topic: str, session: str, report: Report) -> bool:
    """Whether another session becomes its owner after this one, by now or in a moment. Again if it
    can't be read."""
    is_passed = False
    for entry in _entries(properties, topic, SUCCESSOR_WITHIN_MS, report):
        owner = _owner(topic, entry)
        if is_passed and owner:
            return True
        is_passed = is_passed or owner == session
    return not is_passed  # a later owner's entry has replaced this one's


def _owner(topic: str, entry: Entry) -> str:
    """Whom it names, if it is of that kind. Failed."""
    key, value = entry

    def session() -> str:
        if json.loads(key) != OWNER or value is None:
            return ""
        found: str = json.loads(value)["session"]
        return found

    return _understood(topic, session)


def _understood(topic: str, read: Callable[[], T]) -> T:
    """Failed if the ledger has what no mirror writes."""
    try:
        return read()
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise Failed(
            f"{topic} has a record that no mirror has written ({error}): delete it with its copies "
            "in the target, which has the mirror copy everything again"
        ) from error


def _entries(
    properties: Mapping[str, str],
    topic: str,
    within_ms: int,
    report: Report,
    silence: Silence | None = None,
) -> Iterator[Entry]:
    """Those that there are and come until the time is over; `silence` if more must come. Again if
    there may be others, too."""
    end_ms = now_ms() + within_ms
    given = {name: value for name, value in properties.items() if name not in OF_PRODUCERS}
    with closing(Reader(given, report.without_effect)) as reader:
        reader.take({(topic, 0): 0})
        while now_ms() < end_ms:
            for message in reader.read():
                if silence is not None:
                    silence.is_heard()
                yield message.key(), message.value()
            if silence is not None:
                silence.goes_on()
        if not reader.at_end:
            raise Again(f"{topic} could not be read within {within_ms // 1000} s")
