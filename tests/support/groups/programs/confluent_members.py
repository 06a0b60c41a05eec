"""confluent-kafka's consumers in groups, of either protocol; see reporting.py."""

from __future__ import annotations

import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from support.groups.programs import hosting
from support.groups.programs.reporting import POLL_MS, parted, place

BOOTSTRAP, TOPIC, *SETTINGS = sys.argv[1:]
BATCH = 500


class ConfluentMember(hosting.Member):
    def open(self) -> None:
        self.found: dict[str, list[int]] = {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": BOOTSTRAP,
                "group.id": self.group,
                "client.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,  # that its broker goes away is the test
                **dict(setting.split("=", 1) for setting in SETTINGS),
            }
        )
        self.consumer.subscribe(
            [TOPIC],
            on_assign=lambda _, topic_partitions: self.assigned(names(topic_partitions)),
            on_revoke=lambda _, topic_partitions: self.revoked(names(topic_partitions)),
            on_lost=lambda _, topic_partitions: self.revoked(names(topic_partitions), "lost"),
        )

    def poll(self) -> dict[str, list[int]]:
        self.found = {}
        for number in range(BATCH):
            message = self.consumer.poll(0 if number else POLL_MS / 1000)
            if message is None:
                break
            if message.error() is None:
                at = place(message.topic(), message.partition())
                self.found.setdefault(at, []).append(message.offset())
        return self.found

    def revoked(self, places: list[str], kind: str = "revoked") -> None:
        for at in places:
            self.found.pop(at, None)  # gone before they were processed
        super().revoked(places, kind)

    def commit(self, offsets: dict[str, int]) -> None:
        to_commit = [TopicPartition(*parted(at), offset) for at, offset in offsets.items()]
        try:
            results: list[Any] = self.consumer.commit(offsets=to_commit, asynchronous=False)
        except KafkaException as error:
            self.uncommitted.refused(error, offsets)
            return
        failed = {
            place(result.topic, result.partition): result.error
            for result in results
            if result.error
        }
        if failed:
            self.uncommitted.refused(failed, {at: offsets[at] for at in failed})
        taken = {at: offset for at, offset in offsets.items() if at not in failed}
        if taken:
            self.uncommitted.committed(taken)

    def seek(self, at: str, offset: int) -> None:
        self.consumer.seek(TopicPartition(*parted(at), offset))

    def close(self) -> None:
        self.consumer.close()


def names(topic_partitions: list[Any]) -> list[str]:
    return [
        place(topic_partition.topic, topic_partition.partition)
        for topic_partition in topic_partitions
    ]


if __name__ == "__main__":
    hosting.run(ConfluentMember)
