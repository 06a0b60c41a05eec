"""What a topic's settings require of the records that are written to it, beyond a batch's header.

Pure: `kavka.server.replica.batch_admission` decides when records have to be opened for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kavka.log.settings import LOG_APPEND_TIME as APPEND_TIME
from kavka.log.settings import LogSettings
from kavka.wire.apis.produce import RecordError
from kavka.wire.compression import Bytes, Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import (
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    iter_records,
)
from kavka.wire.rewriting import iter_heads

RECORD_ERRORS_MAX: Final = 1000
"""Records of a batch for which the response says why they were refused; Apache Kafka names all. A
million of them, which fit into a small compressed batch, would make a response of 150 MB."""

ALWAYS: Final = -(2**63) - 1
"""For `Replica.inspect_newer_than_ms`: below every timestamp, so that every batch is inspected."""

_SHOWN: Final = 3
_UNBOUNDED_MS: Final = 2**62
_LONG_SPAN: Final = 2**64
_LONG_MAX: Final = 2**63 - 1

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class RecordsRefused(ApiError):
    """A batch with records that its topic does not accept (KIP-467)."""

    def __init__(
        self, code: ErrorCode, message: str, errors: list[RecordError], keyless: int
    ) -> None:
        super().__init__(code, message)
        self.record_errors = errors
        self.keyless = keyless
        """How many of them have no key, which compacted topics require."""


class NotVerified(ApiError):
    """A transactional batch whose partition is not verified to be in the transaction (KIP-890). The
    message, if any, is for the client."""


@dataclass(frozen=True, slots=True)
class RecordRules:
    """One topic's rules. Spans in milliseconds."""

    keyed: bool
    """Every record needs a key: the topic is compacted."""

    append_time: bool
    codec: int | None
    """The codec that batches are stored in; None for the producer's."""

    gzip_level: int
    lz4_level: int
    zstd_level: int
    before_max_ms: int
    after_max_ms: int

    @classmethod
    def of(cls, settings: LogSettings) -> RecordRules:
        return cls(
            keyed="compact" in settings.cleanup_policy,
            append_time=settings.message_timestamp_type == APPEND_TIME,
            codec=_CODECS.get(settings.compression_type),
            gzip_level=settings.compression_gzip_level,
            lz4_level=settings.compression_lz4_level,
            zstd_level=settings.compression_zstd_level,
            before_max_ms=settings.message_timestamp_before_max_ms,
            after_max_ms=settings.message_timestamp_after_max_ms,
        )

    @property
    def for_every_batch(self) -> bool:
        """Whether every batch has to be inspected, whatever the max timestamp in its header."""
        return self.keyed or self.append_time or self.codec is not None or self.dated

    @property
    def dated(self) -> bool:
        """Whether records may be too old, which no header shows: it has the first and the newest
        timestamp in the batch, not the oldest."""
        return not self.append_time and self.before_max_ms < _UNBOUNDED_MS

    def level(self, codec: int) -> int | None:
        """The compression level for a codec; None if it has none."""
        if codec == Codec.GZIP:
            return self.gzip_level
        if codec == Codec.LZ4:
            return self.lz4_level
        return self.zstd_level if codec == Codec.ZSTD else None


