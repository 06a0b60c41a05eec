"""Records of transactional ids, as Apache Kafka 4.3.1 and 3.9.2 wrote them."""

from __future__ import annotations

import pytest

from kavka.txncoord import transaction_records
from kavka.txncoord.transaction import State, Transaction
from kavka.txncoord.transaction_records import decode_key, encode_key, tombstone
from kavka.wire.steps import QUICK_ITEMS_PER_STEP, run_at_once

MS = 0x1A2_0071_0000
"""What the times below begin with."""

NOTHING: frozenset[tuple[str, int]] = frozenset()
T0 = frozenset({("t", 0)})
MANY = frozenset({("t", 0), ("t", 1), ("u", 0)})

EMPTY = Transaction(State.EMPTY, 3, 3, -1, 0, -1, 50_000, NOTHING, -1, MS + 0xABCE, 0)
ONGOING = Transaction(State.ONGOING, 0, 0, -1, 0, -1, 50_000, MANY, MS + 0xA673, MS + 0xA71F, 0)
COMMITTED = Transaction(
    State.COMPLETE_COMMIT, 3, 3, -1, 1, -1, 50_000, NOTHING, MS + 0xABDA, MS + 0xAC22, 2
)
OF_THE_LAST_EPOCH = Transaction(
    State.PREPARE_ABORT, 900_002, 900_002, 1_002, 2**15 - 1, -1, 50_000, T0, MS + 0x10062,
    MS + 0x100CE, 2,
)  # fmt: skip
OLD_EMPTY = Transaction(State.EMPTY, 1, -1, -1, 2, -1, 50_000, NOTHING, -1, MS - 0x135C4, 0)
OLD_ABORTED = Transaction(
    State.PREPARE_ABORT, 1, -1, -1, 1, -1, 50_000, T0, MS - 0x135E9, MS - 0x135D6, 0
)

WRITTEN = {
    "00010000000000000003"
    "00000000c3500000000001a20071abceffffffffffffffff0100080000000000000003": EMPTY,
    "0001000000000000000000000000c350010302740300000000000000010002750200000000"
    "00000001a20071a71f000001a20071a6730100080000000000000000": ONGOING,
    "0001000000000000000300010000c3500401000001a20071ac22000001a20071abda"
    "020008000000000000000302020002": COMMITTED,
    "000100000000000dbba27fff0000c35003020274020000000000000001a2007200ce000001a200720062"
    "03000800000000000dbba2010800000000000003ea02020002": OF_THE_LAST_EPOCH,
    "0000000000000000000100020000c35000ffffffff000001a2006fca3cffffffffffffffff": OLD_EMPTY,
    "0000000000000000000100010000c3500300000001000174000000010000000"
    "0000001a2006fca2a000001a2006fca17": OLD_ABORTED,
}
"""Values of Apache Kafka 4.3.1, and at the end of 3.9.2; where it had drawn the order of
partitions from a hash table, in order."""


def encode(txn: Transaction, version: int) -> bytes:
    return run_at_once(transaction_records.encode(txn, version))


def decode(value: bytes) -> Transaction | None:
    return run_at_once(transaction_records.decode(value))


@pytest.mark.parametrize("value", WRITTEN)
def test_values_written_by_apache_kafka_are_decoded(value: str) -> None:
    assert decode(bytes.fromhex(value)) == WRITTEN[value]


@pytest.mark.parametrize("value", WRITTEN)
def test_values_are_encoded_as_by_apache_kafka(value: str) -> None:
    data = bytes.fromhex(value)
    assert encode(WRITTEN[value], data[1]) == data


@pytest.mark.parametrize("value", WRITTEN)
def test_a_truncated_value_is_not_decoded(value: str) -> None:
    data = bytes.fromhex(value)
    assert [decode(data[:size]) for size in range(len(data))] == [None] * len(data)


def test_the_level_of_the_feature_determines_the_version() -> None:
    forms = [
        run_at_once(transaction_records.transaction_record("a", COMMITTED, feature))
        for feature in (0, 1, 2)
    ]
    assert [decode(record.value or b"") for record in forms] == [
        COMMITTED._replace(previous_producer_id=-1, version=0),
        COMMITTED,
        COMMITTED,
    ]
    assert {record.key for record in forms} == {bytes.fromhex("0000000161")}


def test_unknown_tagged_fields_are_skipped() -> None:
    """Tag 3, the next producer's epoch, is in the schema, but never written."""
    data = encode(COMMITTED, 1)
    assert data.endswith(bytes.fromhex("02020002"))
    tags = len(data) - 15
    assert data[tags] == 2
    longer = data[:tags] + b"\x04" + data[tags + 1 :] + bytes.fromhex("0302ffffac0203aabbcc")
    assert decode(longer) == COMMITTED


@pytest.mark.parametrize("change", ["0002", "7fff", "ffff"])
def test_later_versions_are_not_decoded(change: str) -> None:
    assert decode(bytes.fromhex(change) + encode(COMMITTED, 1)[2:]) is None


@pytest.mark.parametrize("number", [6, 7, 8, -1])
def test_states_that_are_never_written_are_not_decoded(number: int) -> None:
    data = bytearray(encode(COMMITTED, 1))
    data[16] = number & 255
    assert decode(bytes(data)) is None


def test_many_partitions() -> None:
    count = 5 * QUICK_ITEMS_PER_STEP
    for partitions in (
        frozenset((f"topic-{number % 7}" * 30, number) for number in range(count)),
        frozenset((f"topic-{number}", 0) for number in range(count)),
    ):
        many = ONGOING._replace(partitions=partitions)
        for version in (0, 1):
            value = encode(many, version)
            found = decode(value)
            assert found is not None and found.partitions == partitions
            assert sum(1 for _ in transaction_records.encode(many, version)) > 5
            assert sum(1 for _ in transaction_records.decode(value)) > 2


def test_keys() -> None:
    assert encode_key("ä") == b"\x00\x00\x00\x02\xc3\xa4"
    assert decode_key(encode_key("ä")) == "ä"
    assert tombstone("ä") == (encode_key("ä"), None)


@pytest.mark.parametrize("key", ["", "0000", "000000", "00010001" "61", "0000000261", "0000000162" "62", "00000001ff"])  # fmt: skip  # noqa: E501
def test_other_keys_are_not_decoded(key: str) -> None:
    assert decode_key(bytes.fromhex(key)) is None
