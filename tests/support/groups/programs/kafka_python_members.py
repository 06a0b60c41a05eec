"""kafka-python's consumers in groups, of 2.0.2 and 3; see reporting.py."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from support.groups.programs import hosting
from support.groups.programs.reporting import parted, place, value_of

BOOTSTRAP, TOPIC, *SETTINGS = sys.argv[1:]

MORE_FIELDS = [-1] * (len(OffsetAndMetadata._fields) - 2)
"""The leader's epoch, of which 2.0.2 knows nothing."""

POLL_MS = 2000
"""Long: when a poll of 3.0.12 ends while its group is being joined, and the answer comes before the
next poll, the client forgets its assignment, and its member is gone after the session's time."""
COMMIT_TIMEOUT_MS = 5000
TAKES_TIMEOUT = "timeout_ms" in inspect.signature(KafkaConsumer.commit).parameters
COMMIT_OPTIONS = {"timeout_ms": COMMIT_TIMEOUT_MS} if TAKES_TIMEOUT else {}


def settings() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for setting in SETTINGS:
        name, _, value = setting.partition("=")
        found[name.replace(".", "_")] = value_of(value)
    if "api_version" in found:
        found["api_version"] = tuple(map(int, found["api_version"].split(".")))
    return found


class KafkaPythonMember(hosting.Member, ConsumerRebalanceListener):  # type: ignore[misc]
    def open(self) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=BOOTSTRAP,
            group_id=self.group,
            client_id=self.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **settings(),
        )
        if TOPIC.startswith("^"):
            self.consumer.subscribe(pattern=TOPIC, listener=self)
        else:
            self.consumer.subscribe([TOPIC], listener=self)
            # A leader that does not know the topic yet may assign nothing, for ever.
            self.consumer.topics()

    def poll(self) -> dict[str, list[int]]:
        try:
            found = self.consumer.poll(POLL_MS)
        except KafkaError as error:
            self.uncommitted.refused(error, {})
            return {}
        return {place(*at): [record.offset for record in records] for at, records in found.items()}

    def commit(self, offsets: dict[str, int]) -> None:
        to_commit = {
            TopicPartition(*parted(at)): OffsetAndMetadata(offset, "", *MORE_FIELDS)
            for at, offset in offsets.items()
        }
        try:
            self.consumer.commit(to_commit, **COMMIT_OPTIONS)
        except KafkaError as error:
            self.uncommitted.refused(error, offsets)
        else:
            self.uncommitted.committed(offsets)

    def seek(self, at: str, offset: int) -> None:
        self.consumer.seek(TopicPartition(*parted(at)), offset)

    def close(self) -> None:
        self.consumer.close()

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.assigned([place(*topic_partition) for topic_partition in assigned])

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.revoked([place(*topic_partition) for topic_partition in revoked])

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.revoked([place(*topic_partition) for topic_partition in lost], "lost")


if __name__ == "__main__":
    hosting.run(KafkaPythonMember)
