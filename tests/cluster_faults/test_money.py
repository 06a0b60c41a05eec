"""Money that is lost, doubled or there in part is found."""

from __future__ import annotations

from cluster_faults.money import (
    ACCOUNTS,
    OPENED_WITH,
    PARTITIONS,
    TOTAL,
    Entry,
    Ledger,
    broken_promises,
    parse,
)
from sim.history import ABORTED, COMMITTED, UNKNOWN

OPENING = [Entry(1, ACCOUNTS, account, OPENED_WITH, OPENED_WITH) for account in range(ACCOUNTS)]
FIRST = [Entry(2, 2, 0, -10, OPENED_WITH - 10), Entry(2, 2, 1, 10, OPENED_WITH + 10)]
SECOND = [Entry(3, 2, 1, -5, OPENED_WITH + 5), Entry(3, 2, 2, 5, OPENED_WITH + 5)]


def read(*entries: Entry, settled: int = 3) -> list[str]:
    """What is violated where these are read, and these are known to have ended."""
    ledger = Ledger()
    for offset, entry in enumerate(entries):
        ledger.take(entry.account % PARTITIONS, offset, entry.value())
    ledger.settle(settled)
    assert ledger.last == entries[-1].transfer
    return ledger.violations


def test_an_entry_is_read_as_it_was_written() -> None:
    for entry in (*OPENING, *FIRST):
        assert parse(entry.value()) == entry
    for value in (b"", b"1/2/3/4/5", b"1/2/3/4/5/6", b"a/2/3/4/5/", b"zombie"):
        assert parse(value) is None


def test_transfers_are_well() -> None:
    assert sum(entry.balance for entry in OPENING) == TOTAL
    assert read(*OPENING, *FIRST, *SECOND) == []


def test_of_one_that_has_not_ended_a_part_may_be_there() -> None:
    assert read(*OPENING, *FIRST, SECOND[0], settled=2) == []


def test_what_is_whole_is_in_every_partition_as_far_as_the_next() -> None:
    ledger = Ledger()
    whole = []
    for offset, entry in enumerate((*OPENING, *FIRST, *SECOND)):
        ledger.take(entry.account % PARTITIONS, offset, entry.value())
        whole.append(ledger.whole)
    assert whole == [-1, -1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert ledger.has_begun(2) and not ledger.has_begun(3)


def test_nothing_is_transferred() -> None:
    nothing = [Entry(4, PARTITIONS, ACCOUNTS + at, 0, 0) for at in range(PARTITIONS)]
    assert {entry.account % PARTITIONS for entry in nothing} == set(range(PARTITIONS))
    assert read(*OPENING, *nothing, settled=4) == []


def test_a_part_of_a_transfer_is_missing() -> None:
    assert read(*OPENING, *FIRST, SECOND[0]) == [
        "I4 part: of transfer 3 1 of 2 entries are there",
        f"I9 sum: after transfer 3 there is {TOTAL - 5}, and not {TOTAL}",
    ]


def test_a_part_of_the_opening_is_missing() -> None:
    assert read(*OPENING[:-1], settled=1) == [
        f"I4 part: of transfer 1 {ACCOUNTS - 1} of {ACCOUNTS} entries are there",
        f"I9 sum: after transfer 1 there is {TOTAL - OPENED_WITH}, and not {TOTAL}",
    ]


def test_a_whole_transfer_is_missing() -> None:
    assert read(*OPENING, *SECOND) == [
        f"I9 balance: money/1@6: account 1 had {OPENED_WITH}, and transfer 3 of -5 makes it "
        f"{OPENED_WITH + 5}",
        f"I9 sum: after transfer 3 there is {TOTAL + 10}, and not {TOTAL}",
    ]


def test_money_comes_from_nowhere() -> None:
    more = [FIRST[0], Entry(2, 2, 1, 11, OPENED_WITH + 11)]
    assert read(*OPENING, *more, settled=2) == [
        f"I9 sum: after transfer 2 there is {TOTAL + 1}, and not {TOTAL}"
    ]


def test_an_entry_is_there_twice() -> None:
    found = read(*OPENING, *FIRST, FIRST[1], settled=2)
    assert [violation.split(":")[0] for violation in found] == ["I9 balance", "I4 part"]


def test_transfers_in_another_order() -> None:
    found = read(*OPENING, *SECOND, *FIRST[::-1], FIRST[0]._replace(transfer=3))
    assert any(
        violation.startswith("I5 inversion: money/1@8: transfer 2 after 3") for violation in found
    )


def test_a_transfer_that_comes_when_it_should_have_been_there() -> None:
    ledger = Ledger()
    for offset, entry in enumerate((*OPENING, *FIRST)):
        ledger.take(entry.account % PARTITIONS, offset, entry.value())
    ledger.settle(3)
    ledger.take(1, 8, SECOND[0].value())
    assert ledger.violations == ["I4 late: money/1@8: transfer 3, read after 3"]


def test_what_is_no_entry() -> None:
    ledger = Ledger()
    ledger.take(0, 7, b"zombie")
    assert ledger.violations == ["I2 foreign: money/0@7: b'zombie' was never written"]


def test_promises_are_kept() -> None:
    outcomes = {1: COMMITTED, 2: ABORTED, 3: UNKNOWN, 4: UNKNOWN}
    assert list(broken_promises({1: 6, 3: 2}, outcomes)) == []


def test_promises_are_broken() -> None:
    assert list(broken_promises({2: 1, 9: 2}, {1: COMMITTED, 2: ABORTED})) == [
        "I1 lost: transfer 1 is committed, and not there",
        "I4 aborted: transfer 2 is aborted, and 1 entries are there",
        "I2 foreign: transfer 9 was never made",
    ]
