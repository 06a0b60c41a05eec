"""Batches made here: byte for byte what kafka-python's producer makes of the same records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.compat_tests.raw.codec import batches
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, Written
from kavka.wire.building import NewRecord, batch_of_pairs, build_batch, varint
from kavka.wire.compression import Codec
from kavka.wire.record_batches import (
    TRANSACTIONAL,
    check_batch,
    crc_of,
    iter_records,
    payload_of,
    read_header,
    read_varint,
)
from kavka.wire.steps import run_at_once

LIMIT_BYTES = 1 << 20

BYTES = st.none() | st.binary(max_size=300)
WRITTEN = st.builds(
    Written,
    key=BYTES,
    value=BYTES,
    headers=st.lists(st.tuples(st.text(max_size=8), BYTES), max_size=3),
    time_ms=st.integers(-(10**9), 10**9),
)


def new(record: Written) -> NewRecord:
    return NewRecord(
        BASE_TIMESTAMP_MS + record.time_ms, record.key, record.value, list(record.headers)
    )


@given(st.lists(WRITTEN, min_size=1, max_size=8))
def test_the_batch_is_the_one_that_kafka_python_makes(written: list[Written]) -> None:
    # but for the leader epoch, which the broker writes: -1 as the Java client has it
    expected = batches.patch(batches.build(written), leader_epoch=-1)
    assert build_batch([new(record) for record in written]) == expected


@given(st.lists(WRITTEN, min_size=1, max_size=8))
def test_the_broker_takes_and_reads_it(written: list[Written]) -> None:
    batch = build_batch([new(record) for record in written])
    header = check_batch(memoryview(batch))
    read = list(iter_records(header, payload_of(header, batch, LIMIT_BYTES)))
    assert [(record.key, record.value) for record in read] == [
        (record.key, record.value) for record in written
    ]


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_are_read_back(value: int) -> None:
    data = varint(value)
    assert read_varint(data, 0, 64) == (value, len(data))


PAIRS = st.lists(st.tuples(st.binary(max_size=300), BYTES), min_size=1, max_size=8)


@given(PAIRS)
def test_pairs_make_the_same_batch(pairs: list[tuple[bytes, bytes | None]]) -> None:
    records = [NewRecord(BASE_TIMESTAMP_MS, key, value) for key, value in pairs]
    assert run_at_once(batch_of_pairs(pairs, BASE_TIMESTAMP_MS)) == build_batch(records)


ALIKE = st.tuples(
    st.binary(max_size=9), st.none() | st.binary(max_size=9), st.sampled_from([1, 2, 64, 200, 1000])
)


@given(st.lists(ALIKE, min_size=1, max_size=6))
def test_many_equal_records(runs: list[tuple[bytes, bytes | None, int]]) -> None:
    """What is said of one record in a row of equal sizes is true of the others as well; up to
    where their numbers get longer."""
    pairs = [(key, value) for key, value, count in runs for _ in range(count)]
    records = [NewRecord(BASE_TIMESTAMP_MS, key, value) for key, value in pairs]
    assert run_at_once(batch_of_pairs(pairs, BASE_TIMESTAMP_MS)) == build_batch(records)


@given(PAIRS, st.sampled_from(Codec))
def test_pairs_in_a_codec_and_a_transaction(
    pairs: list[tuple[bytes, bytes | None]], codec: Codec
) -> None:
    batch = run_at_once(
        batch_of_pairs(
            pairs,
            5,
            attributes=codec | TRANSACTIONAL,
            producer_id=7,
            producer_epoch=3,
            base_sequence=2,
        )
    )
    header = read_header(batch)
    assert header.crc == crc_of(batch)
    assert header.size == len(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 2)
    assert header.is_transactional
    assert [(record.key, record.value) for record in batches.read(batch)] == pairs
