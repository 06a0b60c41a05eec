"""Ending a transaction in a partition: the marker, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable

from kavka.log.partition_log import Appended, PartitionLog
from kavka.wire.control_records import Marker, end_marker
from kavka.wire.records import BatchHeader, read_header


def append_marker(
    log: PartitionLog,
    producer_id: int,
    producer_epoch: int,
    marker: Marker,
    append: Callable[[memoryview, BatchHeader], Appended],
    *,
    version: int = 0,
) -> Appended:
    """End a producer's transaction of protocol `version`, as leader: have `append` put the control
    batch that says so at the end of the log.

    ApiError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, and whatever `append` refuses;
    the log is as it was.
    OSError: the log is not to be used any more. Its marker may be there, and what that ends
    is not shown as decided.
    """
    batch = memoryview(end_marker(producer_id, producer_epoch, marker))
    header = read_header(batch)
    producers = log.producers
    producers.check_marker(header, marker, version)
    appended = append(batch, header)
    aborted = producers.aborted_by(producer_id, marker, appended.base_offset)
    if aborted is not None:
        log.note_aborted(aborted)
    producers.end(header, marker, appended.base_offset)
    return appended
