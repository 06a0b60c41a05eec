"""What a log answers: where a batch was put, and where batches are."""

from __future__ import annotations

from typing import NamedTuple

from kavka.log.fs import File
from kavka.log.producer_entry import AppendedBatch
from kavka.log.scan import Extent
from kavka.log.segment import Segment
from kavka.wire.errors import ApiError, ErrorCode


class Appended(NamedTuple):
    """Where a batch is in the log. `log_append_time_ms` is -1 for the producer's own times."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


class Slice(NamedTuple):
    """Batches in one file: `length` bytes from `position` on. The last may be cut off."""

    file: File
    position: int
    length: int
    base_offset: int
    """Of the first batch."""
    more_follows: bool = False
    """What may be read goes on in a later segment, however little there is of this one."""


def slice_of(found: tuple[Segment, Extent] | None) -> Slice | None:
    """The whole batch that was found, if one was."""
    if found is None:
        return None
    segment, extent = found
    return Slice(segment.file, extent.position, extent.size, extent.base_offset)


def duplicate_of(earlier: AppendedBatch) -> Appended:
    """The answer to a copy of a batch that is in the log."""
    # Apache Kafka answers a duplicate with the batch's timestamp in place of the append time
    return Appended(earlier.base_offset, earlier.last_offset, earlier.timestamp, True)


def out_of_range(offset: int, name: str, start: int, end: int) -> ApiError:
    """Why nothing is read at an offset of the log of that name, which has these bounds."""
    told = f"offset {offset} of {name} is not within {start} to {end}"
    return ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, told)
