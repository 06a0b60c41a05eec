"""What topics require of records. What Apache Kafka 4.3.1 makes of the same is asked by
tests/differential; the texts here are what it answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    LOG_APPEND_TIME,
    Written,
    around,
    build,
    patch,
)
from kavka.server.replica.record_rules import (
    RECORD_ERRORS_MAX,
    RecordCheck,
    RecordRules,
    RecordsRefused,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import payload_of, read_header
from support.logs import settings

NOW_MS = BASE_TIMESTAMP_MS
HOUR_MS = 3_600_000
COMPACTED: dict[str, Any] = {"cleanup_policy": ("compact",)}
APPENDED: dict[str, Any] = {"message_timestamp_type": "LogAppendTime"}
BOUNDED: dict[str, Any] = {"message_timestamp_before_max_ms": HOUR_MS}


def checked(batch: bytearray, *, step: int = 1000, **changes: Any) -> int:
    """The newest time of its records, if a topic with these settings takes them all."""
    header = read_header(batch)
    payload = payload_of(header, batch, 1 << 24)
    rules = RecordRules.of(settings(**changes))
    check = RecordCheck(rules, header, payload, now_ms=NOW_MS, where="t-3")
    while not check.step(step):
        pass
    return check.newest


def refused(batch: bytearray, **changes: Any) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as raised:
        checked(batch, **changes)
    return raised.value


def at(*times_ms: int) -> bytearray:
    return build([Written(b"k", time_ms=time_ms) for time_ms in times_ms])


def numbers(error: RecordsRefused) -> Sequence[int]:
    return [record_error.batch_index for record_error in error.record_errors]


# -- which batches are checked ------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        COMPACTED,
        {"cleanup_policy": ("compact", "delete")},
        APPENDED,
        BOUNDED,
        {"compression_type": "uncompressed"},
        {"compression_type": "zstd"},
    ],
)
def test_configs_that_require_a_check_of_every_batch(changes: dict[str, Any]) -> None:
    assert RecordRules.of(settings(**changes)).for_every_batch


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"message_timestamp_before_max_ms": 2**63 - 1, "message_timestamp_after_max_ms": 5},
        {"compression_gzip_level": 1, "compression_type": "producer"},
        {"cleanup_policy": ()},
    ],
)
def test_configs_that_do_not(changes: dict[str, Any]) -> None:
    assert not RecordRules.of(settings(**changes)).for_every_batch


def test_levels_are_those_of_the_codec() -> None:
    rules = RecordRules.of(
        settings(compression_gzip_level=2, compression_lz4_level=12, compression_zstd_level=-7)
    )
    assert [rules.level(codec) for codec in range(5)] == [None, 2, None, 12, -7]


# -- keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 2, 5, 1000])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_compacted_topics_require_keys(codec: str, step: int) -> None:
    batch = build([Written(b"k"), Written(None), Written(b""), Written(None)], codec=codec)
    assert checked(batch, step=step) == BASE_TIMESTAMP_MS
    error = refused(batch, step=step, **COMPACTED)
    why = "Compacted topic cannot accept message without key in topic partition t-3"
    assert error.code is ErrorCode.INVALID_RECORD
    assert [
        (record_error.batch_index, record_error.batch_index_error_message)
        for record_error in error.record_errors
    ] == [
        (1, why),
        (3, why),
    ]
    assert error.message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing "
        f"the first three errors at most: [RecordError(batchIndex=1, message='{why}'), "
        f"RecordError(batchIndex=3, message='{why}')]"
    )
    assert error.keyless == 2


def test_keys_of_any_length() -> None:
    sizes = (0, 1, 62, 63, 64, 127, 128, 10_000)
    checked(build([Written(b"k" * size, time_ms=300 * size) for size in sizes]), **COMPACTED)


def test_the_record_errors_are_bounded_and_their_count_is_not() -> None:
    count = RECORD_ERRORS_MAX + 7
    error = refused(build([Written(None)] * count), **COMPACTED)
    assert numbers(error) == list(range(RECORD_ERRORS_MAX))
    assert f"due to {count} record errors" in (error.message or "")
    assert (error.message or "").count("RecordError(") == 3


# -- times ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "changes", "bad"),
    [
        ((0, HOUR_MS), {}, []),
        ((0, HOUR_MS + 1, 5, HOUR_MS + 2), {}, [1, 3]),
        ((-(10**12), 0), {}, []),
        ((0, -HOUR_MS), BOUNDED, []),
        ((0, -HOUR_MS - 1, HOUR_MS), BOUNDED, [1]),
        ((-1, 0, 1), {"message_timestamp_after_max_ms": 0}, [2]),
        ((-1, 0, 1), {"message_timestamp_before_max_ms": 0}, [0]),
        ((10**12,), {"message_timestamp_after_max_ms": 2**63 - 1}, []),
        ((10**12, -(10**12)), {**APPENDED, **BOUNDED}, []),
    ],
)
def test_timestamp_bounds(times: Sequence[int], changes: dict[str, Any], bad: list[int]) -> None:
    batch = at(*times)
    if not bad:
        assert checked(batch, **changes) == BASE_TIMESTAMP_MS + max(times)
        return
    error = refused(batch, **changes)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert numbers(error) == bad
    assert error.message == "One or more records have been rejected due to invalid timestamp"


def test_the_message_has_the_bounds() -> None:
    error = refused(at(0, -2 * HOUR_MS), **BOUNDED)
    assert error.record_errors[0].batch_index_error_message == (
        f"Timestamp {BASE_TIMESTAMP_MS - 2 * HOUR_MS} of message with offset 1 is out of range. "
        f"The timestamp should be within [{NOW_MS - HOUR_MS}, {NOW_MS + HOUR_MS}]"
    )


def test_the_bounds_overflow_as_in_java() -> None:
    error = refused(
        at(-1), message_timestamp_before_max_ms=0, message_timestamp_after_max_ms=2**63 - 1
    )
    message = error.record_errors[0].batch_index_error_message or ""
    assert message.endswith(f"within [{NOW_MS}, {NOW_MS - 2**63 - 1}]")


def test_timestamps_that_overflow_are_out_of_range() -> None:
    latest = patch(at(0, 1), base_timestamp=2**63 - 2)
    assert checked(latest, message_timestamp_after_max_ms=2**63 - 1) == 2**63 - 1
    beyond = patch(at(0, 1, 2), base_timestamp=2**63 - 2)
    error = refused(beyond, message_timestamp_after_max_ms=2**63 - 1)
    assert (error.code, numbers(error)) == (ErrorCode.INVALID_TIMESTAMP, [2])


def test_records_without_a_timestamp_are_accepted() -> None:
    batch = patch(build(), base_timestamp=-1, max_timestamp=-1)
    assert checked(batch, **BOUNDED) == -1


def test_a_missing_key_is_reported_before_a_timestamp() -> None:
    batch = build([Written(None, time_ms=2 * HOUR_MS), Written(b"k", time_ms=2 * HOUR_MS)])
    error = refused(batch, **COMPACTED)
    assert error.code is ErrorCode.INVALID_TIMESTAMP, "as one of them is refused for it"
    first, second = [
        record_error.batch_index_error_message or "" for record_error in error.record_errors
    ]
    assert "without key" in first
    assert "out of range" in second
    assert error.keyless == 1


# -- the flag of LogAppendTime, which is not the client's to set ----------------------------

FLAGGED = patch(build([Written(b"key"), Written()]), attributes=LOG_APPEND_TIME)


def test_log_append_time_set_by_a_producer_is_refused() -> None:
    error = refused(FLAGGED, **APPENDED)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [record_error.batch_index_error_message for record_error in error.record_errors] == [
        f"Invalid timestamp type in message DefaultRecord(offset={offset}, "
        f"timestamp={BASE_TIMESTAMP_MS}, key={key} bytes, value=5 bytes). Producer should not set "
        "timestamp type to LogAppendTime."
        for offset, key in ((0, 3), (1, 0))
    ]


def test_log_append_time_is_refused_in_compressed_batches() -> None:
    sent = build([Written(b"key" * 30, None), Written(None, b"v" * 99)], codec="gzip")
    batch = patch(sent, attributes=LOG_APPEND_TIME | 1)
    for codec, kind, null in (("producer", "Partial", -1), ("gzip", "Partial", -1), ("lz4", "", 0)):
        error = refused(batch, **APPENDED, compression_type=codec)
        assert [
            (record_error.batch_index_error_message or "").partition(". ")[0]
            for record_error in error.record_errors
        ] == [
            f"Invalid timestamp type in message {kind}DefaultRecord(offset={offset}, "
            f"timestamp={BASE_TIMESTAMP_MS}, key={key} bytes, value={value} bytes)"
            for offset, key, value in ((0, 90, null), (1, null, 99))
        ]


def test_log_append_time_without_a_max_timestamp_is_refused() -> None:
    assert numbers(refused(patch(FLAGGED, max_timestamp=-1))) == [0, 1]


def test_with_log_append_time_all_records_have_max_timestamp() -> None:
    time_ms = NOW_MS + HOUR_MS
    assert checked(patch(FLAGGED, max_timestamp=time_ms)) == time_ms
    assert numbers(refused(patch(FLAGGED, max_timestamp=time_ms + 1))) == [0, 1]


def test_with_log_append_time_keys_are_checked_first() -> None:
    error = refused(FLAGGED, **COMPACTED)
    assert error.code is ErrorCode.INVALID_RECORD
    assert numbers(error) == [1]


# -- what is no record ----------------------------------------------------------------------


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
def test_malformed_records_refuse_the_batch(attributes: int) -> None:
    with pytest.raises(ApiError) as raised:
        checked(around(b"\xff" * 40, count=1, attributes=attributes), **COMPACTED)
    assert raised.value.code is ErrorCode.INVALID_RECORD
    assert not isinstance(raised.value, RecordsRefused)
