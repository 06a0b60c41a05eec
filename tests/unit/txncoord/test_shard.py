"""The machine as the journal drives it: what is in the log, and what is not to be read."""

from __future__ import annotations

import logging

import pytest

from kavka.log.journal import Decision, Record
from kavka.txncoord import ending, records, shard
from kavka.txncoord.records import encode_key, tombstone
from kavka.txncoord.requests import ProducerIdAndEpoch
from kavka.txncoord.transaction import Transaction
from kavka.wire.steps import Steps, run_at_once
from support.transaction_machine import FIRST_ID, TransactionKit


def test_a_replay_comes_to_the_same() -> None:
    kit = TransactionKit()
    kit.transact(kit.init("x"))
    kit.add(kit.init("y"), transactional_id="y")
    live = {one: state._replace(last_epoch=-1) for one, state in transactions(kit).items()}
    kit.move()
    assert transactions(kit) == live
    kit.replay(kit.shard)
    assert transactions(kit) == live, "once more changes nothing"


def transactions(kit: TransactionKit) -> dict[str, Transaction]:
    return dict(kit.shard.state.transactions)


def test_many_ids_are_taken_over_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "LOADED_A_STEP", 10)
    kit = TransactionKit()
    for number in range(35):
        kit.init(f"x{number}")
    again = kit.new_shard()
    kit.replay(again)
    decisions = list(again.loaded(kit.now_ms))
    assert decisions == [Decision()] * 3


def test_of_what_is_replayed_only_the_last_of_an_id_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A transaction with many partitions is written whole with each that is added: to read all of
    that would take long, in the middle of a chunk of the log."""
    kit = TransactionKit()
    producer = kit.init()
    for index in range(50):
        kit.add(producer, ("t", index))
    read: list[bytes] = []
    decode = records.decode

    def counted(value: bytes) -> Steps[Transaction | None]:
        read.append(value)
        return decode(value)

    monkeypatch.setattr(records, "decode", counted)
    again = kit.new_shard()
    kit.replay(again)
    assert not read
    list(again.loaded(kit.now_ms))
    assert read == [kit.appended[-1].value]
    assert again.state.transactions["x"].partitions == {("t", index) for index in range(50)}


def test_what_is_much_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = TransactionKit()
    for number in range(6):
        kit.add(kit.init(f"x{number}"), transactional_id=f"x{number}")
    monkeypatch.setattr(shard, "BYTES_A_STEP", 2 * len(kit.appended[-1].value or b""))
    again = kit.new_shard()
    kit.replay(again)
    assert list(again.loaded(kit.now_ms)) == [Decision()] * 3


def test_a_tombstone_makes_an_id_go() -> None:
    kit = TransactionKit()
    kit.init()
    kit.shard.apply(tombstone("x"), None)
    kit.shard.apply(tombstone("x"), None)
    assert not kit.shard.state.transactions
    kit.port.batches.append(((tombstone("x"),), None))
    kit.move()
    assert not kit.shard.state.transactions


@pytest.mark.parametrize(
    "record",
    [
        Record(b"", b""),
        Record(b"\x00\x01\x00\x01x", b"\x00\x00"),
        Record(b"\x00\x00\x00\x02x", None),
        Record(b"\x00\x00\x00\x01x ", None),
        Record(b"\x00\x00\x00\x01\xff", None),
        Record(encode_key("x"), b""),
        Record(encode_key("x"), b"\x00\x02" + bytes(40)),
    ],
)
def test_what_can_not_be_read_is_skipped(record: Record, caplog: pytest.LogCaptureFixture) -> None:
    kit = TransactionKit()
    kit.init()
    before = transactions(kit)
    with caplog.at_level(logging.WARNING):
        kit.shard.apply_all([record], None)
    assert transactions(kit) == before
    assert len(caplog.records) == 1


def test_nobody_waits_in_the_machine() -> None:
    kit = TransactionKit()
    kit.init()
    assert kit.shard.resign() == ()
    run_at_once(kit.shard.apply_marker(FIRST_ID, 0, True))
    kit.add(ProducerIdAndEpoch(FIRST_ID, 0))
