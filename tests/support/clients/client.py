"""What the tests ask of every client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from support.clients.corpus import Record, Shapes

CLIENT_TIMEOUT_S = 60.0
"""How long a driver waits for a broker that should answer at once."""


class Ack(NamedTuple):
    """Where the broker says that a record now lies."""

    partition: int
    offset: int


class Found(NamedTuple):
    """A record as a consumer hands it out."""

    offset: int
    record: Record


class Client(Protocol):
    """A stock client behind three calls; each opens its own connections and closes them."""

    name: str
    shapes: Shapes

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        """Create a topic, by the client's own means."""

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[Ack]:
        """Write with acks=all; returns when all are acknowledged, in the order of `records`.

        A client that does not learn the offsets of its records returns an empty list.
        """

    def read(self, bootstrap: str, topic: str, ends: Mapping[int, int]) -> dict[int, list[Found]]:
        """Read each partition from its beginning to its end offset, assigned, in no group."""
