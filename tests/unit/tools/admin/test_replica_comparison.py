"""Replicas that differ, and where a comparison ends."""

from __future__ import annotations

import pytest

from kavka.tools.admin.replica_comparison import Compared, Fetched, compare
from kavka.wire.crc import crc32c
from kavka.wire.record_batches import CRC_START, HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES

RECORDS = b"records"


def batch(offset: int, count: int = 1, records: bytes = RECORDS) -> bytes:
    size = HEADER_BYTES + len(records) - LENGTH_PREFIX_BYTES
    fields = (0, count - 1, 0, 0, -1, -1, -1, count)
    rest = (HEADER.pack(offset, size, 0, 2, 0, *fields) + records)[CRC_START:]
    return HEADER.pack(offset, size, 0, 2, crc32c(rest), *fields) + records


def fetched(*parts: bytes, high_watermark: int = 100) -> Fetched:
    return Fetched(memoryview(b"".join(parts)), high_watermark)


def test_alike_up_to_the_shortest() -> None:
    both = (batch(5), batch(6, 3))
    assert compare({1: fetched(*both), 2: fetched(*both)}, 5) == Compared(9, [])
    assert compare({1: fetched(*both), 2: fetched(both[0])}, 5) == Compared(6, [])
    cut = fetched(both[0], both[1][:-1])
    assert compare({1: fetched(*both), 2: cut}, 5) == Compared(6, [])
    assert compare({1: fetched(*both), 2: fetched()}, 5) == Compared(5, [])


def test_only_up_to_each_high_watermark() -> None:
    both = (batch(5), batch(6))
    behind = fetched(*both, high_watermark=6)
    assert compare({1: fetched(*both), 2: behind}, 5) == Compared(6, [])


def test_offsets_that_differ_end_it() -> None:
    found = compare({1: fetched(batch(5), batch(6)), 2: fetched(batch(5), batch(6, 2))}, 5)
    assert found.next_offset == 6
    (difference,) = found.differences
    assert (
        difference.sentence("t-0")
        == "partition t-0: replica 1's offset 6 doesn't match replica 2's offset 7"
    )


@pytest.mark.parametrize("other", [b"Records", b"more records"])
def test_checksums_and_sizes_that_differ(other: bytes) -> None:
    found = compare(
        {1: fetched(batch(5), batch(6)), 2: fetched(batch(5, records=other), batch(6))}, 5
    )
    assert found.next_offset == 7
    kinds = [difference.kind for difference in found.differences]
    assert kinds == ["checksum", "size"][: 1 + (len(other) != len(RECORDS))]
    assert (
        found.differences[0]
        .sentence("t-0")
        .startswith("partition t-0 has unmatched checksum at offset 5; replica 1's checksum ")
    )


def test_a_batch_that_is_not_what_its_checksum_says() -> None:
    damaged = batch(5)[:-1] + b"S"
    found = compare({1: fetched(batch(5)), 2: fetched(damaged)}, 5)
    (difference,) = found.differences
    assert (difference.kind, difference.replica, difference.offset) == ("damage", 2, 5)
