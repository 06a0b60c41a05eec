"""Where leaders say that partitions end, asked again and again.

A leader's high watermark does not go back as long as it leads; what is stable is not behind it. The
next leader may begin a little lower, as in Apache Kafka: it has yet to hear how far the last one
had got, and shows nobody anything that could be lost.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from kavka.wire.errors import ErrorCode
from sim.history import History, Place
from support.memory_broker import fetching
from support.ports import HOST
from support.raw import RawConnection

EVERY_S = 0.25
METADATA, FETCH = 12, 11
FETCHED_BYTES = 1


class Watermarks:
    """What leaders have said. Pure."""

    def __init__(self, history: History) -> None:
        self.said = 0
        """How often a leader has answered."""
        self._history = history
        self._highest: dict[tuple[Place, int], int] = {}
        """High watermark by partition and leader epoch."""
        self._last: dict[Place, int] = {}

    def last(self, place: Place) -> int:
        """The last high watermark of a partition, of any leader."""
        return self._last.get(place, 0)

    def take(self, place: Place, epoch: int, high_watermark: int, last_stable: int) -> None:
        """A leader has answered in an epoch."""
        self.said += 1
        before = self._highest.get((place, epoch), 0)
        if high_watermark < before:
            self._history.violation(
                f"I6 high watermark: {place} went from {before} to {high_watermark} in leader "
                f"epoch {epoch}"
            )
        if last_stable > high_watermark:
            self._history.violation(
                f"I6 last stable offset: {place} is stable up to {last_stable}, and its high "
                f"watermark is {high_watermark}"
            )
        self._highest[place, epoch] = max(before, high_watermark)
        self._last[place] = high_watermark


class Prober(threading.Thread):
    """Asks one broker what it leads, and where that ends."""

    def __init__(self, port: int, topics: Iterable[str], watermarks: Watermarks) -> None:
        super().__init__(name=f"prober of {port}", daemon=True)
        self._port = port
        self._topics = [{"name": topic, "topic_id": None} for topic in topics]
        self._watermarks = watermarks
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            try:
                with RawConnection(HOST, self._port) as connection:
                    while not self._stopping.wait(EVERY_S):
                        self._ask(connection)
            except OSError:  # it is down, or does not answer
                continue

    def _ask(self, connection: RawConnection) -> None:
        described = connection.request(
            "Metadata", METADATA, topics=self._topics, allow_auto_topic_creation=False
        )
        own = {broker["node_id"] for broker in described["brokers"] if broker["port"] == self._port}
        for topic in described["topics"]:
            for partition in topic["partitions"]:
                if partition["leader_id"] in own:
                    place = topic["name"], partition["partition_index"]
                    self._fetch(connection, place, partition["leader_epoch"])

    def _fetch(self, connection: RawConnection, place: Place, epoch: int) -> None:
        request = fetching(
            {place: self._watermarks.last(place)},
            max_bytes=FETCHED_BYTES,
            current_leader_epoch=epoch,
        )
        answer: Any = connection.request("Fetch", FETCH, **request)
        for topic in answer["responses"]:
            for partition in topic["partitions"]:
                if partition["error_code"] == ErrorCode.NONE:
                    self._watermarks.take(
                        place, epoch, partition["high_watermark"], partition["last_stable_offset"]
                    )

    def stop(self) -> None:
        """Ask no more."""
        self._stopping.set()
