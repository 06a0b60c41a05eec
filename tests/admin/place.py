"""Where a client works: one broker, names for its topics, and what differs between any two."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kavka.compat_tests.raw.codec import wire_client
from kavka.compat_tests.raw.codec.batches import Written, build
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

WITHIN_S: Final = 60.0
PARTITIONS: Final = 2
RECORD_TIMES_MS: Final = ((0, 10), (20,))
"""Of each batch in partition 0 of the topic `data`, relative to `BASE_TIMESTAMP_MS`."""
PRODUCER: Final = (7000, 0)
"""Id and epoch of who wrote them."""

_TOPIC_ID: Final = re.compile(
    r"(?<=TopicId: )[A-Za-z0-9_-]{22}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


class Place:
    """One broker, and one client's part of it: its topics' names begin with `prefix`."""

    def __init__(self, broker: BrokerProcess, prefix: str, folder: Path) -> None:
        self.bootstrap = broker.bootstrap
        self.prefix = prefix
        self.folder = folder
        self._port = broker.port
        self._data_dir = str(broker.data_dir)
        self._markers = 0
        answer = self.request("Metadata", 12, topics=[])
        (node,) = answer["brokers"]
        self.broker_id: int = node["node_id"]
        self._cluster_id: str = answer["cluster_id"]

    def topic(self, label: str) -> str:
        """The name of one of the client's topics."""
        return f"{self.prefix}-{label}"

    # -- what is there before -------------------------------------------------------------

    def write_data(self) -> None:
        """Make the topic `data`, with records by an idempotent producer in partition 0."""
        name = self.topic("data")
        self._create(name, PARTITIONS)
        self.wait_until_applied()
        sequence = 0
        for times in RECORD_TIMES_MS:
            records = [Written(time_ms=time) for time in times]
            batch = build(records, producer=(*PRODUCER, sequence))
            appended = partial(self._appended, name, bytes(batch))
            eventually(appended, within_s=WITHIN_S, what=f"{name} takes records")
            sequence += len(times)

    def _appended(self, name: str, batch: bytes) -> bool:
        with RawConnection(HOST, self._port) as connection:
            return bool(connection.write(name, 0, batch)["error_code"] == 0)

    def _create(self, name: str, partitions: int) -> None:
        kept = {"retention.ms": "-1"}  # the records have timestamps of long ago
        topic = wire_client.new_topic(name, partitions, configs=kept)
        answer = self.request("CreateTopics", 5, topics=[topic], timeout_ms=30_000)
        assert answer["topics"][0]["error_code"] == 0, answer

    def wait_until_applied(self) -> None:
        """Wait until the broker shows what its controller has acknowledged so far.

        Apache Kafka's controller writes a log that the broker reads: when a topic made now can be
        seen, so can all that was done before.
        """
        self._markers += 1
        name = f"marker-{self.prefix}-{self._markers}"
        self._create(name, 1)
        eventually(lambda: self._is_there(name), within_s=WITHIN_S, what=f"{name} is there")

    def _is_there(self, name: str) -> bool:
        answer = self.request(
            "DescribeProducers", 0, topics=[{"name": name, "partition_indexes": [0]}]
        )
        code: int = answer["topics"][0]["partitions"][0]["error_code"]
        return code == 0

    def request(self, api: str, version: int, **values: Any) -> Any:
        """One request on a connection of its own; the answer as plain values."""
        with RawConnection(HOST, self._port) as connection:
            return connection.request(api, version, **values)

    # -- what differs ---------------------------------------------------------------------

    def own(self, names: Sequence[str]) -> list[str]:
        """Of these topics the client's, sorted."""
        return sorted(name for name in names if name.startswith(f"{self.prefix}-"))

    def alike(self, value: Any) -> Any:
        """`value` as plain values, without what is this broker's alone."""
        if isinstance(value, Mapping):
            found = {str(self.alike(key)): self._field(key, item) for key, item in value.items()}
            return dict(sorted(found.items()))
        if isinstance(value, set | frozenset):
            return sorted(self.alike(item) for item in value)
        if isinstance(value, list | tuple):
            return [self.alike(item) for item in value]
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, UUID):
            return "<topic id>"
        if isinstance(value, str):
            return self._text(value)
        return value

    def _field(self, key: Any, value: Any) -> Any:
        if key == "port":
            return "<port>" if value == self._port else value
        if key == "topic_id":
            return "<topic id>" if value else value
        if key == "usable_bytes":
            return "<bytes>" if value > 0 else value
        return self.alike(value)

    def _text(self, text: str) -> str:
        text = text.replace(self._data_dir, "<data>").replace(self._cluster_id, "<cluster id>")
        text = text.replace(f"{HOST}:{self._port}", "<broker>").replace(str(self._port), "<port>")
        return _TOPIC_ID.sub("<topic id>", text)
