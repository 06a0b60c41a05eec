"""How many bytes may be under way, by example and against a model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.tools.mirror.pace import BYTES_MAX, BYTES_MIN, Pace

HERE, THERE = ("t", 0), ("t", 1)
LIMITS = {"small": 300}
PLACES = [("small", 0), ("small", 1), ("t", 0)]
SIZES = [1, 150, 300, 1000, BYTES_MIN // 2, BYTES_MIN, BYTES_MAX]


def test_what_is_under_way_is_bounded_in_all() -> None:
    pace = Pace()
    assert pace.send(HERE, BYTES_MIN - 1)
    assert pace.send(THERE, 1)
    assert not pace.send(HERE, 1)
    pace.acknowledged(THERE, 1)
    assert pace.send(HERE, 1)


def test_a_record_goes_alone_however_large_it_is() -> None:
    pace = Pace()
    pace.limit(LIMITS)
    assert pace.send(("small", 0), 10 * BYTES_MAX)
    assert not pace.send(HERE, 1)
    pace.acknowledged(("small", 0), 10 * BYTES_MAX)
    assert pace.under_way == 0
    assert pace.send(HERE, 1)


def test_each_partition_of_a_topic_with_a_limit_has_it_to_itself() -> None:
    pace = Pace()
    pace.limit(LIMITS)
    assert pace.send(("small", 0), 200)
    assert pace.send(("small", 0), 100)
    assert not pace.send(("small", 0), 1)
    assert pace.send(("small", 1), 300)
    assert pace.send(HERE, 1000)
    pace.acknowledged(("small", 0), 200)
    assert not pace.send(("small", 0), 201)
    assert pace.send(("small", 0), 200)


def test_the_bound_follows_what_the_link_carries() -> None:
    """Not what it carries while the end of a transaction is waited for."""
    pace = Pace()
    assert pace.bytes_max == BYTES_MIN
    for _ in range(20):
        assert pace.send(HERE, BYTES_MIN)
        pace.acknowledged(HERE, BYTES_MIN)
    assert pace.bytes_max == BYTES_MAX
    pace.end_transaction()
    assert pace.bytes_max == BYTES_MAX
    assert pace.send(HERE, 1000)
    pace.acknowledged(HERE, 1000)
    assert pace.send(HERE, BYTES_MAX)
    pace.end_transaction()
    assert pace.bytes_max == BYTES_MIN + 1000
    pace.acknowledged(HERE, BYTES_MAX)
    pace.end_transaction()
    assert pace.bytes_max == BYTES_MIN


class Model:
    """Every record that was sent, in a list."""

    def __init__(self) -> None:
        self.under_way: list[tuple[tuple[str, int], int, int]] = []
        """With the number of the transaction of each."""

        self.heard: list[tuple[int, int]] = []
        """What was acknowledged: in which transaction it was sent, in which that came."""

        self.sizes: list[int] = []
        self.number = 0

    def carried(self, number: int) -> int:
        """Bytes that were sent and acknowledged within a transaction."""
        both = zip(self.heard, self.sizes, strict=True)
        return sum(size for (sent, heard), size in both if sent == heard == number)

    def may_send(self, topic_partition: tuple[str, int], size: int) -> bool:
        total = sum(size for _, size, _ in self.under_way)
        carried = max(self.carried(self.number), self.carried(self.number - 1))
        if total and total + size > min(BYTES_MAX, BYTES_MIN + carried):
            return False
        there = sum(size for at, size, _ in self.under_way if at == topic_partition)
        return (
            topic_partition[0] not in LIMITS
            or not there
            or there + size <= LIMITS[topic_partition[0]]
        )


STEPS = st.one_of(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(SIZES)), st.integers(0, 5), st.none()
)


@given(st.lists(STEPS, max_size=60))
def test_as_in_a_model(steps: list[tuple[tuple[str, int], int] | int | None]) -> None:
    """A pair is a record to send, a number one to acknowledge; None ends a transaction, and all
    that is under way is waited for before anything else is sent, as a session does."""
    pace, model = Pace(), Model()
    pace.limit(LIMITS)

    def acknowledge(index: int) -> None:
        topic_partition, size, sent = model.under_way.pop(index)
        pace.acknowledged(topic_partition, size)
        model.heard.append((sent, model.number))
        model.sizes.append(size)

    for step in steps:
        if isinstance(step, tuple):
            topic_partition, size = step
            may_send = model.may_send(topic_partition, size)
            assert pace.send(topic_partition, size) is may_send
            if may_send:
                model.under_way.append((topic_partition, size, model.number))
        elif step is None:
            pace.end_transaction()
            model.number += 1
            while model.under_way:
                acknowledge(-1)
        elif step < len(model.under_way):
            acknowledge(step)
        assert pace.under_way == sum(size for _, size, _ in model.under_way)
        assert pace.under_way <= BYTES_MAX or len(model.under_way) == 1
