"""The result of an append to a log."""

from __future__ import annotations

from typing import NamedTuple

from kavka.log.producer_entry import AppendedBatch


class Appended(NamedTuple):
    """The offsets of an appended batch. `log_append_time_ms` is -1 with CreateTime."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


def duplicate_of(earlier: AppendedBatch) -> Appended:
    """The result for a duplicate of a batch in the log."""
    # Apache Kafka answers a duplicate with the batch's timestamp in place of the append time
    return Appended(earlier.base_offset, earlier.last_offset, earlier.timestamp, True)
