"""The state machine as the journal drives it: loading in slices, and records that can't be read."""

from __future__ import annotations

import logging

import pytest

from kavka.log.journal import Decision, JournalRecord
from kavka.txncoord import ending, shard
from kavka.txncoord.transaction_records import encode_key
from kavka.txncoord.transaction_requests import ProducerIdAndEpoch
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.error_codes import error_code_of
from support.transaction_machine import FIRST_ID, TransactionKit

FIRST = ProducerIdAndEpoch(FIRST_ID, 0)


def test_many_ids_are_loaded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "LOADED_PER_STEP", 10)
    kit = TransactionKit()
    for number in range(35):
        kit.init(f"x{number}")
    assert list(kit.replayed().loaded(kit.now_ms)) == [Decision()] * 3


def test_many_bytes_are_loaded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = TransactionKit()
    for number in range(6):
        kit.init(f"x{number}")
    monkeypatch.setattr(shard, "BYTES_PER_STEP", 2 * len(kit.appended[-1].value or b""))
    assert list(kit.replayed().loaded(kit.now_ms)) == [Decision()] * 3


def test_only_the_last_replayed_value_of_an_id_is_decoded(caplog: pytest.LogCaptureFixture) -> None:
    """A transaction with many partitions is written whole with each one that is added."""
    kit = TransactionKit()
    kit.init()
    key, value = kit.appended[-1]
    assert value is not None
    kit.port.batches.insert(0, ((JournalRecord(key, value[:-1]),), None))
    again = kit.replayed()
    list(again.loaded(kit.now_ms))
    assert again.state.transactions.keys() == {"x"}
    assert not caplog.records, "the first can't be decoded"
    kit.port.batches.reverse()
    again = kit.replayed()
    list(again.loaded(kit.now_ms))
    assert not again.state.transactions
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "record",
    [
        JournalRecord(b"", b""),
        JournalRecord(b"\x00\x01\x00\x01x", b"\x00\x00"),
        JournalRecord(b"\x00\x00\x00\x02x", None),
        JournalRecord(b"\x00\x00\x00\x01x ", None),
        JournalRecord(b"\x00\x00\x00\x01\xff", None),
        JournalRecord(encode_key("x"), b""),
        JournalRecord(encode_key("x"), b"\x00\x02" + bytes(40)),
    ],
)
def test_a_record_that_can_not_be_read_is_skipped(
    record: JournalRecord, caplog: pytest.LogCaptureFixture
) -> None:
    kit = TransactionKit()
    kit.init()
    before = dict(kit.shard.state.transactions)
    with caplog.at_level(logging.WARNING):
        kit.shard.apply_all([record], None)
    assert kit.shard.state.transactions == before
    assert len(caplog.records) == 1


def test_an_id_is_no_longer_than_fits_into_a_key() -> None:
    """Flexible requests have room for more, but Apache Kafka could not read such a record."""
    kit = TransactionKit()
    longest = "é" * (2**14 - 1)
    kit.init(longest)
    assert error_code_of(kit.init, longest + "xx") == ErrorCode.UNKNOWN_SERVER_ERROR
    kit.move()
    assert kit.shard.state.transactions.keys() == {longest}


def test_no_request_waits_in_the_machine_and_markers_of_its_partition_mean_nothing() -> None:
    kit = TransactionKit()
    kit.init()
    assert kit.shard.resign() == ()
    run_at_once(kit.shard.apply_marker(FIRST_ID, 0, True))
    kit.add(FIRST, ("t", 0))
