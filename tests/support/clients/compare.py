"""Is what was read what was written? With the first difference named, not ten thousand records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafka.partitioner.default import murmur2

from support.clients.client import Ack, Found
from support.clients.corpus import Record, by_partition


def assert_same(
    first: Mapping[int, Sequence[Found]], second: Mapping[int, Sequence[Found]]
) -> None:
    """Two readings of the same partitions."""
    assert sorted(first) == sorted(second)
    for partition, left in first.items():
        right = second[partition]
        for number, (a, b) in enumerate(zip(left, right, strict=False)):
            assert a == b, f"partition {partition}, record {number}"
        assert len(left) == len(right), f"partition {partition}"


def assert_placed(
    written: Sequence[Record], acks: Sequence[Ack], found: Mapping[int, Sequence[Found]]
) -> None:
    """Records whose writer chose partition and timestamp: each where its acknowledgement says."""
    expected = {
        partition: [Found(offset, record) for offset, record in enumerate(records)]
        for partition, records in by_partition(written).items()
    }
    assert_same(expected, found)
    assert len(acks) == len(written)
    for record, ack in zip(written, acks, strict=True):
        assert found[ack.partition][ack.offset].record == record


def assert_unplaced(
    written: Sequence[Record], found: Mapping[int, Sequence[Found]], from_ms: int, to_ms: int
) -> None:
    """Records that the producer placed and stamped: each once, in order, placed by its key."""
    number_of = {_identity(record): number for number, record in enumerate(written)}
    assert len(number_of) == len(written), "records of the corpus can't be distinguished"
    seen = []
    for partition, records in found.items():
        numbers = []
        for offset, (at, record) in enumerate(records):
            assert at == offset
            assert record.partition == partition
            assert record.timestamp_ms is not None
            assert from_ms <= record.timestamp_ms <= to_ms
            if record.key is not None:
                assert partition == partition_of(record.key, len(found))
            numbers.append(number_of[_identity(record)])
        assert numbers == sorted(numbers), f"partition {partition} is out of order"
        seen += numbers
    assert sorted(seen) == list(range(len(written)))


def partition_of(key: bytes, partitions: int) -> int:
    """Where Java's producer puts a key."""
    hashed: int = murmur2(key)
    return (hashed & 0x7FFFFFFF) % partitions


def _identity(record: Record) -> Record:
    return replace(record, partition=None, timestamp_ms=None)
