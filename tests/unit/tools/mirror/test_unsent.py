"""Records that wait until they may be sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.mirror.pace import BYTES_MAX
from kavka.tools.mirror.unsent import (
    ALL_ASIDE_BYTES,
    ASIDE_BYTES,
    ASIDE_RECORDS,
    RECORD_BYTES,
    RECORDS_MAX,
    Unsent,
    sized,
)

HERE, THERE = ("t", 0), ("t", 1)


def record(topic_partition: TopicPartition, offset: int, size: int = 1) -> Message:
    return Message(
        topic=topic_partition[0], partition=topic_partition[1], offset=offset, value=bytes(size)
    )


def of_slow(*topics: str) -> Unsent:
    """Empty; these topics are slow."""
    unsent = Unsent()
    unsent.slow = topics
    return unsent


def taken(
    unsent: Unsent, count: int, *, only: TopicPartition | None = None
) -> list[tuple[TopicPartition, int]]:
    """So many at most, those of one partition if it is given."""
    left = count

    def may_send(topic_partition: TopicPartition, _: int) -> bool:
        nonlocal left
        if not left or only not in (None, topic_partition):
            return False
        left -= 1
        return True

    return [
        (topic_partition, message.offset())
        for topic_partition, (message, *_) in unsent.take(may_send)
    ]


def test_a_partition_that_may_send_nothing_holds_up_no_other() -> None:
    unsent = Unsent()
    unsent.add([record(HERE, 5), record(THERE, 7), record(THERE, 8)])
    assert taken(unsent, 9, only=THERE) == [(THERE, 7), (THERE, 8)]
    assert (len(unsent), unsent.positions()) == (1, {HERE: 5})


def test_partitions_take_turns() -> None:
    unsent = Unsent()
    unsent.add(
        record(topic_partition, offset) for offset in range(3) for topic_partition in (HERE, THERE)
    )
    assert taken(unsent, 2) == [(HERE, 0), (HERE, 1)]
    assert taken(unsent, 2) == [(THERE, 0), (THERE, 1)]
    assert taken(unsent, 9) == [(HERE, 2), (THERE, 2)]
    assert not unsent


def test_what_is_dropped_is_not_sent() -> None:
    unsent = Unsent()
    unsent.add([record(HERE, 5, BYTES_MAX), record(THERE, 7)])
    assert not unsent.has_room
    unsent.drop([HERE, ("other", 0)])
    assert unsent.has_room
    assert taken(unsent, 9) == [(THERE, 7)]


def test_no_more_is_read_while_too_many_wait() -> None:
    unsent = Unsent()
    unsent.add(record(HERE, offset) for offset in range(RECORDS_MAX))
    assert not unsent.has_room
    assert len(taken(unsent, 1)) == 1
    assert unsent.has_room


@given(st.lists(st.one_of(st.sampled_from([HERE, THERE]), st.integers(0, 5)), max_size=50))
def test_each_record_is_sent_once_in_the_order_of_its_partition(
    steps: list[TopicPartition | int],
) -> None:
    """A place is a record that was read, a number how many may be sent."""
    unsent, waiting = Unsent(), defaultdict[TopicPartition, list[int]](list)
    for offset, step in enumerate(steps):
        if isinstance(step, int):
            for topic_partition, found in taken(unsent, step):
                assert found == waiting[topic_partition].pop(0)
        else:
            unsent.add([record(step, offset)])
            waiting[step].append(offset)
        assert unsent.positions() == {
            topic_partition: some[0] for topic_partition, some in waiting.items() if some
        }
        assert len(unsent) == sum(map(len, waiting.values()))


HEADERS = st.lists(st.tuples(st.text(max_size=200), st.none() | st.binary(max_size=200)))


@given(st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200), HEADERS)
def test_no_batch_is_larger_than_its_records_are_taken_for(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    message = Message(topic="t", partition=0, offset=3, key=key, value=value, headers=headers)
    _, found, size = sized(message)
    assert (found or []) == headers
    written = Written(key=key, value=value, headers=headers)
    for count in (1, 3, 200):
        assert len(build([written] * count)) <= count * size
    assert size >= RECORD_BYTES


def test_a_record_that_can_t_be_copied_is_named() -> None:
    class Odd:
        """A message as confluent-kafka gives it where it can't read a header's key."""

        def headers(self) -> None:
            raise SystemError

        def __getattr__(self, name: str) -> Callable[[], object]:
            return lambda: getattr(record(HERE, 3), name)()

    with pytest.raises(Failed, match="the record of t-0 at offset 3 has a header whose key is not"):
        Unsent().add([Odd()])


def test_a_partition_that_is_slow_is_set_aside_until_little_of_it_waits() -> None:
    unsent = of_slow("t")
    unsent.add([record(THERE, 0)])
    unsent.add(record(HERE, offset) for offset in range(ASIDE_RECORDS))
    unsent.add(record(("u", 0), offset) for offset in range(ASIDE_RECORDS))
    assert unsent.set_aside() == [HERE]
    assert unsent.set_aside() == []
    taken(unsent, 3 * ASIDE_RECORDS // 4, only=HERE)
    assert unsent.take_back() == []
    taken(unsent, 1, only=HERE)
    assert unsent.take_back() == [HERE]
    assert unsent.take_back() == []


def test_a_partition_is_slow_by_its_bytes_too() -> None:
    unsent = of_slow("t")
    unsent.add([record(HERE, 0, ASIDE_BYTES)])
    assert unsent.set_aside() == [HERE]
    assert taken(unsent, 1) == [(HERE, 0)]
    assert unsent.take_back() == [HERE]


def test_one_that_is_dropped_does_not_come_back() -> None:
    unsent = of_slow("t")
    unsent.add([record(HERE, 0, ASIDE_BYTES)])
    unsent.set_aside()
    unsent.drop([HERE])
    assert unsent.take_back() == []


def test_several_slow_partitions_take_no_room_from_the_others() -> None:
    """Though none of them has so much that it is set aside."""
    unsent = of_slow("t")
    for at in range(20):
        unsent.add(record(("t", at), offset) for offset in range(ASIDE_RECORDS - 1))
    unsent.add(record(("u", 0), offset) for offset in range(RECORDS_MAX - 1))
    assert unsent.set_aside() == []
    assert unsent.has_room
    unsent.add([record(("u", 0), RECORDS_MAX)])
    assert not unsent.has_room


def test_many_that_are_not_set_aside_yet_are_bounded_together() -> None:
    unsent, many = of_slow("t"), 2 * ALL_ASIDE_BYTES // ASIDE_BYTES
    topic_partitions = [("t", at) for at in range(many)]
    unsent.add(record(topic_partition, 0, ASIDE_BYTES // 2) for topic_partition in topic_partitions)
    assert unsent.set_aside() == topic_partitions


def test_of_very_many_slow_partitions_little_waits_and_others_are_read() -> None:
    """They come back when nothing of them waits."""
    unsent, many = of_slow("t"), ALL_ASIDE_BYTES // ASIDE_BYTES
    for at in range(many):
        unsent.add([record(("t", at), 0, ASIDE_BYTES)])
        assert unsent.set_aside() == [("t", at)]
    more = ("t", many)
    unsent.add([record(more, 0), record(more, 1)])
    assert unsent.set_aside() == [more]
    assert unsent.has_room
    assert taken(unsent, 1, only=more) == [(more, 0)]
    assert unsent.take_back() == []
    assert taken(unsent, 1, only=more) == [(more, 1)]
    assert unsent.take_back() == [more]
    assert unsent.has_room
