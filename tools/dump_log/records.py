"""The records in a batch, as they lie there: damage is found where it is met, not before."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.dump_log.java_values import increment_sequence, wrap_long
from kavka.tools.java_text import text
from kavka.wire.compression import decompress
from kavka.wire.errors import ApiError
from kavka.wire.record_batches import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_SEQUENCE,
    BatchHeader,
    read_record,
)

PAYLOAD_BYTES_MAX: Final = 2**31 - 1
"""The most that a batch may decompress to."""


class Part(Enum):
    """What of a message before magic 2 lies behind its end, with all that follows."""

    KEY_SIZE = auto()
    KEY = auto()
    VALUE = auto()


class CutShort(Failed):
    """Why a message before magic 2 can't be read whole."""

    def __init__(self, offset: int, part: Part, words: str = "null") -> None:
        super().__init__(f"the message at offset {offset} is cut short")
        self.part = part
        self.words = words
        """Java's, where a part is read."""


class Record(NamedTuple):
    """One record. `crc`, `is_valid`, `sizes` and `damage` are those of a message before magic 2."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    sequence: int = NO_SEQUENCE
    headers: tuple[str, ...] = ()
    """Their names."""
    crc: int | None = None
    is_valid: bool = True
    sizes: tuple[int, int] | None = None
    """Of key and value as they are written: any negative number is null. None of a message before
    magic 2: they can't be read."""
    damage: CutShort | None = None
    """Why key and value can't be read, and maybe their sizes."""


def iter_records(header: BatchHeader, batch: bytes) -> Iterator[Record]:
    """The records of a batch of magic 2. Failed at the first malformed one; at once if they are
    compressed."""
    if header.record_count == 0:
        return iter(())
    if header.record_count < 0:
        raise Failed(
            f"Found invalid record count {header.record_count} in magic v{header.magic} batch"
        )
    if not header.compression:
        return _iter_payload(header, batch[HEADER_BYTES:])
    try:
        payload = decompress(header.compression, batch[HEADER_BYTES:], PAYLOAD_BYTES_MAX)
    except ApiError as error:
        raise _malformed(header, str(error)) from error
    return iter(list(_iter_payload(header, bytes(payload))))


def _iter_payload(header: BatchHeader, payload: bytes) -> Iterator[Record]:
    position, end = 0, len(payload)
    for number in range(1, header.record_count + 1):
        try:
            found, position = read_record(payload, position, end)
        except IndexError:
            raise _malformed(header, "a record goes past the end of its batch") from None
        except ApiError as error:
            raise _malformed(header, str(error)) from error
        if number == header.record_count and position != end:
            raise _malformed(header, f"{end - position} bytes after the last record")
        timestamp = wrap_long(header.base_timestamp + found.timestamp_delta)
        sequence = header.base_sequence
        yield Record(
            wrap_long(header.base_offset + found.offset_delta),
            header.max_timestamp if header.attributes & LOG_APPEND_TIME else timestamp,
            None if found.key is None else bytes(found.key),
            None if found.value is None else bytes(found.value),
            increment_sequence(sequence, found.offset_delta) if sequence >= 0 else NO_SEQUENCE,
            tuple(text(name) for name, _ in found.headers),
        )


def _malformed(header: BatchHeader, message: str) -> Failed:
    return Failed(f"the batch at offset {header.base_offset} is damaged: {message}")
