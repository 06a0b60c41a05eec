"""The judge finds what is planted in a history, by its kind, and nothing in one that is well."""

from __future__ import annotations

from sim.history import (
    ABORTED,
    COMMITTED,
    UNKNOWN,
    UNKNOWN_OFFSET,
    Commit,
    End,
    Fetched,
    History,
    Place,
    Reading,
    Seen,
    Transaction,
    Write,
)
from sim.judge import judge

PLACE: Place = ("t", 0)
RECORDS = 6


class Planted:
    """A history that is well: a producer has written some records, which two readers have read."""

    def __init__(self) -> None:
        self.history = History(lambda: 1.0)
        self.values = [b"p:%d:" % number for number in range(RECORDS)]
        for offset, value in enumerate(self.values):
            self.history.writes[value] = Write("p", PLACE, is_idempotent=True, is_dense=True)
            self.history.acknowledged[value] = offset
        self.live = self.reading("live", self.values)
        self.final = self.reading("last", self.values)
        self.committed: dict[Place, Reading] = {}
        self.history.readings += [self.live, self.final]

    def reading(self, name: str, values: list[bytes], *, committed: bool = False) -> Reading:
        """What a reader got."""
        seen = [Seen(offset, value, None) for offset, value in enumerate(values)]
        return Reading(name, PLACE, committed, seen, len(values))

    def transaction(self, outcome: str) -> list[bytes]:
        """A transaction of two records; their values."""
        transaction = Transaction("x", 1)
        transaction.outcome = outcome
        for value in (b"x:0:", b"x:1:"):
            transaction.values[value] = PLACE
            transaction.keys[value] = None
            self.history.writes[value] = Write("x", PLACE, is_idempotent=True, is_dense=False)
        self.history.transactions.append(transaction)
        return list(transaction.values)

    def read_committed(self, values: list[bytes]) -> None:
        """What who reads committed records gets in the end."""
        self.committed[PLACE] = self.reading("committed", values, committed=True)

    def kinds(self) -> list[str]:
        """The kinds of violations that are found, each once, in order."""
        found = judge(self.history, {PLACE: self.final}, self.committed, {}, [])
        return list(
            dict.fromkeys(" ".join(violation.split(":")[0].split()[:2]) for violation in found)
        )


def test_nothing_is_found_where_all_is_well() -> None:
    planted = Planted()
    planted.read_committed(planted.values + planted.transaction(COMMITTED))
    planted.live.ends += [End(0.0, 0, 2), End(0.5, 0, 2), End(1.0, 0, 6)]
    assert planted.kinds() == []


def test_a_lost_write() -> None:
    planted = Planted()
    planted.final.records.pop()
    assert planted.kinds() == ["I1 lost"]


def test_a_write_that_lies_elsewhere_than_its_producer_was_told() -> None:
    planted = Planted()
    planted.history.acknowledged[planted.values[2]] = 4
    assert planted.kinds() == ["I1 lost"]


def test_a_write_may_lie_anywhere_if_its_producer_was_not_told() -> None:
    planted = Planted()
    planted.history.acknowledged[planted.values[2]] = UNKNOWN_OFFSET
    assert planted.kinds() == []
    del planted.final.records[2]
    assert planted.kinds() == ["I1 lost", "I5 gap"]


def test_a_duplicate() -> None:
    planted = Planted()
    planted.final.records.append(Seen(RECORDS, planted.values[-1], None))
    assert planted.kinds() == ["I3 duplicate", "I5 inversion"]


def test_a_record_that_nobody_wrote() -> None:
    planted = Planted()
    planted.final.records.append(Seen(RECORDS, b"other:0:", None))
    assert planted.kinds() == ["I2 foreign"]


def test_two_records_that_changed_places() -> None:
    planted = Planted()
    for reading in (planted.live, planted.final):
        first, second = reading.records[2:4]
        reading.records[2:4] = [Seen(2, second.value, None), Seen(3, first.value, None)]
    planted.history.acknowledged[planted.values[2]] = 3
    planted.history.acknowledged[planted.values[3]] = 2
    assert planted.kinds() == ["I5 gap", "I5 inversion"]


def test_a_gap_is_one_unless_the_producer_gave_up_what_is_missing() -> None:
    planted = Planted()
    missing = planted.values[2]
    del planted.final.records[2], planted.history.acknowledged[missing]
    assert planted.kinds() == ["I5 gap"]
    planted.history.given_up[missing] = "timed out"
    assert planted.kinds() == []


def test_an_offset_that_had_another_value_before() -> None:
    planted = Planted()
    planted.live.records[3] = Seen(3, b"p:9:", None)
    assert planted.kinds() == ["I2 changed"]


def test_a_high_watermark_that_goes_back() -> None:
    planted = Planted()
    planted.live.ends += [End(0.0, 0, 5), End(0.5, 0, 4)]
    assert planted.kinds() == ["I6"]


def test_an_aborted_transaction_that_is_read() -> None:
    planted = Planted()
    planted.read_committed(planted.transaction(ABORTED))
    assert planted.kinds() == ["I4 aborted"]


def test_a_record_of_an_aborted_transaction_that_was_read_once() -> None:
    planted = Planted()
    values = planted.transaction(ABORTED)
    planted.read_committed([])
    reading = Reading("once", PLACE, True, [Seen(RECORDS, values[0], None)])
    planted.history.readings.append(reading)
    assert planted.kinds() == ["I4 aborted"]


def test_a_transaction_that_is_there_in_part() -> None:
    planted = Planted()
    planted.read_committed(planted.transaction(UNKNOWN)[:1])
    assert planted.kinds() == ["I4 part"]


def test_a_committed_transaction_that_is_not_there() -> None:
    planted = Planted()
    planted.transaction(COMMITTED)
    planted.read_committed([])
    assert planted.kinds() == ["I1 lost"]


def test_a_committed_offset_that_goes_back() -> None:
    planted = Planted()
    planted.history.commits.append(Commit("m", "g", PLACE, 1, 5, 0.1, acknowledged_s=0.2))
    planted.history.fetched.append(Fetched("n", "g", PLACE, 5, 0.3))
    assert planted.kinds() == []
    planted.history.fetched.append(Fetched("n", "g", PLACE, 4, 0.4))
    assert planted.kinds() == ["I7 lost"]


def test_a_member_s_own_earlier_commit_may_come_after_its_later_one() -> None:
    """Unless it was refused (KIP-1251)."""
    planted = Planted()
    late = Commit("m", "g", PLACE, 1, 5, 0.1, member_id="id")
    planted.history.commits += [late, Commit("m", "g", PLACE, 2, 9, 0.3, 0.4, member_id="id")]
    planted.history.fetched.append(Fetched("n", "g", PLACE, 5, 0.5))
    assert planted.kinds() == []
    late.is_refused = True
    assert planted.kinds() == ["I7 lost"]
    late.is_refused, late.member_id = False, "of another member"
    assert planted.kinds() == ["I7 lost"]
