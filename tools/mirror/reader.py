"""Reads from the source: committed records of given partitions, from given offsets on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.partition_offsets import Place
from kavka.tools.mirror.writer import COMMON, Again
from kavka.tools.perf.client import consumer, error_text, library, next_messages

MESSAGES_MAX: Final = 2_000
POLL_S: Final = 0.1
PROPERTIES: Final = {
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "fetch.max.wait.ms": "100",
    "group.id": "kavka-mirror",  # librdkafka wants one; it neither joins it nor commits
    "isolation.level": "read_committed",
}
HOPELESS: Final = ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED")


class Reader:
    """One consumer."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._client = consumer({**COMMON, **properties, **PROPERTIES})
        self.positions: dict[Place, int] = {}
        """Where each partition is read next."""

    def take(self, positions: Mapping[Place, int]) -> None:
        """More partitions."""
        self.positions |= positions
        if positions:
            partition = library().TopicPartition
            self._client.incremental_assign(
                [partition(*place, offset) for place, offset in positions.items()]
            )

    def drop(self, places: Iterable[Place]) -> None:
        """Partitions that are read no longer."""
        gone = list(places)
        for place in gone:
            del self.positions[place]
        if gone:
            partition = library().TopicPartition
            self._client.incremental_unassign([partition(*place) for place in gone])

    def read(self) -> list[Any]:
        """The next records; none if nothing has come for a moment. Again, Failed."""
        found = []
        for message in next_messages(self._client, MESSAGES_MAX, POLL_S):
            place = message.topic(), message.partition()
            error = message.error()
            if place not in self.positions:
                continue  # dropped meanwhile
            if error is None:
                self.positions[place] = message.offset() + 1
                found.append(message)
            elif error.name() == "_PARTITION_EOF":
                self.positions[place] = max(self.positions[place], message.offset())
            elif error.name() == "_AUTO_OFFSET_RESET":
                raise Again(f"{place[0]}-{place[1]} is not readable at {self.positions[place]}")
            elif error.name() in HOPELESS:
                raise Failed(f"the source refuses to be read: {error_text(error)}")
        return found

    def close(self) -> None:
        """Let the consumer go."""
        self._client.close()
