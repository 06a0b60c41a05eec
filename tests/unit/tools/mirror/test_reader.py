"""What the mirror's consumer makes of errors: none that lasts is passed over in silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror import reader
from kavka.tools.mirror.failures import Again
from kavka.tools.mirror.reader import COMMIT_MS, LASTS_MS, OTHER_MS, Reader

PLACE = ("t", 0)
STEP_MS = 500


class Source:
    """Stands in for librdkafka's consumer, and for the time: a step passes with each read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms, self.next, self.config = 0, list[Message](), dict[str, str]()
        self.assigned: dict[tuple[str, int], int] = {}
        monkeypatch.setattr(reader, "consumer", self._made)
        monkeypatch.setattr(reader, "next_messages", self._taken)
        monkeypatch.setattr(reader, "now_ms", lambda: self.now_ms)

    def _made(self, config: dict[str, str], **_: object) -> Source:
        self.config = config
        return self

    def _taken(self, *_: object) -> list[Message]:
        self.now_ms += STEP_MS
        taken, self.next = self.next, []
        return taken

    def incremental_assign(self, topic_partitions: list[TopicPartition]) -> None:
        self.assigned |= {
            (topic_partition.topic, topic_partition.partition): topic_partition.offset
            for topic_partition in topic_partitions
        }

    def incremental_unassign(self, topic_partitions: list[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            del self.assigned[topic_partition.topic, topic_partition.partition]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(monkeypatch)


def opened(properties: dict[str, str] | None = None) -> Reader:
    found = Reader(properties or {})
    found.take({PLACE: 5})
    return found


def record(offset: int) -> Message:
    return Message(topic=PLACE[0], partition=PLACE[1], offset=offset, value=b"v")


def error(code: int) -> Message:
    return Message(topic=PLACE[0], partition=PLACE[1], offset=5, error=KafkaError(code))


def reads(source: Source, opened: Reader, code: int, within_ms: int) -> Iterator[Any]:
    """The results of reading while the same error comes again and again."""
    for _ in range(within_ms // STEP_MS):
        source.next = [error(code)]
        yield opened.read()


@pytest.mark.parametrize(
    ("code", "lasts_ms"),
    [(KafkaError._BAD_COMPRESSION, COMMIT_MS), (KafkaError.UNKNOWN, LASTS_MS)],
)
def test_an_error_that_stays_ends_it(source: Source, code: int, lasts_ms: int) -> None:
    found = opened()
    assert list(reads(source, found, code, lasts_ms)) == [[]] * (lasts_ms // STEP_MS)
    with pytest.raises(
        Failed, match=f"t-0 can't be read from offset 5 on: {KafkaError(code).name()}"
    ):
        list(reads(source, found, code, STEP_MS))


def test_what_unpacks_to_too_much_has_its_remedy_named(source: Source) -> None:
    with pytest.raises(Failed, match="more than receive.message.max.bytes of --source-config"):
        list(reads(source, opened(), KafkaError._BAD_COMPRESSION, 2 * COMMIT_MS))


def test_as_much_is_unpacked_as_can_be(source: Source) -> None:
    opened()
    assert source.config["receive.message.max.bytes"] == "2147483647"
    opened({"receive.message.max.bytes": "1000"})
    assert source.config["receive.message.max.bytes"] == "1000"


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_brokers_may_be_down_as_long_as_they_like(source: Source, code: int) -> None:
    assert not any(reads(source, opened(), code, 10 * LASTS_MS))


def test_progress_ends_a_trouble(source: Source) -> None:
    found = opened()
    for offset in range(5, 15):
        assert not any(reads(source, found, KafkaError.UNKNOWN, LASTS_MS // 2))
        source.next = [record(offset)]
        assert [message.offset() for message in found.read()] == [offset]


def test_errors_far_from_each_other_are_no_lasting_one(source: Source) -> None:
    found = opened()
    for _ in range(10):
        assert not any(reads(source, found, KafkaError.UNKNOWN, LASTS_MS // 2))
        source.now_ms += OTHER_MS + STEP_MS


@pytest.mark.parametrize("code", [KafkaError._BAD_MSG, KafkaError._NOT_IMPLEMENTED])
def test_nothing_is_taken_from_behind_a_batch_that_is_passed_over(
    source: Source, code: int
) -> None:
    """What was read before is, and there is time to commit it."""
    found = opened()
    source.next = [record(5), error(code), record(9)]
    assert [message.offset() for message in found.read()] == [5]
    source.next = [record(10)]
    assert found.read() == []
    assert found.positions == {PLACE: 6}
    with pytest.raises(Failed, match="t-0 can't be read from offset 6 on: .*kavka delete-records"):
        for _ in range(COMMIT_MS // STEP_MS):
            found.read()


def test_a_topic_that_is_dropped_has_no_trouble_any_more(source: Source) -> None:
    found = opened()
    source.next = [error(KafkaError._BAD_MSG)]
    found.read()
    found.drop([PLACE])
    assert not any(found.read() for _ in range(2 * COMMIT_MS // STEP_MS))


def test_offsets_that_are_gone_have_it_begin_anew(source: Source) -> None:
    with pytest.raises(Again, match="t-0 is not readable at 5"):
        list(reads(source, opened(), KafkaError._AUTO_OFFSET_RESET, STEP_MS))


def test_no_permission_ends_it_at_once(source: Source) -> None:
    with pytest.raises(Failed, match="the source refuses to be read: TOPIC_AUTHORIZATION_FAILED"):
        list(reads(source, opened(), KafkaError.TOPIC_AUTHORIZATION_FAILED, STEP_MS))


def test_a_partition_that_rests_is_read_on_from_where_it_was(source: Source) -> None:
    """What was read ahead does not count."""
    found = opened()
    source.next = [record(5), record(6)]
    assert len(found.read()) == 2
    found.rest([PLACE])
    assert source.assigned == {}
    source.next = [record(7), error(KafkaError._PARTITION_EOF), error(KafkaError._BAD_MSG)]
    assert found.read() == []
    assert found.positions == {PLACE: 7}
    found.resume([PLACE])
    assert source.assigned == {PLACE: 7}
    source.next = [record(7)]
    assert [message.offset() for message in found.read()] == [7]


def test_a_partition_that_rests_may_be_dropped(source: Source) -> None:
    found = opened()
    found.rest([PLACE])
    found.drop([PLACE])
    found.take({PLACE: 9})
    assert source.assigned == found.positions == {PLACE: 9}
    source.next = [record(9)]
    assert len(found.read()) == 1
