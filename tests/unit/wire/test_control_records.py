"""Markers, read by kafka-python. That they are Apache Kafka's byte for byte is shown on logs that
it wrote: tests/broker/test_transactional_logs.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from kavka.compat_tests.raw.codec import batches
from kavka.wire.control_records import Marker, end_marker, read_marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import LOG_APPEND_TIME, crc_of, read_header

INT32_MAX = 2**31 - 1


@given(
    st.booleans(),
    st.integers(0, INT32_MAX),
    st.integers(0, 2**62),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
)
def test_a_marker_is_what_kafka_python_reads(
    committed: bool, coordinator_epoch: int, timestamp: int, producer_id: int, epoch: int
) -> None:
    marker = Marker(committed, coordinator_epoch, timestamp)
    batch = end_marker(producer_id, epoch, marker)
    whole: Any = MemoryRecords(bytes(batch)).next_batch()
    assert whole.validate_crc() and whole.is_control_batch and whole.is_transactional
    assert (whole.producer_id, whole.producer_epoch) == (producer_id, epoch)
    assert (whole.base_sequence, whole.max_timestamp) == (-1, timestamp)
    (record,) = whole
    assert (record.abort, record.commit) == (not committed, committed)
    assert record.value == b"\0\0" + coordinator_epoch.to_bytes(4, "big")
    assert (record.offset, record.timestamp, record.headers) == (0, timestamp, [])
    assert read_marker(read_header(batch), batch) == marker


def control(key: bytes | None, value: bytes | None) -> bytearray:
    """A control batch with any record in it."""
    batch = batches.build([batches.Written(key, value)], producer=(7, 1, 0), transactional=True)
    attributes = batches.field(batch, "attributes") | batches.CONTROL
    return batches.patch(batch, attributes=attributes, base_sequence=-1)


def read(batch: bytearray) -> Marker | None:
    assert crc_of(batch) == read_header(batch).crc
    return read_marker(read_header(batch), batch)


def test_later_versions_are_read_as_far_as_they_are_known() -> None:
    batch = control(b"\0\1\0\1and more", b"\0\1\0\0\0\5and more")
    assert read(batch) == Marker(True, 5, batches.BASE_TIMESTAMP_MS)


def test_the_time_is_the_record_s_or_the_log_s() -> None:
    batch = control(b"\0\0\0\0", b"\0\0\0\0\0\1")
    later = batches.patch(batch, max_timestamp=batches.BASE_TIMESTAMP_MS + 9)
    assert read(later) == Marker(False, 1, batches.BASE_TIMESTAMP_MS)
    attributes = batches.field(later, "attributes") | LOG_APPEND_TIME
    by_log = batches.patch(later, attributes=attributes)
    assert read(by_log) == Marker(False, 1, batches.BASE_TIMESTAMP_MS + 9)


@pytest.mark.parametrize("kind", [2, 3, 6, 77])
def test_other_control_records_end_no_transaction(kind: int) -> None:
    assert read(control(bytes([0, 0, 0, kind]), b"")) is None


def test_an_emptied_control_batch_ends_no_transaction() -> None:
    emptied = batches.patch(batches.around(b"", count=0, attributes=0x30), last_offset_delta=0)
    assert read(emptied) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b"\0\0\0\0\0\1"), (b"\0\0\0", b""), (b"\0\0\0\1", None), (b"\0\0\0\1", b"\0\0\0\0\0")],
)
def test_malformed_markers_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ApiError) as refused:
        read(control(key, value))
    assert refused.value.code == ErrorCode.INVALID_RECORD
