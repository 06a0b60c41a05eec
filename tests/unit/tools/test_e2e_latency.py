"""Where the latency test begins to read, if librdkafka does not know its new topic yet."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kavka.tools.admin.errors import Failed
from kavka.tools.perf.e2e_latency import _begin


class Reader:
    """Stands in for librdkafka's consumer, which says these errors first."""

    def __init__(self, errors: list[int]) -> None:
        self._errors = errors
        self.refreshed: list[str] = []
        self.assigned: list[TopicPartition] = []

    def get_watermark_offsets(self, _: TopicPartition, timeout: float) -> tuple[int, int]:
        if self._errors:
            raise KafkaException(KafkaError(self._errors.pop(0)))
        return 3, 7

    def poll(self, timeout_s: float) -> None:
        pass

    def list_topics(self, topic: str, timeout_s: float) -> None:
        self.refreshed.append(topic)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions


def test_a_topic_that_is_not_known_yet_is_asked_for_again() -> None:
    errors = [KafkaError._UNKNOWN_PARTITION, KafkaError.LEADER_NOT_AVAILABLE]
    reader = Reader(errors)
    _begin(reader, "t", [0, 1])
    assert [
        (topic_partition.topic, topic_partition.partition, topic_partition.offset)
        for topic_partition in reader.assigned
    ] == [
        ("t", 0, 7),
        ("t", 1, 7),
    ]
    assert reader.refreshed == ["t", "t"]


def test_another_error_is_said_in_one_sentence() -> None:
    with pytest.raises(Failed, match="Topic authorization failed"):
        _begin(Reader([KafkaError.TOPIC_AUTHORIZATION_FAILED]), "t", [0])
