"""What the mirror's producer makes of librdkafka's delivery reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message

from kavka.tools.mirror import writer
from kavka.tools.mirror.writer import Again, Writer

OFFSET_INVALID = -1001
"""What librdkafka reports where the response was lost, and a later batch was acknowledged."""


class Reporting:
    """Stands in for librdkafka's producer: each record is delivered at once."""

    def __init__(self, offsets: list[int]) -> None:
        self._offsets = iter(offsets)

    def __len__(self) -> int:
        return 0

    def poll(self, timeout_s: float) -> None:
        pass

    def init_transactions(self, timeout_s: float) -> None:
        pass

    def begin_transaction(self) -> None:
        pass

    def produce(self, topic: str, *_: Any, on_delivery: Callable[..., None], **__: Any) -> None:
        on_delivery(None, Message(topic=topic, partition=0, offset=next(self._offsets)))


def sent(monkeypatch: pytest.MonkeyPatch, offsets: list[int]) -> Writer:
    """A writer that has sent records, which are delivered at these offsets."""
    monkeypatch.setattr(writer, "producer", lambda _: Reporting(offsets))
    found = Writer({}, "mirror")
    for number in range(len(offsets)):
        found.send(Message(topic="t", partition=0, offset=number, value=b"v", timestamp=(1, 1)))
    return found


def test_the_offsets_of_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent(monkeypatch, [7, 8]).delivered() == {("t", 0): ([0, 1], [7, 8])}


def test_a_record_without_offset_has_the_transaction_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Again, match="t-0: the target did not give every record's offset"):
        sent(monkeypatch, [7, OFFSET_INVALID]).delivered()