class RecordCheck:
    """Checks the records of a batch one by one, in steps, for what its topic does not accept.

    The messages are those of Apache Kafka's LogValidator.
    """

    def __init__(
        self, rules: RecordRules, header: BatchHeader, payload: Bytes, *, now_ms: int, where: str
    ) -> None:
        self.newest = NO_TIMESTAMP
        """The greatest timestamp in ms among the records checked so far."""
        self.consecutive = True
        """Whether their offsets count from 0 on."""
        self._rules = rules
        self._header = header
        self._now_ms = now_ms
        self._where = where
        self._errors: list[RecordError] = []
        self._refused = 0
        self._untimed = 0
        flagged = header.attributes & LOG_APPEND_TIME
        self._checks = self._flagged(payload) if flagged else self._plain(payload)

    def step(self, records_max: int) -> bool:
        """Check so many more records; whether that was all.

        RecordsRefused at the end if one was refused; INVALID_RECORD at once if one is malformed.
        """
        for _ in range(records_max):
            if next(self._checks, None) is None:
                self._end()
                return True
        return False

    def _plain(self, payload: Bytes) -> Iterator[bool]:
        rules, base = self._rules, self._header.base_timestamp
        keyed, by_clock = rules.keyed, not rules.append_time
        oldest = self._now_ms - rules.before_max_ms
        latest = min(self._now_ms + rules.after_max_ms, _LONG_MAX)  # no later time can be stored
        newest = NO_TIMESTAMP
        heads = iter_heads(self._header, payload)
        for index, (delta, key_bytes, offset_delta) in enumerate(heads):
            timestamp = base + delta
            if offset_delta != index:
                self.consecutive = False
            if keyed and key_bytes < 0:
                self._refuse(index, self._keyless())
            elif by_clock and not oldest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
                self._refuse_timestamp(index, self._out_of_range(index, timestamp))
            if timestamp > newest:
                self.newest = newest = timestamp
            yield True

    def _flagged(self, payload: Bytes) -> Iterator[bool]:
        """A client's batch with the LogAppendTime flag, which gives all records one timestamp."""
        rules, timestamp = self._rules, self._header.max_timestamp
        oldest, latest = self._now_ms - rules.before_max_ms, self._now_ms + rules.after_max_ms
        forbidden = rules.append_time or timestamp == NO_TIMESTAMP
        self.newest = timestamp
        for index, record in enumerate(iter_records(self._header, payload)):
            if rules.keyed and record.key is None:
                self._refuse(index, self._keyless())
            elif forbidden:
                self._refuse_timestamp(index, self._claims_append_time(index, record))
            elif not oldest <= timestamp <= latest:
                self._refuse_timestamp(index, self._out_of_range(index, timestamp))
            if record.offset_delta != index:
                self.consecutive = False
            yield True

    def _refuse(self, index: int, why: str) -> None:
        self._refused += 1
        if len(self._errors) < RECORD_ERRORS_MAX:
            self._errors.append(RecordError(index, why))

    def _refuse_timestamp(self, index: int, why: str) -> None:
        self._untimed += 1
        self._refuse(index, why)

    def _keyless(self) -> str:
        return f"Compacted topic cannot accept message without key in topic partition {self._where}"

    def _claims_append_time(self, index: int, record: Record) -> str:
        """The message of Apache Kafka, which reads records only in part where the batch keeps its
        codec, and then gives -1 as the size of a null."""
        header, codec = self._header, self._rules.codec
        partial = header.compression and codec in (None, header.compression)
        of_null = -1 if partial else 0
        key_bytes = of_null if record.key is None else len(record.key)
        value_bytes = of_null if record.value is None else len(record.value)
        return (
            f"Invalid timestamp type in message {'Partial' if partial else ''}DefaultRecord("
            f"offset={index}, timestamp={header.max_timestamp}, key={key_bytes} bytes, "
            f"value={value_bytes} bytes). Producer should not set timestamp type to LogAppendTime."
        )

    def _out_of_range(self, index: int, timestamp: int) -> str:
        rules = self._rules
        oldest = self._now_ms - rules.before_max_ms
        latest = self._now_ms + rules.after_max_ms
        return (
            f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp "
            f"should be within [{oldest}, {_as_long(latest)}]"
        )

    def _end(self) -> None:
        if not self._refused:
            return
        code = ErrorCode.INVALID_TIMESTAMP if self._untimed else ErrorCode.INVALID_RECORD
        if self._untimed:
            message = "One or more records have been rejected due to invalid timestamp"
        else:
            shown = ", ".join(
                f"RecordError(batchIndex={error.batch_index}, "
                f"message='{error.batch_index_error_message}')"
                for error in self._errors[:_SHOWN]
            )
            message = (
                f"One or more records have been rejected due to {self._refused} record errors in "
                f"total, and only showing the first three errors at most: [{shown}]"
            )
        raise RecordsRefused(code, message, self._errors, self._refused - self._untimed)


def _as_long(value: int) -> int:
    """A sum as a Java long, which overflows from the greatest number to the least."""
    return value - _LONG_SPAN if value > _LONG_MAX else value
